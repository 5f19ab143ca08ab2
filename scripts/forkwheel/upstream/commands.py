"""The command ``upstream``: how a recipe's series stand against other revisions."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from forkwheel.cli import Commands
from forkwheel.console import Console
from forkwheel.errors import PatchError, UsageError
from forkwheel.fetch import FetchContext, parse_mirrors
from forkwheel.options import add_mirror_option, add_recipe_option
from forkwheel.patching.names import printable
from forkwheel.patching.series import Series, load_series
from forkwheel.recipe import GitSource, Package, Recipe, find_recipe, load_recipe
from forkwheel.store import Store
from forkwheel.upstream.bisect import Event, trace
from forkwheel.upstream.bisect import document as trace_document
from forkwheel.upstream.history import open_history
from forkwheel.upstream.matrix import SCHEMA, Column, cell, courses, document, judge_revisions, needs_work, summary_line
from forkwheel.upstream.revisions import base_tree, expand


def register(commands: Commands) -> None:
    """Add ``upstream``."""
    parser = commands.add("upstream", help="tell which patches still apply to other revisions, and which upstream took")
    add_common_options(parser)
    parser.add_argument(
        "--package", metavar="PACKAGE", help="this package of the recipe (needed where several are patched)"
    )
    parser.add_argument(
        "--to",
        action="append",
        required=True,
        metavar="REVISION",
        help="a version, a range of final releases A..B, an sdist, a wheel or a git revision; several make a matrix",
    )
    parser.add_argument("--bisect", action="store_true", help="name the commits of the git history up to --to")
    parser.add_argument("--repository", metavar="FOLDER-or-URL", help="the git repository (default: the recipe's)")
    parser.set_defaults(run=_run)


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """Add what ``upstream`` and ``port`` share."""
    add_recipe_option(parser, required=True)
    parser.add_argument("--offline", action="store_true", help="use the cache alone")
    add_mirror_option(parser)


def open_recipe(options: argparse.Namespace, console: Console) -> tuple[Recipe, FetchContext]:
    """Open the recipe that the options name, with the person's cache."""
    recipe = load_recipe(find_recipe(options.recipe, recipes=Path("recipes")))
    context = FetchContext(
        store=Store.default(),
        log=console.bind(recipe.name),
        offline=options.offline,
        mirrors=parse_mirrors(options.mirror, os.environ),
    )
    return recipe, context


def _run(options: argparse.Namespace, console: Console) -> int:
    recipe, context = open_recipe(options, console)
    package = _package(recipe, options.package)
    context = replace(context, log=console.bind(package.name))
    series = load_series(package.series)
    if options.bisect:
        return _bisect(options, package, series, context, console)
    base = base_tree(package, context)
    named = expand(options.to, package, context=context, repository=options.repository)
    columns = judge_revisions(package, series, base, named, context=context, repository=options.repository)
    if options.json:
        console.data({"schema": SCHEMA, "recipe": recipe.name, **document(package, series, columns)})
    elif len(columns) == 1:
        _show_one(package, columns[0], console)
    else:
        _show_matrix(package, series, columns, console)
    return PatchError.exit_code if any(map(needs_work, columns)) else 0


def _package(recipe: Recipe, name: str | None) -> Package:
    patched = [package for package in recipe.packages if package.series is not None]
    if name is not None:
        package = recipe.package(name)
        if package.series is None:
            raise UsageError(f"{package.name} has no patch series", hint="name a patched package with --package")
        return package
    if len(patched) != 1:
        names = ", ".join(package.name for package in patched) or "none"
        raise UsageError(f"{recipe.name} patches {len(patched)} packages", hint=f"give --package: one of {names}")
    return patched[0]


def _show_one(package: Package, column: Column, console: Console) -> None:
    rows: list[tuple[object, ...]] = []
    for judged in column.patches:
        for file in judged.files:
            reason = "" if any(hunk.verdict.reason for hunk in file.hunks) else file.reason
            notes = "; ".join(text for text in (judged.advice, reason) if text)
            rows.append((judged.name, printable(file.path), "", str(file), notes))
            rows += [
                ("", "", f"line {hunk.old_start}", str(hunk.verdict), hunk.verdict.reason)
                for hunk in file.hunks
                if len(file.hunks) > 1 or hunk.verdict.reason
            ]
    title = f"{package.name} {package.version} against {column.revision}"
    console.table(("patch", "file", "hunk", "verdict", "note"), rows, title=title)
    text, is_due = summary_line(column)
    console.line(text, kind="warning" if is_due else "done", package=package.name)


def _show_matrix(package: Package, series: Series, columns: Sequence[Column], console: Console) -> None:
    rows = [(column.revision, *(cell(judged) for judged in column.patches)) for column in columns]
    names = [patch.name.removesuffix(".patch") for patch in series.patches]
    console.table((package.name, *names), rows, title=f"series for {package.name} {package.version}")
    first = columns[0].revision
    summary = [
        (
            item.patch,
            item.applied_until or "-",
            _when(item.changed_in, first=first),
            _when(item.taken_in, first=first),
            item.header or "-",
        )
        for item in courses(series, columns)
    ]
    console.table(("patch", "applies until", "changed", "content taken", "header"), summary, title="patches")


def _when(revision: str | None, *, first: str) -> str:
    """Say when something happened, of which only the first tested revision that shows it is known."""
    if revision is None:
        return "-"
    return f"at or before {revision}" if revision == first else f"by {revision}"


def _bisect(
    options: argparse.Namespace, package: Package, series: Series, context: FetchContext, console: Console
) -> int:
    if len(options.to) != 1:
        raise UsageError("--bisect needs one --to: the last revision to look at", hint="give the newest one")
    history = open_history(package.sources, repository=options.repository, context=context)
    source = next((source for source in package.sources if isinstance(source, GitSource)), None)
    if source is None:
        raise UsageError(f"{package.name} has no git source to start from", hint="bisect a package with a git source")
    first, last = history.commit(source.commit), history.find(options.to[0])
    traced = trace(series, base_tree(package, context), history, first=first, last=last)
    if options.json:
        console.data({"schema": SCHEMA, "package": package.name, "last": last, "patches": trace_document(traced)})
    rows = []
    for item in traced:
        for what, event in (("taken", item.taken), ("changed", item.changed)):
            if event is not None and (what == "taken" or item.taken != item.changed):
                rows.append((item.patch, what, *_event(event)))
        if item.taken is None and item.changed is None:
            rows.append((item.patch, item.now, "-", "-", "-", "-"))
    columns = ("patch", "event", "commit", "first release", "verdict there", "subject")
    console.table(columns, rows, title=f"{package.name} {package.version} to {options.to[0]}")
    return 0


def _event(event: Event) -> tuple[str, ...]:
    return event.commit[:12], event.release or "-", event.verdict, event.subject
