"""The command ``census``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forkwheel.cli import Commands
from forkwheel.console import Console, plural
from forkwheel.cuda.census import Census, census, census_document
from forkwheel.cuda.census_report import COLUMNS, change_rows, changed_kernels, family_rows
from forkwheel.cuda.census_rules import CensusRules, check_rules
from forkwheel.cuda.kernel_config import load_recipe_kernels
from forkwheel.cuda.kernel_wheel import targets_of
from forkwheel.cuda.kernels import reading_tools
from forkwheel.cuda.toolchain import load_toolchain_lock, toolchain_lock_file
from forkwheel.errors import UsageError, VerificationError
from forkwheel.options import add_recipe_option
from forkwheel.recipe import find_recipe, load_recipe
from forkwheel.store import Store

_RECIPES = Path("recipes")

JSON_SCHEMA = """
--json prints one document of schema 1: `objects` are the ELF files of device code, each with `name` and
`sha256`; `targets` are what they are for; `families` map a kernel template to the number of its `kernels`,
the least and most `instructions`, `registers`, `shared` and `stack` bytes among them, and how many are
`spilling`, `waiting` and `launching`; `kernels` list each one's `name`, `family`, `object`, `target`,
`instructions`, `registers`, `shared`, `stack`, `local` (accesses of local memory, where spills go), `waits`
(ACQBULK) and `launches` (PREEXIT). With --against, `changes` list `family`, `what`, `before` and `after`, and
`changed_kernels` name the kernels that differ. Keys may be added; one that changes raises the schema's number.
"""


def register(commands: Commands) -> None:
    """Add ``census``."""
    taken = commands.add("census", help="show every kernel in wheels, shared objects, object files or cubins")
    taken.add_argument("files", type=Path, nargs="+", metavar="FILE", help="a .whl, .so, .o or .cubin")
    add_recipe_option(taken, note="whose locked tools read the files; default: the first that locks some")
    taken.add_argument("--against", type=Path, metavar="OTHER", help="show what changed since this file")
    taken.add_argument("--check", action="store_true", help="check the rules of the recipe's kernels.toml")
    taken.add_argument(
        "--targets", default="", metavar="LIST", help="what the files must be for, with --check (default: the recipe's)"
    )
    taken.add_argument("--offline", action="store_true", help="use the cache alone")
    taken.epilog = JSON_SCHEMA
    taken.set_defaults(run=_census)


def _census(options: argparse.Namespace, console: Console) -> int:
    if options.targets and not options.check:
        raise UsageError("--targets says what --check checks, and there is no --check", hint="add --check")
    recipe = load_recipe(find_recipe(options.recipe or _first_recipe(), recipes=_RECIPES))
    rules = load_recipe_kernels(recipe).rules if options.check else None
    targets = [target.name for target in targets_of(recipe, options.targets)] if options.check else []
    store, log = Store.default(), console.bind(recipe.name)
    lock = load_toolchain_lock(recipe.folder)
    tools = reading_tools(lock, store=store, log=log, offline=options.offline)
    with log.stage("census"):
        taken = census(options.files, tools=tools)
        before = census([options.against], tools=tools) if options.against else None
    if console.json_mode:
        console.data(_census_document(taken, before))
    _census_tables(taken, before, console)
    if rules is not None:
        _check(taken, rules, targets=targets, files=options.files, console=console)
    return 0


def _check(
    taken: Census, rules: CensusRules, *, targets: Sequence[str], files: Sequence[Path], console: Console
) -> None:
    partial = any(file.suffix not in (".whl", ".so") for file in files)
    checked = check_rules(taken, rules, targets=targets, partial=partial)
    for reason in checked.skipped:
        console.line(f"SKIP {reason}", kind="warning")
    if rules.target in targets and not checked.held:
        raise VerificationError(
            f"none of the {len(rules.rules)} rules could be checked: they are not about these kernels",
            hint="check the wheel or shared object as a whole, or name another --recipe",
        )
    console.line(
        f"all kernels are for {', '.join(targets)}, none is empty that must not be, and "
        f"{plural(checked.held, 'rule')} held ({len(checked.skipped)} skipped)",
        kind="done",
    )


def _first_recipe() -> str:
    locks = sorted(_RECIPES.glob(f"*/{toolchain_lock_file(Path()).name}"))
    if not locks:
        raise UsageError("no recipe here locks the tools that read kernels", hint="name one with --recipe")
    return locks[0].parent.name


def _census_document(taken: Census, before: Census | None) -> dict[str, Any]:
    document = census_document(taken)
    if before is not None:
        columns = ("family", "what", "before", "after")
        document["changes"] = [dict(zip(columns, row, strict=True)) for row in change_rows(before, taken)]
        document["changed_kernels"] = list(changed_kernels(before, taken))
    return document


def _census_tables(taken: Census, before: Census | None, console: Console) -> None:
    title = f"{plural(len(taken.kernels), 'kernel')} for {', '.join(taken.targets)}"
    console.table(COLUMNS, family_rows(taken), title=title)
    if before is not None:
        rows = change_rows(before, taken)
        changed = len(changed_kernels(before, taken))
        console.table(("family", "what", "before", "after"), rows, title=f"{changed} kernels changed")
