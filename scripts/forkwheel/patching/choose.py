"""Which package, patch or open work tree a person means."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from packaging.utils import canonicalize_name

from forkwheel.errors import UsageError
from forkwheel.patching.header import PATCH_NAME
from forkwheel.patching.left import is_left
from forkwheel.patching.series import Series, load_series
from forkwheel.patching.worktree import Work, has_changes, read_work
from forkwheel.recipe import Package, Recipe

WORK_FOLDER = Path("build/patches")
"""Where work trees are opened, in a folder named as the package."""


def packages_of(recipe: Recipe, name: str | None) -> list[Package]:
    """Return the patched packages, or the one that is named."""
    chosen = [recipe.package(name)] if name else list(recipe.packages)
    patched = [package for package in chosen if package.series is not None]
    if not patched:
        raise UsageError(f"{name or recipe.name} has no patch series", hint="give the package a `series` in the recipe")
    return patched


def patch_name(text: str) -> str:
    """Return a patch's whole name; a person may leave out ``.patch``."""
    name = text if text.endswith(".patch") else f"{text}.patch"
    if not PATCH_NAME.fullmatch(name):
        raise UsageError(f"{text!r} is no plain patch name", hint="letters, digits, '.', '_', '+' and '-', no folder")
    return name


def package_of(recipe: Recipe, name: str, package: str | None, *, is_new: bool) -> tuple[Package, Series]:
    """Return the package whose series has the patch, or is to get it."""
    loaded = [(item, load_series(item.series, allow_todo=True)) for item in packages_of(recipe, package)]
    candidates = [item for item in loaded if any(patch.name == name for patch in item[1].patches)]
    if is_new:
        if candidates:
            raise UsageError(
                f"{candidates[0][1].folder} has {name} already", hint=f"open it with `patches --edit {name}`"
            )
        candidates = loaded
    if not candidates:
        raise _unknown(name, recipe, [patch.name for _, series in loaded for patch in series.patches])
    if len(candidates) > 1:
        names = ", ".join(item.name for item, _ in candidates)
        raise UsageError(f"{name} may be for several packages", hint=f"give --package: one of {names}")
    return candidates[0]


def _unknown(name: str, recipe: Recipe, known: Sequence[str]) -> UsageError:
    close = _closest(name, known)
    every = f"its patches are: {', '.join(known) or 'none'}"
    hint = f"the closest is {close}: `patches --edit {close}`" if close else every
    return UsageError(f"no series of {recipe.name} has {name}", hint=hint)


def _closest(name: str, known: Sequence[str]) -> str | None:
    """Return the one known name that a misspelt or shortened one most likely means."""
    stem = name.removesuffix(".patch")
    if len(containing := [other for other in known if stem in other]) == 1:
        return containing[0]
    stems = {other.removesuffix(".patch"): other for other in known}
    return next((stems[close] for close in get_close_matches(stem, stems, n=1, cutoff=0.4)), None)


def open_trees(recipe: Recipe, options: Namespace, *, name: str) -> list[tuple[Package, Work]]:
    """Return the open work trees, of the patch ``name`` alone where that is not empty; at least one."""
    found = _found(recipe, options)
    if not found:
        raise UsageError(f"no work tree is open under {WORK_FOLDER}", hint="open one with `patches --edit NAME`")
    if not name:
        return found
    meant = [item for item in found if item[1].patch == patch_name(name)]
    if not meant:
        raise UsageError(f"{patch_name(name)} is open in no work tree", hint=f"open are: {_listed(found)}")
    return meant


def unsaved_trees(recipe: Recipe, options: Namespace) -> list[tuple[Package, Work]]:
    """Return the open work trees that hold edits which are in no patch yet."""
    try:
        found = _found(recipe, options)
    except UsageError:  # a folder that is no work tree, or no more: nothing that could be written back
        return []
    return [item for item in found if _is_to_refresh(item[1])]


def _is_to_refresh(work: Work) -> bool:
    return work.is_due or is_left(work.folder) or has_changes(work)


def _found(recipe: Recipe, options: Namespace) -> list[tuple[Package, Work]]:
    if options.worktree is not None:
        work = read_work(options.worktree)
        return [(_checked(recipe.package(options.package or work.package), work), work)]
    folders = [(package, WORK_FOLDER / package.name) for package in packages_of(recipe, options.package)]
    opened = [(package, read_work(folder)) for package, folder in folders if folder.exists()]
    return [(_checked(package, work), work) for package, work in opened]


def _checked(package: Package, work: Work) -> Package:
    if canonicalize_name(work.package) != canonicalize_name(package.name):
        raise UsageError(
            f"{work.folder} is a work tree of {work.package}, not of {package.name}", hint="give --package"
        )
    return package


def tree_to_refresh(trees: Sequence[tuple[Package, Work]]) -> tuple[Package, Work]:
    """Return the only work tree, or the only one that is to be written back."""
    if len(trees) == 1:
        return trees[0]
    due = [item for item in trees if _is_to_refresh(item[1])]
    if len(due) == 1:
        return due[0]
    if due:
        raise UsageError(
            f"several work trees have changes: {_listed(due)}",
            hint=f"name one: `patches --refresh {due[0][1].patch}`",
        )
    raise UsageError(f"no work tree has changes to write back: {_listed(trees)}", hint="edit the files there first")


def _listed(trees: Sequence[tuple[Package, Work]]) -> str:
    return ", ".join(f"{work.patch} ({package.name}, in {work.folder})" for package, work in trees)
