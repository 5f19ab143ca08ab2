"""Choosing the toolchain of a recipe's kernels anew, within what its lock requires."""

from __future__ import annotations

from collections.abc import Iterator

from forkwheel.console import Log
from forkwheel.cuda.toolchain import toolchain_parts
from forkwheel.hints import recipe_argument
from forkwheel.recipe import Recipe
from forkwheel.release.inputs import TOOLCHAIN_COMMENT, Inputs, lock_text
from forkwheel.release.resolution import resolve_toolchain
from forkwheel.store import Store, write_whole


def choose_toolchain(recipe: Recipe, *, store: Store, log: Log) -> None:
    """Pin every part of the toolchain's lock anew and write it, all of it or nothing.

    Raise RecipeError where the recipe has no such lock, FetchError or BuildError where a part can't be had whole.
    """
    before = toolchain_parts(recipe.folder)
    with log.stage("toolchain"):
        after = Inputs(before.file, resolve_toolchain(before, store=store, log=log))
        write_whole(after.file, lock_text(after.parts, comment=TOOLCHAIN_COMMENT).encode())
    changes = list(_changes(before, after))
    for change in changes:
        log.info(change)
    if changes:
        name = recipe_argument(recipe.folder)
        log.info(f"{after.file} changed: record the kernels with `forkwheel kernels --recipe {name} --lock`")
    else:
        log.info(f"every pin of {after.file} is as it was")


def _changes(before: Inputs, after: Inputs) -> Iterator[str]:
    """Tell, a line for each, which requirements are other versions or files than before."""
    old, new = (
        {(part.package, item.name): item for part in lock.parts for item in part.requirements}
        for lock in (before, after)
    )
    for part, name in sorted({*old, *new}):
        was, now = old.get((part, name)), new.get((part, name))
        if was == now:
            continue
        versions = [item.version if item else "none" for item in (was, now)]
        change = " to ".join(versions) if versions[0] != versions[1] else f"other files of {versions[0]}"
        yield f"{part}: {name}: {change}"
