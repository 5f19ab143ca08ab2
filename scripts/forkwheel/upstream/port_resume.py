"""Going on with a port that stopped, or giving it up."""

from __future__ import annotations

from pathlib import Path

from forkwheel.errors import UsageError
from forkwheel.patching.series import Series, load_series
from forkwheel.patching.worktree import fingerprint
from forkwheel.recipe import Recipe
from forkwheel.store import remove_tree
from forkwheel.upstream.port import PortSettings, picked
from forkwheel.upstream.port_settle import check_untouched, settle
from forkwheel.upstream.port_state import PackageState, PortState, load_state, save_state
from forkwheel.upstream.port_tree import PortTree


def check_same(recipe: Recipe, *, name: str | None, out: Path | None, settings: PortSettings) -> None:
    """Raise UsageError where an open port was begun for another recipe, name or folder than are given now."""
    state = load_state(settings.work)
    if Path(state.recipe) != recipe.file:
        raise UsageError(f"{settings.work} is a port of {state.recipe}", hint="give that recipe, or another --work")
    given = {"--name": name, "--out": str(out) if out is not None else None}
    for (option, value), kept in zip(given.items(), (state.name, state.out), strict=True):
        if value is not None and value != kept:
            raise UsageError(
                f"the port in {settings.work} was begun {f'with {option} {kept}' if kept else f'without {option}'},"
                f" not with {value}",
                hint=f"leave {option} out, or give the port up with `{settings.command} --abort` and begin again",
            )


def resume(recipe: Recipe, *, settings: PortSettings, skip: bool) -> PortState:
    """Take up a port that stopped: with the files as they were mended, or without the patch that stopped it."""
    state = load_state(settings.work)
    trees = {
        package.new.name: PortTree(settings.work / package.new.name, epoch=recipe.package(package.new.name).epoch)
        for package in state.packages
        if package.commits
    }
    if gone := next((tree.folder for tree in trees.values() if not tree.is_there()), None):
        raise UsageError(
            f"{gone} is no git work tree any more", hint=f"begin again: `{settings.command} --abort`, then the port"
        )
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
    return package if tree.head() == package.head else picked(tree, package, package.head)


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
