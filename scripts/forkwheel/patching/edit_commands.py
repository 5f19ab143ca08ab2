"""The actions of ``patches`` that open a work tree, write its patch back, and close it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from datetime import datetime, timezone
from difflib import get_close_matches
from pathlib import Path

from forkwheel.console import Console, plural
from forkwheel.errors import PatchError, UsageError
from forkwheel.hints import complete_hint, nox_command, short_path
from forkwheel.patching.choose import WORK_FOLDER, open_trees, package_of, patch_name, tree_to_refresh
from forkwheel.patching.left import LEFT, where
from forkwheel.patching.lenient import Left
from forkwheel.patching.names import decode, printable
from forkwheel.patching.refresh import Refreshed, refresh
from forkwheel.patching.report import SCHEMA
from forkwheel.patching.series import load_series
from forkwheel.patching.worktree import check_saved, close_work, open_work
from forkwheel.recipe import Package, Recipe
from forkwheel.tree import Tree


def source_of(package: Package, options: argparse.Namespace, console: Console) -> Tree:
    """Return a package's unpatched source."""
    from forkwheel.fetch import FetchContext, parse_mirrors
    from forkwheel.sources import source_tree
    from forkwheel.store import Store

    context = FetchContext(
        store=Store.default(),
        log=console.bind(package.name),
        offline=options.offline,
        mirrors=parse_mirrors(options.mirror, os.environ),
    )
    return source_tree(package, context=context, kind=options.source).tree


def open_patch(recipe: Recipe, options: argparse.Namespace, console: Console) -> int:
    """Open a work tree for a patch; the exit code tells that hunks are left to bring in by hand."""
    is_new = options.new is not None
    name = patch_name(options.new[0] if is_new else options.edit)
    package, series = package_of(recipe, name, options.package, is_new=is_new)
    folder = options.worktree or WORK_FOLDER / package.name
    tree = source_of(package, options, console)
    files = options.new[1:] if is_new else []
    _check_files(files, tree)
    work, left = open_work(series, tree, folder, package=package.name, name=name, epoch=package.epoch)
    console.line(f"{name} is open in {folder}", kind="done", package=package.name)
    for file in files:
        console.line(printable(f"edit {folder / file}"), package=package.name)
    if work.is_due:
        _say_inexact(name, left, folder, console)
    command = nox_command(options.recipe, "--package", package.name, "--refresh", worktree=options.worktree)
    console.line(f"edit the files there (`git diff` shows the patch), then write it back with: {command}", kind="hint")
    _say_header(series.folder / name, console, is_made=not is_new)
    if options.json:
        rejected = [decode(part.diff) for part in left]
        reasons = [where(name, part) for part in left]
        document = {"package": package.name, "patch": name, "worktree": str(folder)}
        console.data({"schema": SCHEMA, **document, "rejected": rejected, "reasons": reasons})
    return PatchError.exit_code if left else 0


def _say_inexact(name: str, left: Sequence[Left], folder: Path, console: Console) -> None:
    console.line(f"{name} does not apply exactly: look over what `git diff` shows there", kind="warning")
    if not left:
        return
    console.line(
        f"{plural(len(left), 'part')} of it could not be brought in; {folder / LEFT} holds what is left:",
        kind="warning",
    )
    for part in left:
        console.line(printable(f"  {where(name, part)}"))
        console.line(printable(decode(part.diff)))
    console.line(
        f"bring what is left into the files, or give it up; then delete {folder / LEFT}: until then --refresh refuses",
        kind="hint",
    )


def _say_header(file: Path, console: Console, *, is_made: bool) -> None:
    when = "" if is_made else ", once --refresh has made it"
    console.line(
        f"the header (Description, Origin ...) is edited in the patch file itself{when}: {short_path(file)}",
        kind="hint",
    )


def _check_files(names: Sequence[str], tree: Tree) -> None:
    paths = [entry.path for entry in tree.entries]
    for name in names:
        if name not in paths:
            close = ", ".join(get_close_matches(name, paths, n=3)) or "none like it"
            raise UsageError(
                f"the source has no file {name!r}",
                hint=f"close to it: {close}; a file that the patch creates is just made in the work tree",
            )


def refresh_patch(recipe: Recipe, options: argparse.Namespace, console: Console) -> int:
    """Write the patch of a work tree back to its series."""
    package, work = tree_to_refresh(open_trees(recipe, options, name=options.refresh))
    series = load_series(package.series, allow_todo=True)
    done = refresh(work, series, source_of(package, options, console), today=datetime.now(tz=timezone.utc).date())
    _report(done, series.folder / done.patch, package, console)
    command = nox_command(options.recipe, "--package", package.name, "--close", worktree=options.worktree)
    console.line(f"go on editing in {work.folder}, or close it with: {command}", kind="hint")
    if done.broken is not None:
        done.broken.hint = complete_hint(done.broken.hint, recipe=options.recipe, worktree=options.worktree)
        console.error(done.broken)
    if options.json:
        console.data({"schema": SCHEMA, "package": package.name, **_document(done)})
    return PatchError.exit_code if done.broken else 0


def _document(done: Refreshed) -> dict[str, object]:
    return {
        "patch": done.patch,
        "changed": done.changed,
        "files": list(done.files),
        "renumbered": list(done.renumbered),
        "todo": list(done.todo),
        "broken": done.broken.message if done.broken else None,
    }


def _report(done: Refreshed, file: Path, package: Package, console: Console) -> None:
    state = "is written" if done.changed else "is unchanged"
    console.line(printable(f"{short_path(file)} {state}: {', '.join(done.files)}"), kind="done", package=package.name)
    for name in done.renumbered:
        console.line(f"{name} moved along: only its line numbers changed", package=package.name)
    if done.todo:
        console.line(f"fill in {', '.join(done.todo)} in {short_path(file)}; until then nothing builds", kind="warning")
    else:
        _say_header(file, console, is_made=True)


def close(recipe: Recipe, options: argparse.Namespace, console: Console) -> int:
    """Remove the open work trees, or none of them where one holds unsaved work."""
    trees = open_trees(recipe, options, name=options.close)
    for _, work in trees:
        check_saved(work)
    for package, work in trees:
        close_work(work)
        console.line(
            f"{work.folder} is closed; {work.patch} is as it was last written", kind="done", package=package.name
        )
    if options.json:
        console.data({"schema": SCHEMA, "closed": [str(work.folder) for _, work in trees]})
    return 0
