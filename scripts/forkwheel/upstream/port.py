"""Porting a recipe's series to other revisions: begin, go on, write the result, or give up.

Until the last step everything is in one work folder: ``port.json`` (the state) and a git work
tree for each ported package. The new series and recipe appear only when every patch is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import canonicalize_name

from forkwheel.errors import UsageError
from forkwheel.fetch import FetchContext, fetch_source
from forkwheel.patching.series import Series, load_series
from forkwheel.patching.worktree import fingerprint
from forkwheel.recipe import Recipe
from forkwheel.store import remove_tree
from forkwheel.upstream.port_settle import check_untouched, settle
from forkwheel.upstream.port_state import PackageState, PortState, PortStoppedError, load_state, save_state
from forkwheel.upstream.port_target import Target, check_requires, make_target, with_requires
from forkwheel.upstream.port_tree import PortTree
from forkwheel.upstream.revisions import base_tree
from forkwheel.upstream.verdict import expired_by


@dataclass(frozen=True)
class PortSettings:
    """What is ported where to: the recipe's new name, the folder that gets the result, the work folder."""

    name: str
    out: Path
    work: Path
    command: str


def begin(
    recipe: Recipe,
    targets: Mapping[str, str],
    *,
    settings: PortSettings,
    context: FetchContext,
    repositories: Mapping[str, str],
) -> PortState:
    """Find the new sources, and make the work trees; nothing is rebased yet."""
    if settings.work.exists():
        raise UsageError(
            f"{settings.work} holds a port that is not finished",
            hint=f"go on with `{settings.command} --continue`, or give it up with `{settings.command} --abort`",
        )
    found = _targets(recipe, targets, context=context, repositories=repositories)
    made = settings.work.with_name(f".{settings.work.name}.new")
    if made.exists():
        remove_tree(made)
    made.mkdir(parents=True)
    packages = [_begin_package(target, made, context=context) for target in found]
    state = PortState(
        recipe=str(recipe.file), name=settings.name, out=str(settings.out.absolute()), packages=tuple(packages)
    )
    save_state(made, state)
    made.rename(settings.work)
    return state


def _targets(
    recipe: Recipe, targets: Mapping[str, str], *, context: FetchContext, repositories: Mapping[str, str]
) -> list[Target]:
    found = []
    for package in recipe.packages:
        if package.name not in targets:
            continue
        with context.store.temporary() as folder:
            repository = repositories.get(package.name)
            text = targets[package.name]
            found.append(make_target(package, text, context=context, repository=repository, work=folder / "x"))
    versions: dict[str, str] = {canonicalize_name(target.new.name): target.new.version for target in found}
    every: dict[str, str] = {canonicalize_name(package.name): package.version for package in recipe.packages}
    every |= versions
    renewed = [replace(target, new=with_requires(target.new, versions)) for target in found]
    for target in renewed:
        with context.store.temporary() as folder:
            root = fetch_source(target.new, target.new.sources[0], folder / "x", context=context).root
            check_requires(with_requires(target.new, every), root)
    return renewed


def _begin_package(target: Target, work: Path, *, context: FetchContext) -> PackageState:
    old, new = target.old, target.new
    series = load_series(old.series)
    commits: list[str] = []
    base = ""
    if series.patches:
        tree = PortTree(work / old.name, epoch=old.epoch)
        commits = tree.build(series, base_tree(old, context), base_tree(new, context), package=old.name)
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


def advance(recipe: Recipe, state: PortState, *, settings: PortSettings) -> PortState:
    """Bring patch after patch over; raise PortStoppedError at the first conflict, to be gone on from."""
    for index, package in enumerate(state.packages):
        old = recipe.package(package.new.name)
        series = load_series(old.series)
        tree = PortTree(settings.work / old.name, epoch=old.epoch)
        while (current := package.current) is not None:
            name, commit = current
            patch = series.patches[series.index(name)]
            if (reason := expired_by(patch, package.new.version)) is not None:
                package = package.drop(f"upstream has it ({reason})")
            else:
                before = tree.head()
                if conflicts := tree.pick(commit):
                    raise _stopped(settings, package, name, conflicts)
                package = _picked(tree, package, before)
            state = state.with_package(index, package)
            save_state(settings.work, state)
    return state


def _picked(tree: PortTree, package: PackageState, before: str) -> PackageState:
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
        f"{len(package.kept)} patches are over, {len(package.dropped)} were dropped,"
        f" {len(package.commits) - len(package.kept) - len(package.dropped)} are left;"
        " nothing outside of the work folder was changed",
        hint=f"mend the files (`git diff` in {folder} shows both sides), then run `{settings.command} --continue`;"
        f" `--skip` drops this patch, `--abort` gives the port up",
    )


def resume(recipe: Recipe, *, settings: PortSettings, skip: bool) -> PortState:
    """Take up a port that stopped: with the files as they were mended, or without the patch that stopped it."""
    state = load_state(settings.work)
    if Path(state.recipe) != recipe.file:
        raise UsageError(f"{settings.work} is a port of {state.recipe}", hint="give that recipe, or another --work")
    trees = {
        package.new.name: PortTree(settings.work / package.new.name, epoch=recipe.package(package.new.name).epoch)
        for package in state.packages
        if package.commits
    }
    stopped = next((index for index, package in enumerate(state.packages) if package.current is not None), None)
    for index, package in enumerate(state.packages):
        if package.commits and index != stopped:
            check_untouched(trees[package.new.name], package)
    if stopped is None:
        _check_skippable(None, settings, skip=skip)
        return state
    package = state.packages[stopped]
    tree = trees[package.new.name]
    _check_unmoved(load_series(recipe.package(package.new.name).series), package, settings)
    _check_skippable(tree, settings, skip=skip)
    renewed = _resumed(tree, package, skip=skip)
    if renewed != package:
        state = state.with_package(stopped, renewed)
        save_state(settings.work, state)
    return state


def _resumed(tree: PortTree, package: PackageState, *, skip: bool) -> PackageState:
    assert package.current is not None
    if skip:
        tree.undo(package.head)
        return package.drop("skipped by hand")
    settle(tree, package, package.current[1])
    return package if tree.head() == package.head else _picked(tree, package, package.head)


def _check_skippable(tree: PortTree | None, settings: PortSettings, *, skip: bool) -> None:
    if skip and (tree is None or not tree.is_pending()):
        raise UsageError(
            f"no patch is in conflict in {settings.work}, so there is none to skip",
            hint=f"go on with `{settings.command} --continue`",
        )


def _check_unmoved(series: Series, package: PackageState, settings: PortSettings) -> None:
    if fingerprint(series) != package.series:
        raise UsageError(
            f"{series.folder} changed since the port of {package.new.name} was begun",
            hint=f"begin again: `{settings.command} --abort`, then the port",
        )


def abort(settings: PortSettings) -> None:
    """Give a port up: its work folder goes, and nothing else was changed."""
    load_state(settings.work)
    remove_tree(settings.work)
