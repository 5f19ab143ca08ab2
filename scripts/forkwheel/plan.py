"""Plans: what each package of a recipe is built from, under which key and version."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from forkwheel.console import Console
from forkwheel.errors import RecipeError
from forkwheel.fetch import FetchContext
from forkwheel.key import Key, build_key, development_version, released_version
from forkwheel.patching.series import Series, check_expiry, load_series
from forkwheel.recipe import Package, Recipe
from forkwheel.release.inputs import Inputs, PackageInputs
from forkwheel.release.lock import LockedWheel, Revision, WheelsLock
from forkwheel.sources import SourceTree, source_tree


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
    sources = _fetch_all(recipe, context=context, console=console, kind=kind)
    current = lock.revision(recipe.revision)
    plans: dict[str, Plan] = {}
    for package in in_order(recipe):
        plans[canonicalize_name(package.name)] = _plan(
            recipe,
            package,
            source=sources[package.name],
            series=series[package.name],
            inputs=inputs.part(package.name),
            required=_required(package, plans),
            current=current,
            revision=revision,
        )
    return tuple(plans.values())


def _fetch_all(
    recipe: Recipe, *, context: FetchContext, console: Console, kind: str | None
) -> Mapping[str, SourceTree]:
    def fetch(package: Package) -> SourceTree:
        return source_tree(package, context=replace(context, log=console.bind(package.name)), kind=kind)

    with ThreadPoolExecutor(max_workers=len(recipe.packages)) as pool:
        found = list(pool.map(fetch, recipe.packages))
    return {package.name: source for package, source in zip(recipe.packages, found, strict=True)}


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
    locked = current.wheel(package.name) if current is not None else None
    if revision is None:
        revision = recipe.revision if locked is not None and locked.key == key.digest else 0
    version = (
        released_version(package, local=recipe.local, revision=revision)
        if revision
        else development_version(package, local=recipe.local, key=key)
    )
    return Plan(package, source, series, inputs, required, key, version, revision, locked)


def _required(package: Package, plans: Mapping[str, Plan]) -> tuple[tuple[str, str], ...]:
    given = dict(package.required_versions)
    return tuple(
        (text, given[text] if text in given else plans[canonicalize_name(Requirement(text).name)].version)
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
