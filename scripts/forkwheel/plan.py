"""Plans: what each package of a recipe is built from, under which key and version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from forkwheel.console import Console
from forkwheel.errors import ForkwheelError, PatchError, RecipeError
from forkwheel.fetch import FetchContext
from forkwheel.key import Key, build_key, development_version, released_version
from forkwheel.patching.apply import Change, check_series
from forkwheel.patching.series import Series, check_expiry, load_series
from forkwheel.recipe import FileSource, GitSource, Package, Recipe, wheel_tags
from forkwheel.release.inputs import Inputs, PackageInputs
from forkwheel.release.lock import LockedWheel, Revision, WheelsLock
from forkwheel.sources import SourceTree, archive_tree, source_tree

_AT_ONCE = 4
"""Sources that are fetched at the same time."""


@dataclass(frozen=True)
class Plan:
    """What one wheel will be made of.

    ``revision`` is 0 for a development build. ``locked`` is what the lock says of the
    package in the recipe's current revision, whether or not the key is the same.
    """

    package: Package
    source: SourceTree
    series: Series
    inputs: PackageInputs
    required: tuple[tuple[str, str], ...]
    key: Key
    version: str
    revision: int
    locked: LockedWheel | None

    @property
    def tags(self) -> str:
        """The tags of the wheel that it is made from, or nothing."""
        source = self.source.source
        return "" if isinstance(source, GitSource) or source.kind != "wheel" else wheel_tags(source.filename)

    @property
    def label(self) -> str:
        """Name the package, and which of its wheels, for a person."""
        return _label(self.package, self.tags)


def _label(package: Package, tags: str) -> str:
    return f"{package.name} {tags}" if tags and not package.is_taken else package.name


def make_plans(
    recipe: Recipe,
    *,
    inputs: Inputs,
    lock: WheelsLock,
    context: FetchContext,
    console: Console,
    kind: str | None = None,
    revision: int | None = None,
) -> tuple[Plan, ...]:
    """Fetch every source and decide every key and version, the required packages first.

    A key that the lock's current revision knows has that revision's version, any other a
    development version; ``revision`` gives all of them that revision's version instead.
    """
    series = {package.name: load_series(package.series) for package in recipe.packages}
    for package in recipe.packages:
        check_expiry(series[package.name], package.version)
    variants = [package.variants(kind) for package in in_order(recipe)]
    every = [one for group in variants for one in group]
    sources = iter(_fetch_all(every, context=context, console=console, kind=kind))
    current = lock.revision(recipe.revision)
    plans: list[Plan] = []
    versions: dict[str, str] = {}
    for group in variants:
        made = _plans(
            recipe,
            [(package, next(sources)) for package in group],
            series=series[group[0].name],
            inputs=inputs,
            required=_required(group[0], versions),
            current=current,
            revision=revision,
        )
        plans += made
        versions[canonicalize_name(group[0].name)] = made[0].version
    return tuple(plans)


def _fetch_all(
    packages: Sequence[Package], *, context: FetchContext, console: Console, kind: str | None
) -> list[SourceTree]:
    def fetch(package: Package) -> SourceTree:
        tags = wheel_tags(package.sources[0].pin.partition("@")[0]) if len(package.sources) == 1 else ""
        mine = replace(context, log=console.bind(_label(package, tags)))
        if package.is_taken:
            return archive_tree(package, context=mine)
        with naming_wheel(package):
            return source_tree(package, context=mine, kind=kind)

    with ThreadPoolExecutor(max_workers=min(len(packages), _AT_ONCE)) as pool:
        return list(pool.map(fetch, packages))


@contextmanager
def naming_wheel(package: Package) -> Iterator[None]:
    """Let an error name the wheel that a package is made from: there may be several, and one at fault."""
    try:
        yield
    except ForkwheelError as error:
        name_wheel(package, error)
        raise


def name_wheel(package: Package, error: ForkwheelError) -> None:
    """Put the wheel that a package is made from before an error's message."""
    name = package.sources[0].pin.partition("@")[0]
    if len(package.sources) == 1 and name.endswith(".whl") and name not in error.message:
        error.message = f"{name}: {error.message}"
        error.args = (error.message,)


def check_plan(plan: Plan) -> tuple[Change, ...]:
    """Apply a plan's series in memory, and return what it changes; an error names the wheel, if it is made from one."""
    with naming_wheel(plan.package):
        changes = check_series(plan.series, plan.source.tree)
        if plan.tags and (own := [change.path for change in changes if ".dist-info/" in change.path]):
            raise PatchError(
                f"{own[0]} is the wheel's own record, which a patch must not change",
                hint="requirements are rewritten with the recipe's `requires`",
            )
    return changes


def _inputs(package: Package, source: SourceTree, inputs: Inputs) -> PackageInputs:
    """Return what the build needs: nothing is built of a wheel."""
    return PackageInputs(package.name, (), (), ()) if source.source.kind == "wheel" else inputs.part(package.name)


def _plans(
    recipe: Recipe,
    variants: Sequence[tuple[Package, SourceTree]],
    *,
    series: Series,
    inputs: Inputs,
    required: tuple[tuple[str, str], ...],
    current: Revision | None,
    revision: int | None,
) -> list[Plan]:
    """Plan the wheels of one package, which have one version: the lock's where it knows the keys of all."""
    keyed = []
    for package, source in variants:
        needed = _inputs(package, source, inputs)
        key = build_key(
            recipe, package, tree_digest=source.tree.digest, series=series, required=dict(required), inputs=needed
        )
        tags = wheel_tags(source.source.filename) if isinstance(source.source, FileSource) else ""
        locked = current.wheel(package.name, tags=tags) if current is not None else None
        if revision is None:
            _check_locked_version(recipe, package, locked)
        keyed.append((package, source, needed, key, locked))
    if revision is None:
        is_known = all(locked is not None and locked.key == key.digest for *_, key, locked in keyed)
        revision = recipe.revision if is_known else 0
    version = _version(recipe, [(package, key) for package, _, _, key, _ in keyed], revision=revision)
    return [
        Plan(package, source, series, needed, required, key, version, revision, locked)
        for package, source, needed, key, locked in keyed
    ]


def _check_locked_version(recipe: Recipe, package: Package, locked: LockedWheel | None) -> None:
    expected = (
        package.version if package.is_taken else released_version(package, local=recipe.local, revision=recipe.revision)
    )
    if locked is not None and locked.version != expected:
        raise RecipeError(
            f"{recipe.folder}: the lock of revision {recipe.revision} has {package.name} {locked.version}, "
            f"which the recipe calls {expected}",
            hint="run `nox -s lock -- --recipe RECIPE`, or restore the lock from version control",
        )


def _version(recipe: Recipe, keyed: Sequence[tuple[Package, Key]], *, revision: int) -> str:
    package, key = keyed[0]
    if package.is_taken:
        return package.version
    if revision:
        return released_version(package, local=recipe.local, revision=revision)
    if len(keyed) > 1:
        key = Key(tuple(sorted((one.sources[0].pin, each.digest) for one, each in keyed)))
    return development_version(package, local=recipe.local, key=key)


def _required(package: Package, versions: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    given = dict(package.required_versions)
    return tuple(
        (text, given[text] if text in given else versions[canonicalize_name(Requirement(text).name)])
        for text in package.requires
    )


def in_order(recipe: Recipe) -> tuple[Package, ...]:
    """Sort the packages so that each comes after those it requires; raise RecipeError on a cycle."""
    by_name: dict[str, Package] = {canonicalize_name(package.name): package for package in recipe.packages}
    ordered: dict[str, Package] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise RecipeError(
                f"{recipe.file}: packages require one another: {' -> '.join((*path, name))}",
                hint="remove one of them from `requires`",
            )
        for text in by_name[name].requires:
            needed = canonicalize_name(Requirement(text).name)
            if needed in by_name and needed not in ordered:
                visit(needed, (*path, name))
        ordered[name] = by_name[name]

    for name in by_name:
        if name not in ordered:
            visit(name, ())
    return tuple(ordered.values())
