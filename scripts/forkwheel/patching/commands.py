"""The command ``patches``: show, check and edit the patch series of a recipe."""

from __future__ import annotations

import argparse
from pathlib import Path

from forkwheel.cli import Commands
from forkwheel.console import Console, plural
from forkwheel.errors import PatchError, UsageError
from forkwheel.hints import complete_hint, nox_command, short_path
from forkwheel.options import add_mirror_option, add_recipe_option
from forkwheel.patching.apply import DoesNotApply
from forkwheel.patching.choose import WORK_FOLDER, packages_of, unsaved_trees
from forkwheel.patching.edit_commands import close, open_patch, refresh_patch, source_of
from forkwheel.patching.names import printable
from forkwheel.patching.report import SCHEMA, PatchReport, check_folder, package_document, report_series
from forkwheel.patching.series import load_series
from forkwheel.plan import name_wheel
from forkwheel.recipe import SOURCE_KINDS, Package, Recipe, find_recipe, load_recipe

_TO_FILL_IN = "header to fill in"


def register(commands: Commands) -> None:
    """Add ``patches``."""
    parser = commands.add("patches", help="show, check or edit the patch series of a recipe")
    add_recipe_option(parser, required=True)
    parser.add_argument("--package", metavar="PACKAGE", help="this package of the recipe only")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--edit", metavar="NAME", help="open a work tree with the series applied up to this patch")
    action.add_argument(
        "--refresh", nargs="?", const="", metavar="NAME", help="write the open work tree's patch back to its file"
    )
    action.add_argument("--close", nargs="?", const="", metavar="NAME", help="remove the open work trees")
    action.add_argument("--new", nargs="+", metavar=("NAME", "FILE"), help="open a work tree for a new patch")
    action.add_argument("--check", action="store_true", help="fail on drift, unlisted files, bad or expired headers")
    parser.add_argument(
        "--worktree", type=Path, metavar="DIR", help=f"the work tree's folder (default: {WORK_FOLDER}/PACKAGE)"
    )
    parser.add_argument("--source", choices=SOURCE_KINDS, help="use this kind of source only")
    parser.add_argument("--offline", action="store_true", help="use the cache alone")
    add_mirror_option(parser)
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
        return open_patch(recipe, options, console)
    if options.refresh is not None:
        return refresh_patch(recipe, options, console)
    if options.close is not None:
        return close(recipe, options, console)
    code = _check(recipe, options, console) if options.check else _show(recipe, options, console)
    for package, work in unsaved_trees(recipe, options):
        command = nox_command(options.recipe, "--package", package.name, "--refresh", worktree=options.worktree)
        console.line(
            f"{work.patch} has edits in {work.folder} that are not in the series: write them back with: {command}",
            kind="warning",
            package=package.name,
        )
    return code


def _show(recipe: Recipe, options: argparse.Namespace, console: Console) -> int:
    documents = []
    faults = []
    for package in packages_of(recipe, options.package):
        series = load_series(package.series, allow_todo=True)
        reports = report_series(series, source_of(package, options, console))
        documents.append(package_document(package.name, package.version, series, reports))
        rows = [
            (number, report.name, printable(file.path), len(file.hunks), _verdict(file.verdict, report), _sent(report))
            for number, report in enumerate(reports, 1)
            for file in report.files
        ]
        title = f"{package.name} {package.version}: {plural(len(reports), 'patch')}"
        console.table(("#", "patch", "file", "hunks", "verdict", "forwarded"), rows, title=title)
        if reports and all(report.verdict == "already-applied" for report in reports):
            console.line("the source has the whole series already", package=package.name)
        for report in reports:
            if report.todo:
                fields = f"fill in {', '.join(report.todo)} in {short_path(series.folder / report.name)}"
                console.line(f"{fields}; until then nothing builds", kind="warning", package=package.name)
        faults += [report.fault for report in reports if report.fault]
    if options.json:
        console.data({"schema": SCHEMA, "recipe": recipe.name, "packages": documents})
    for fault in faults:
        console.line(printable(fault), kind="error")
    return PatchError.exit_code if faults else 0


def _verdict(verdict: str, report: PatchReport) -> str:
    return f"{verdict}, {_TO_FILL_IN}" if report.todo else verdict


def _sent(report: PatchReport) -> str:
    return "to fill in" if "Forwarded" in report.todo else report.forwarded


def _check(recipe: Recipe, options: argparse.Namespace, console: Console) -> int:
    documents = []
    for package in packages_of(recipe, options.package):
        assert package.series is not None
        faults = _faults(package, options, console)
        for fault in faults:
            fault.hint = complete_hint(fault.hint, recipe=options.recipe)
        found = [{"message": fault.message, "hint": fault.hint} for fault in faults]
        documents.append({"package": package.name, "faults": found})
        for fault in faults:
            console.error(fault)
        if not faults:
            console.line("the patches are as exported, listed, and apply", kind="done", package=package.name)
    if options.json:
        console.data({"schema": SCHEMA, "recipe": recipe.name, "packages": documents})
    return PatchError.exit_code if any(document["faults"] for document in documents) else 0


def _faults(package: Package, options: argparse.Namespace, console: Console) -> list[PatchError]:
    """Check a series against every wheel of a package, or its one source; what is wrong with all is said once."""
    assert package.series is not None
    faults: dict[str, PatchError] = {}
    for variant in package.variants(options.source):
        tree = source_of(variant, options, console)
        found = check_folder(package.series, tree, version=package.version)
        for fault in found:
            if faults.setdefault(fault.message, fault) is fault and isinstance(fault, DoesNotApply):
                name_wheel(variant, fault)
    return list(faults.values())
