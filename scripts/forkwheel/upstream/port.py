"""Porting a recipe's series to other revisions: the work trees, and bringing patch after patch over.

Until the last step everything is in one work folder: ``port.json`` (the state) and a git work
tree for each ported package. The new series and recipe appear only when every patch is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import canonicalize_name

from forkwheel.console import Log, plural
from forkwheel.errors import UsageError
from forkwheel.fetch import FetchContext, fetch_source
from forkwheel.patching.overlay import Overlay
from forkwheel.patching.series import load_series
from forkwheel.patching.worktree import fingerprint
from forkwheel.recipe import Package, Recipe
from forkwheel.store import remove_tree
from forkwheel.upstream.port_goals import Goal, mirrors_of
from forkwheel.upstream.port_recipe import check_portable
from forkwheel.upstream.port_state import PackageState, PortState, PortStoppedError, is_port, save_state
from forkwheel.upstream.port_target import Target, check_requires, make_target, with_requires
from forkwheel.upstream.port_tree import PortTree
from forkwheel.upstream.project import check_project
from forkwheel.upstream.revisions import base_tree
from forkwheel.upstream.verdict import expired_by


@dataclass(frozen=True)
class PortSettings:
    """Where a port is made: the work folder, and the command that goes on with it."""

    work: Path
    command: str


def begin(
    recipe: Recipe,
    goals: Mapping[str, Goal],
    *,
    name: str,
    out: Path | None,
    settings: PortSettings,
    context: FetchContext,
) -> PortState:
    """Find the new sources, and make the work trees; nothing is rebased yet."""
    if settings.work.exists():
        if not is_port(settings.work):
            raise UsageError(f"{settings.work} exists, and holds no port", hint="remove it, or give another --work")
        raise UsageError(
            f"{settings.work} holds a port that is not finished",
            hint=f"go on with `{settings.command} --continue`, or give it up with `{settings.command} --abort`",
        )
    mirrors = mirrors_of(goals, recipe)
    context = replace(context, mirrors=(*mirrors, *context.mirrors))
    found = _targets(recipe, goals, context=context)
    made = settings.work.with_name(f".{settings.work.name}.new")
    if made.exists():
        remove_tree(made)
    made.mkdir(parents=True)
    packages = [_begin_package(target, made, context=context) for target in found]
    state = PortState(
        recipe=str(recipe.file),
        name=name,
        out=str(out) if out is not None else None,
        mirrors=mirrors,
        packages=tuple(packages),
    )
    save_state(made, state)
    made.rename(settings.work)
    return state


def _targets(recipe: Recipe, goals: Mapping[str, Goal], *, context: FetchContext) -> list[Target]:
    found = []
    for package in recipe.packages:
        if package.name not in goals:
            continue
        mine = of_package(context, package)
        with mine.log.stage(f"find {goals[package.name].version}"), context.store.temporary() as folder:
            found.append(make_target(package, goals[package.name], context=mine, work=folder / "x"))
    versions: dict[str, str] = {canonicalize_name(target.new.name): target.new.version for target in found}
    every: dict[str, str] = {canonicalize_name(package.name): package.version for package in recipe.packages}
    every |= versions
    renewed = [replace(target, new=with_requires(target.new, versions)) for target in found]
    for target in renewed:
        if not target.new.requires:
            continue
        mine = of_package(context, target.new)
        with mine.log.stage("requirements"), context.store.temporary() as folder:
            root = fetch_source(target.new, target.new.sources[0], folder / "x", context=mine).root
            check_requires(with_requires(target.new, every), root)
    with context.store.temporary() as folder:
        check_portable(recipe, packages={target.new.name: target.new for target in renewed}, folder=folder)
    return renewed


def of_package(context: FetchContext, package: Package) -> FetchContext:
    """Return the context with the log of one package."""
    return replace(context, log=context.log.of(package.name))


def _begin_package(target: Target, work: Path, *, context: FetchContext) -> PackageState:
    old, new = target.old, target.new
    context = of_package(context, new)
    series = load_series(old.series)
    commits: list[str] = []
    base = ""
    if series.patches:
        with context.log.stage("work tree"):
            before, after = base_tree(old, context), base_tree(new, context)
            check_project(series, Overlay(before), Overlay(after), name=f"{new.name} {new.version}")
            tree = PortTree(work / old.name, epoch=old.epoch)
            commits = tree.build(series, before, after, package=old.name)
            base = tree.head()
    return PackageState(
        new=replace(new, series=None),
        notes=target.notes,
        series=fingerprint(series),
        base=base,
        commits=tuple((patch.name, commit) for patch, commit in zip(series.patches, commits, strict=True)),
        kept=(),
        dropped=(),
    )


def advance(recipe: Recipe, state: PortState, *, settings: PortSettings, log: Log) -> PortState:
    """Bring patch after patch over; raise PortStoppedError at the first conflict, to be gone on from."""
    for index, package in enumerate(state.packages):
        if package.current is None:
            continue
        mine = log.of(package.new.name)
        with mine.stage("patches"):
            while package.current is not None:
                mine.progress(package.current[0])
                package = _advanced(recipe.package(package.new.name), package, settings)
                state = state.with_package(index, package)
                save_state(settings.work, state)
    return state


def _advanced(old: Package, package: PackageState, settings: PortSettings) -> PackageState:
    """Bring the current patch of a package over, or drop it."""
    assert package.current is not None
    name, commit = package.current
    series = load_series(old.series)
    if (reason := expired_by(series.patches[series.index(name)], package.new.version)) is not None:
        return package.drop(f"upstream has it ({reason})")
    tree = PortTree(settings.work / old.name, epoch=old.epoch)
    before = tree.head()
    if conflicts := tree.pick(commit):
        raise _stopped(settings, package, name, conflicts)
    return picked(tree, package, before)


def picked(tree: PortTree, package: PackageState, before: str) -> PackageState:
    """Keep what was brought over, or drop it where nothing of it is left."""
    if tree.changed(before, "HEAD"):
        return package.keep(tree.head())
    tree.undo(before)
    return package.drop("upstream has the same change: nothing of it was left")


def _stopped(settings: PortSettings, package: PackageState, name: str, conflicts: list[str]) -> PortStoppedError:
    folder = settings.work / package.new.name
    files = "\n".join(f"  {folder / path}" for path in conflicts)
    return PortStoppedError(
        f"{name} is in conflict with {package.new.name} {package.new.version}:\n{files}\n"
        f"{plural(len(package.kept), 'patch')} carried over, {len(package.dropped)} dropped,"
        f" {len(package.commits) - len(package.kept) - len(package.dropped)} left;"
        " nothing outside of the work folder was changed",
        hint=f"mend the files (`git diff` in {folder} shows both sides), then run `{settings.command} --continue`;"
        f" `--skip` drops this patch, `--abort` gives the port up",
    )
