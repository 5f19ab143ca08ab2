"""Plans: what each package of a recipe is built from, under which key and version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from forkwheel.console import Console
from forkwheel.errors import RecipeError
from forkwheel.fetch import FetchContext
from forkwheel.key import Key, build_key, development_version, released_version
from forkwheel.patching.series import Series, check_expiry, load_series
from forkwheel.recipe import FileSource, GitSource, Package, Recipe
from forkwheel.release.inputs import Inputs, PackageInputs
from forkwheel.release.lock import LockedWheel, Revision, WheelsLock
from forkwheel.sources import SourceTree, archive_tree, source_tree

_AT_ONCE = 4


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
        """The Python, ABI and platform tags of the wheel that it is made from, or nothing."""
        source = self.source.source
        return "" if isinstance(source, GitSource) or source.kind != "wheel" else wheel_tags(source.filename)

    @property
    def label(self) -> str:
        """Name the package, and which of its wheels, for a person."""
        return f"{self.package.name} {self.tags}" if self.tags and not self.package.is_taken else self.package.name


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
    variants = [variant for package in in_order(recipe) for variant in package.variants(kind)]
    sources = _fetch_all(variants, context=context, console=console, kind=kind)
    current = lock.revision(recipe.revision)
    plans: list[Plan] = []
    versions: dict[str, str] = {}
    for package, source in zip(variants, sources, strict=True):
        plan = _plan(
            recipe,
            package,
            source=source,
            series=series[package.name],
            inputs=_inputs(package, source, inputs),
            required=_required(package, versions),
            current=current,
            revision=revision,
        )
        plans.append(plan)
        versions[canonicalize_name(package.name)] = plan.version
    return tuple(plans)


def _fetch_all(
    packages: Sequence[Package], *, context: FetchContext, console: Console, kind: str | None
) -> list[SourceTree]:
    def fetch(package: Package) -> SourceTree:
        mine = replace(context, log=console.bind(package.name))
        return archive_tree(package, context=mine) if package.is_taken else source_tree(package, context=mine, kind=kind)

    with ThreadPoolExecutor(max_workers=min(len(packages), _AT_ONCE)) as pool:
        return list(pool.map(fetch, packages))


def _inputs(package: Package, source: SourceTree, inputs: Inputs) -> PackageInputs:
    """Return what the build needs: nothing is built of a wheel."""
    return PackageInputs(package.name, (), (), ()) if source.source.kind == "wheel" else inputs.part(package.name)


def _plan(
    recipe: Recipe,
    package: Package,
    *,
    source: SourceTree,
    series: Series,
    inputs: PackageInputs,
    required: tuple[tuple[str, str], ...],
    current: Revision | None,
    revision: int | None,
) -> Plan:
    key = build_key(
        recipe, package, tree_digest=source.tree.digest, series=series, required=dict(required), inputs=inputs
    )
    tags = wheel_tags(source.source.filename) if isinstance(source.source, FileSource) else ""
    locked = current.wheel(package.name, tags=tags) if current is not None else None
    if revision is None:
        revision = recipe.revision if locked is not None and locked.key == key.digest else 0
    if package.is_taken:
        version = package.version
    elif revision:
        version = released_version(package, local=recipe.local, revision=revision)
    else:
        version = development_version(package, local=recipe.local, key=key)
    return Plan(package, source, series, inputs, required, key, version, revision, locked)


def wheel_tags(filename: str) -> str:
    """Return the Python, ABI and platform tags of a wheel's file name; nothing for another file's."""
    return "-".join(filename.removesuffix(".whl").split("-")[-3:]) if filename.endswith(".whl") else ""


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
