"""The command ``doctor``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from forkwheel.console import Console
from forkwheel.doctor_fork import fork_findings
from forkwheel.doctor_host import BUILD, INSTALL, PURPOSES, SMOKE, Finding, host_findings
from forkwheel.errors import NoGpuError, ToolchainError, UsageError
from forkwheel.options import add_recipe_option
from forkwheel.recipe import Recipe, find_recipe, load_recipe

if TYPE_CHECKING:
    from forkwheel.cli import Commands

SCHEMA = 1
_RECIPE = "sm120"
_NO_RECIPE = Finding(
    "fork", (INSTALL,), None, "there is no recipe here, so nothing was looked for that is in its way", "give --recipe"
)
_KINDS = {"PASS": "done", "FAIL": "error", "WARN": "hint", "SKIP": "info"}


def register(commands: Commands) -> None:
    """Add ``doctor``."""
    parser = commands.add("doctor", help="check what this machine has for a build, a smoke run and an install")
    add_recipe_option(parser, note=f"default: {_RECIPE}, if here")
    parser.add_argument(
        "--for", dest="purposes", action="append", choices=PURPOSES, help="what must work (repeatable; default: build)"
    )
    parser.add_argument("--python", type=Path, metavar="PATH", help="the python that will run the fork")
    parser.add_argument("--offline", action="store_true", help="do not ask the package index")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    """Check everything; raise ToolchainError where something that is needed fails, NoGpuError where it is the GPU."""
    if options.python is not None and not options.python.is_file():
        raise UsageError(f"there is no {options.python}", hint="give the path of the python that will run the fork")
    recipe = _recipe(options.recipe)
    purposes = tuple(options.purposes or (BUILD,))
    cache = Path(os.environ.get("FORKWHEEL_CACHE") or platformdirs.user_cache_dir("forkwheel"))
    findings = (
        *host_findings(cache=cache, target=recipe.target if recipe else "", offline=options.offline),
        *(fork_findings(recipe, python=options.python, home=Path.home()) if recipe else (_NO_RECIPE,)),
    )
    _show(findings, purposes, console)
    _refuse(findings, purposes)
    said = f"ready for {' and '.join(purposes)}"
    unknown = [one for one in findings if one.holds is None and set(one.needed_for) & set(purposes)]
    if unknown:
        listed = "; ".join(f"{one.name}: {one.found}{_what(one)}" for one in unknown)
        console.line(f"{said}, but for what was not checked: {listed}", kind="warning")
    else:
        console.line(said, kind="done")
    return 0


def _refuse(findings: Sequence[Finding], purposes: tuple[str, ...]) -> None:
    """Raise where something that is needed fails; without a GPU nothing else of a smoke run matters."""
    failed = [finding for finding in findings if finding.status(purposes) == "FAIL"]
    if not failed:
        return
    others = tuple(purpose for purpose in purposes if purpose != SMOKE)
    missing = next((finding for finding in failed if finding.no_gpu), None)
    if missing is not None and not any(finding.status(others) == "FAIL" for finding in failed):
        raise NoGpuError(f"not ready for {SMOKE}: {missing.found}", hint=missing.hint)
    names = ", ".join(finding.name for finding in failed)
    raise ToolchainError(f"not ready for {' and '.join(purposes)}: {names}", hint=failed[0].hint)


def _what(finding: Finding) -> str:
    """Return what to do about a check that failed, or could not be made."""
    return f"; {finding.hint}" if finding.hint and not finding.holds else ""


def _recipe(named: str | None) -> Recipe | None:
    """Return the recipe that is asked about; a machine without a checkout is checked all the same."""
    if named is None and not (Path("recipes") / _RECIPE / "recipe.toml").is_file():
        return None
    return load_recipe(find_recipe(named or _RECIPE, recipes=Path("recipes")))


def _show(findings: Sequence[Finding], purposes: tuple[str, ...], console: Console) -> None:
    if console.json_mode:
        console.data(
            {
                "schema": SCHEMA,
                "purposes": list(purposes),
                "checks": [
                    {
                        "name": one.name,
                        "status": one.status(purposes),
                        "needed_for": list(one.needed_for),
                        "found": one.found,
                        "hint": "" if one.holds else one.hint,
                    }
                    for one in findings
                ],
            }
        )
        return
    width = max(len(one.name) for one in findings)
    for one in findings:
        status = one.status(purposes)
        console.line(f"{status:4}  {one.name:{width}}  {one.found}{_what(one)}", kind=_KINDS[status])
