"""The command ``port``: carry a recipe's series over to other revisions."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from forkwheel.cli import Commands
from forkwheel.console import Console
from forkwheel.errors import UsageError
from forkwheel.recipe import Recipe
from forkwheel.upstream.commands import add_common_options, open_recipe
from forkwheel.upstream.port import PortSettings, abort, advance, begin, resume
from forkwheel.upstream.port_export import Ported, check_free, finish
from forkwheel.upstream.port_target import parse_targets

SCHEMA = 1
WORK_FOLDER = Path("build/port")
"""Where ports are made, in a folder named as the recipe."""


def register(commands: Commands) -> None:
    """Add ``port``."""
    parser = commands.add("port", help="carry a recipe's patch series over to other revisions")
    add_common_options(parser)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument(
        "--to",
        action="append",
        metavar="PACKAGE=VERSION[@REVISION]",
        help="the new version, of the package index or at a git revision; once for each package",
    )
    action.add_argument("--continue", dest="go_on", action="store_true", help="go on after a conflict was mended")
    action.add_argument("--skip", action="store_true", help="go on without the patch that is in conflict")
    action.add_argument("--abort", action="store_true", help="give the port up")
    parser.add_argument("--name", help="name of the new recipe (default: RECIPE-port)")
    parser.add_argument("--out", type=Path, help="folder that gets recipes/ and patches/ (default: the recipe's own)")
    parser.add_argument("--work", type=Path, help=f"the work folder (default: {WORK_FOLDER}/RECIPE)")
    parser.add_argument(
        "--repository", action="append", default=[], metavar="PACKAGE=FOLDER-or-URL", help="where git revisions are"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace, console: Console) -> int:
    recipe, context = open_recipe(options, console)
    settings = _settings(options, recipe)
    if options.abort:
        abort(settings)
        console.line(f"{settings.work} is gone; nothing else was changed", kind="done")
        return 0
    if options.to:
        targets = parse_targets(options.to, recipe)
        repositories = parse_targets(options.repository, recipe)
        check_free(recipe, targets, settings=settings)
        state = begin(recipe, targets, settings=settings, context=context, repositories=repositories)
    else:
        state = resume(recipe, settings=settings, skip=options.skip)
    state = advance(recipe, state, settings=settings)
    _show(finish(recipe, state, settings=settings, context=context), options, console)
    return 0


def _settings(options: argparse.Namespace, recipe: Recipe) -> PortSettings:
    name = options.name or f"{recipe.name}-port"
    if "/" in name or name == recipe.name:
        raise UsageError(f"{name!r} cannot be the new recipe's name", hint="give another --name, without a folder")
    work = options.work or WORK_FOLDER / recipe.name
    extra = f" --work {shlex.quote(str(options.work))}" if options.work else ""
    command = f"nox -s port -- --recipe {shlex.quote(options.recipe)}{extra}"
    return PortSettings(name, options.out or recipe.folder.parent.parent, work, command)


def _show(ported: Ported, options: argparse.Namespace, console: Console) -> None:
    if options.json:
        console.data(
            {
                "schema": SCHEMA,
                "recipe": str(ported.recipe),
                "series": {name: str(folder) for name, folder in ported.series},
                "kept": list(ported.kept),
                "dropped": dict(ported.dropped),
                "notes": list(ported.notes),
            }
        )
    rows = [(name, "kept", "") for name in ported.kept] + [(name, "dropped", why) for name, why in ported.dropped]
    console.table(("patch", "", "why"), rows)
    for note in ported.notes:
        console.line(note, kind="warning")
    for name, folder in ported.series:
        console.line(f"series in {folder}", package=name)
    console.line(f"the new recipe is {ported.recipe}", kind="done")
