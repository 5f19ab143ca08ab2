"""The command ``port``: carry a recipe's series over to other revisions."""

from __future__ import annotations

import argparse
import re
import shlex
from dataclasses import replace
from pathlib import Path

from forkwheel.cli import Commands
from forkwheel.console import Console
from forkwheel.errors import UsageError
from forkwheel.fetch import FetchContext
from forkwheel.recipe import LONGEST_NAME, NAME, Recipe
from forkwheel.upstream.commands import add_common_options, open_recipe
from forkwheel.upstream.port import PortSettings, advance, begin
from forkwheel.upstream.port_export import Ported, finish
from forkwheel.upstream.port_goals import REPOSITORY, TO, parse_goals
from forkwheel.upstream.port_places import check_free, find_places
from forkwheel.upstream.port_resume import abort, check_same, resume
from forkwheel.upstream.port_state import PortState

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
        metavar=TO.partition(" ")[2],
        help="the new version, of the package index or at a git revision; once for each package that moves:"
        " one that pins another moves with it",
    )
    action.add_argument("--continue", dest="go_on", action="store_true", help="go on after a conflict was mended")
    action.add_argument("--skip", action="store_true", help="go on without the patch that is in conflict")
    action.add_argument("--abort", action="store_true", help="give the port up")
    parser.add_argument(
        "--name",
        metavar="NAME",
        help="name of the new recipe (default: RECIPE-port), and its `local` where a wheel of that version exists",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder that gets recipes/NAME and patches/ (default: the new recipe and series go beside the old ones)",
    )
    parser.add_argument("--work", type=Path, metavar="DIR", help=f"the work folder (default: {WORK_FOLDER}/RECIPE)")
    parser.add_argument(
        "--repository",
        action="append",
        default=[],
        metavar=REPOSITORY.partition(" ")[2],
        help="take this package's git revision, or its version's tag, from this repository",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace, console: Console) -> int:
    recipe, context = open_recipe(options, console)
    settings = _settings(options, recipe)
    out = options.out.resolve() if options.out is not None else None
    if options.to:
        state = _begin(options, recipe, out, settings, context, console)
    else:
        if options.repository:
            raise UsageError("--repository was decided on when the port was begun", hint="leave it out")
        check_same(recipe, name=options.name, out=out, settings=settings)
        if options.abort:
            abort(settings)
            console.line(f"{settings.work} is gone; nothing else was changed", kind="done")
            return 0
        state = resume(recipe, settings=settings, skip=options.skip)
    context = replace(context, mirrors=(*state.mirrors, *context.mirrors))
    state = advance(recipe, state, settings=settings, log=context.log)
    _show(finish(recipe, state, settings=settings, context=context), options, console)
    return 0


def _begin(
    options: argparse.Namespace,
    recipe: Recipe,
    out: Path | None,
    settings: PortSettings,
    context: FetchContext,
    console: Console,
) -> PortState:
    name = f"{recipe.name}-port" if options.name is None else options.name
    if not re.fullmatch(NAME, name) or len(name) > LONGEST_NAME or name == recipe.name:
        hint = "give another --name, of letters, digits, '.', '_' and '-'"
        raise UsageError(f"{name!r} cannot be the new recipe's name", hint=hint)
    goals = parse_goals(options.to, options.repository, recipe)
    versions = {package: goal.version for package, goal in goals.items()}
    places = find_places(recipe, versions, name=name, out=out)
    if not settings.work.exists():
        check_free(places, work=settings.work)
    state = begin(recipe, goals, name=name, out=out, settings=settings, context=context)
    for place in places.all:
        console.line(f"will be written: {place}")
    return state


def _settings(options: argparse.Namespace, recipe: Recipe) -> PortSettings:
    work = options.work or WORK_FOLDER / recipe.name
    extra = f" --work {shlex.quote(str(options.work))}" if options.work else ""
    return PortSettings(work, f"nox -s port -- --recipe {shlex.quote(options.recipe)}{extra}")


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
    console.table(("patch", "result", "why"), rows)
    for note in ported.notes:
        console.line(note, kind="warning")
    for name, folder in ported.series:
        console.line(f"series in {folder}", package=name)
    console.line(f"the new recipe is {ported.recipe}", kind="done")
    name = shlex.quote(_argument(ported.recipe))
    console.line(f"next: `nox -s lock -- --recipe {name}`, then `nox -s build -- --recipe {name}`", kind="hint")


def _argument(recipe: Path) -> str:
    """Return what ``--recipe`` calls a recipe: its name, where it is one of this folder's."""
    name = recipe.parent.name
    return name if recipe.parent == Path("recipes").resolve() / name else str(recipe.parent)
