"""The command ``patches``: show, check and edit the patch series of a recipe."""

from __future__ import annotations

import argparse
import os
from datetime import datetime, timezone
from difflib import get_close_matches
from pathlib import Path

from forkwheel.cli import Commands
from forkwheel.console import Console
from forkwheel.errors import PatchError, UsageError
from forkwheel.patching.header import PATCH_NAME
from forkwheel.patching.names import printable
from forkwheel.patching.refresh import Refreshed, refresh
from forkwheel.patching.report import SCHEMA, check_folder, package_document, report_series
from forkwheel.patching.series import Series, load_series
from forkwheel.patching.worktree import REJECTED, open_work, read_work
from forkwheel.recipe import SOURCE_KINDS, Package, Recipe, find_recipe, load_recipe
from forkwheel.tree import Tree

WORK_FOLDER = Path("build/patches")
"""Where work trees are opened, in a folder named as the package."""


def register(commands: Commands) -> None:
    """Add ``patches``."""
    parser = commands.add("patches", help="show, check or edit the patch series of a recipe")
    parser.add_argument("--recipe", required=True, help="name or path of the recipe")
    parser.add_argument("--package", help="this package of the recipe only")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--edit", metavar="NAME", help="open a work tree with the series applied up to this patch")
    action.add_argument("--refresh", action="store_true", help="write the open work tree's patch back")
    action.add_argument("--new", nargs="+", metavar=("NAME", "FILE"), help="open a work tree for a new patch")
    action.add_argument("--check", action="store_true", help="fail on drift, unlisted files, bad or expired headers")
    parser.add_argument("--worktree", type=Path, help=f"the work tree's folder (default: {WORK_FOLDER}/PACKAGE)")
    parser.add_argument("--source", choices=SOURCE_KINDS, help="use this kind of source only")
    parser.add_argument("--offline", action="store_true", help="use the cache alone")
    parser.add_argument(
        "--mirror", action="append", default=[], metavar="URL=PATH", help="fetch a git URL from another place"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace, console: Console) -> int:
    try:
        return _dispatch(options, console)
    except OSError as error:
        raise UsageError(
            f"{error.filename or 'a file'}: {error.strerror or error}", hint="make the folder readable and writable"
        ) from error


def _dispatch(options: argparse.Namespace, console: Console) -> int:
    recipe = load_recipe(find_recipe(options.recipe, recipes=Path.cwd() / "recipes"))
    if options.edit is not None or options.new is not None:
        return _open(recipe, options, console)
    if options.refresh:
        return _refresh(recipe, options, console)
    return _check(recipe, options, console) if options.check else _show(recipe, options, console)


def _packages(recipe: Recipe, name: str | None) -> list[Package]:
    """Return the patched packages, or the one that is named."""
    chosen = [recipe.package(name)] if name else list(recipe.packages)
    patched = [package for package in chosen if package.series is not None]
    if not patched:
        raise UsageError(f"{name or recipe.name} has no patch series", hint="give the package a `series` in the recipe")
    return patched


def _tree(package: Package, options: argparse.Namespace, console: Console) -> Tree:
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


def _show(recipe: Recipe, options: argparse.Namespace, console: Console) -> int:
    documents = []
    faults = []
    for package in _packages(recipe, options.package):
        series = load_series(package.series)
        reports = report_series(series, _tree(package, options, console))
        documents.append(package_document(package.name, package.version, series, reports))
        rows = [
            (number, report.name, printable(file.path), len(file.hunks), file.verdict, report.forwarded)
            for number, report in enumerate(reports, 1)
            for file in report.files
        ]
        title = f"{package.name} {package.version}: {len(reports)} patches"
        console.table(("#", "patch", "file", "hunks", "verdict", "forwarded"), rows, title=title)
        if reports and all(report.verdict == "already-applied" for report in reports):
            console.line("the source has the whole series already", package=package.name)
        faults += [report.fault for report in reports if report.fault]
    if options.json:
        console.data({"schema": SCHEMA, "recipe": recipe.name, "packages": documents})
    for fault in faults:
        console.line(printable(fault), kind="error")
    return PatchError.exit_code if faults else 0


def _check(recipe: Recipe, options: argparse.Namespace, console: Console) -> int:
    documents = []
    for package in _packages(recipe, options.package):
        assert package.series is not None
        faults = check_folder(package.series, _tree(package, options, console), version=package.version)
        found = [{"message": fault.message, "hint": fault.hint} for fault in faults]
        documents.append({"package": package.name, "faults": found})
        for fault in faults:
            console.error(fault)
        if not faults:
            console.line("the patches are as exported, listed, and apply", kind="done", package=package.name)
    if options.json:
        console.data({"schema": SCHEMA, "recipe": recipe.name, "packages": documents})
    return PatchError.exit_code if any(document["faults"] for document in documents) else 0


def _open(recipe: Recipe, options: argparse.Namespace, console: Console) -> int:
    name = _patch_name(options.edit or options.new[0])
    package, series = _package_of(recipe, name, options)
    folder = options.worktree or WORK_FOLDER / package.name
    tree = _tree(package, options, console)
    if options.new is not None:
        _check_files(options.new[1:], tree)
    _, rejected = open_work(series, tree, folder, package=package.name, name=name, epoch=package.epoch)
    console.line(f"{name} is open in {folder}", kind="done", package=package.name)
    for file in options.new[1:] if options.new else ():
        console.line(printable(f"edit {folder / file}"), package=package.name)
    if rejected:
        console.line(f"{name} does not apply exactly: look over what `git diff` shows there", kind="warning")
        console.line(f"these hunks are left for you to bring in by hand (also in {folder / REJECTED}):", kind="warning")
        console.line(printable("\n".join(rejected)))
    extra = f" --worktree {options.worktree}" if options.worktree else ""
    console.line(
        f"edit the files there (`git diff` shows the patch), then write it back with:"
        f" nox -s patches -- --recipe {options.recipe} --package {package.name} --refresh{extra}",
        kind="hint",
    )
    if options.json:
        document = {"package": package.name, "patch": name, "worktree": str(folder), "rejected": list(rejected)}
        console.data({"schema": SCHEMA, **document})
    return 0


def _patch_name(text: str) -> str:
    name = text if text.endswith(".patch") else f"{text}.patch"
    if not PATCH_NAME.fullmatch(name):
        raise UsageError(f"{text!r} is no plain patch name", hint="letters, digits, '.', '_', '+' and '-', no folder")
    return name


def _package_of(recipe: Recipe, name: str, options: argparse.Namespace) -> tuple[Package, Series]:
    """Return the package whose series has the patch, or is to get it."""
    loaded = [(package, load_series(package.series, allow_todo=True)) for package in _packages(recipe, options.package)]
    listing = [item for item in loaded if any(patch.name == name for patch in item[1].patches)]
    if options.new is not None:
        if listing:
            raise UsageError(f"{listing[0][1].folder} has {name} already", hint=f"open it with `--edit {name}`")
        candidates = loaded
    else:
        candidates = listing
    if not candidates:
        known = [patch.name for _, series in loaded for patch in series.patches]
        close = get_close_matches(name, known, n=3, cutoff=0.4) or known
        raise UsageError(f"no series of {recipe.name} has {name}", hint="its patches are: " + ", ".join(close))
    if len(candidates) > 1:
        names = ", ".join(package.name for package, _ in candidates)
        raise UsageError(f"{name} may be for several packages", hint=f"give --package: one of {names}")
    return candidates[0]


def _check_files(names: list[str], tree: Tree) -> None:
    paths = [entry.path for entry in tree.entries]
    for name in names:
        if name not in paths:
            close = ", ".join(get_close_matches(name, paths, n=3)) or "none like it"
            raise UsageError(
                f"the source has no file {name!r}",
                hint=f"close to it: {close}; a file that the patch creates is just made in the work tree",
            )


def _refresh(recipe: Recipe, options: argparse.Namespace, console: Console) -> int:
    package, folder = _opened(recipe, options)
    work = read_work(folder)
    if work.package != package.name:
        raise UsageError(f"{folder} is a work tree of {work.package}, not of {package.name}", hint="give --package")
    series = load_series(package.series, allow_todo=True)
    done = refresh(work, series, _tree(package, options, console), today=datetime.now(tz=timezone.utc).date())
    _report(done, series, package, console)
    if options.json:
        console.data(
            {
                "schema": SCHEMA,
                "package": package.name,
                "patch": done.patch,
                "changed": done.changed,
                "files": list(done.files),
                "renumbered": list(done.renumbered),
                "broken": done.broken.message if done.broken else None,
            }
        )
    return PatchError.exit_code if done.broken else 0


def _opened(recipe: Recipe, options: argparse.Namespace) -> tuple[Package, Path]:
    """Return the package to refresh and its work tree's folder."""
    packages = _packages(recipe, options.package)
    if options.worktree is not None:
        opened = read_work(options.worktree).package
        return recipe.package(opened if options.package is None else options.package), options.worktree
    found = [(package, WORK_FOLDER / package.name) for package in packages]
    if len(found) > 1:
        found = [item for item in found if item[1].exists()]
    if len(found) != 1:
        what = "several work trees are open" if found else f"no work tree is open under {WORK_FOLDER}"
        raise UsageError(what, hint="give --package, or open one with `patches --edit NAME`")
    return found[0]


def _report(done: Refreshed, series: Series, package: Package, console: Console) -> None:
    file = series.folder / done.patch
    state = "is written" if done.changed else "is unchanged"
    console.line(printable(f"{file} {state}: {', '.join(done.files)}"), kind="done", package=package.name)
    if b"TODO" in file.read_bytes().split(b"\n\n", 1)[0]:
        console.line(f"fill in the TODO lines at the top of {file}; until then nothing builds", kind="warning")
    for name in done.renumbered:
        console.line(f"{name} moved along: only its line numbers changed", package=package.name)
    if done.broken is not None:
        console.error(done.broken)
