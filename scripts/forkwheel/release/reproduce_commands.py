"""The command ``reproduce``."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from forkwheel.console import Console
from forkwheel.errors import UsageError, VerificationError
from forkwheel.fetch import FetchContext, parse_mirrors
from forkwheel.options import add_mirror_option, add_recipe_option
from forkwheel.recipe import SOURCE_KINDS, find_recipe
from forkwheel.release.compare import Difference, compare_wheels, diffoscope
from forkwheel.release.named_recipe import RECIPES, NamedRecipe, named_recipe
from forkwheel.release.reproduce import (
    Agreement,
    agreement,
    reproduce,
    reproduce_from_checkout,
    taken_again,
)
from forkwheel.release.reproduced import Reproduced
from forkwheel.release.subject import Subject, read_subject
from forkwheel.store import Store, copy_whole
from forkwheel.tree import sha256_file
from forkwheel.wheels.record import WheelName

if TYPE_CHECKING:
    from forkwheel.cli import Commands

SCHEMA = 1
_SHOWN = 20
"""Differences of a wheel that are shown one by one."""


def register(commands: Commands) -> None:
    """Add ``reproduce``."""
    parser = commands.add("reproduce", help="build wheels again from what they carry, and compare byte for byte")
    parser.add_argument("subject", metavar="WHEEL-or-manifest-or-index-URL", help="what is to be built again")
    add_recipe_option(parser, note="which set, where there are several")
    parser.add_argument("--source", choices=SOURCE_KINDS, help="use this kind of source only")
    add_mirror_option(parser)
    parser.add_argument("--from-repo", action="store_true", help="also say whether this checkout gives the same key")
    parser.add_argument("--against", type=Path, metavar="WHEEL", help="build nothing: compare with this wheel")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the rebuilt wheels here")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    """Build again and compare; raise VerificationError where a wheel is not the same."""
    if options.against is not None:
        results: tuple[Reproduced, ...] = (_compare(Path(options.subject), options.against),)
        return _report(results, (), console)
    named = named_recipe(options.recipe)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="forkwheel-reproduce-") as temporary:
        work = Path(temporary)
        context = FetchContext(
            store=Store(work / "cache"),
            log=console.bind("reproduce"),
            mirrors=parse_mirrors(options.mirror, os.environ),
        )
        subject = read_subject(options.subject, work=work, context=context, recipe=named.name)
        file = _recipe_file(subject, named) if options.from_repo or subject.bare is not None else None
        results = _rebuild(subject, options, context, console, work, file)
        agreed: tuple[Agreement, ...] = ()
        if options.from_repo and file is not None:
            agreed = agreement(subject.wheels, file, context=context, console=console, kind=options.source)
        if options.out is not None:
            for result in results:
                copy_whole(result.path, options.out / result.path.name)
        _diffoscope(results, console)
        return _report(results, agreed, console)


def _recipe_file(subject: Subject, named: NamedRecipe) -> Path:
    """Return the checkout's recipe; raise UsageError, before anything is built, where there is none."""
    return find_recipe(str(named.given or named.name or subject.recipe), recipes=RECIPES)


def _rebuild(
    subject: Subject,
    options: argparse.Namespace,
    context: FetchContext,
    console: Console,
    work: Path,
    recipe_file: Path | None,
) -> tuple[Reproduced, ...]:
    kind, dest = options.source, work / "kernels-again"
    if subject.bare is not None and recipe_file is not None:
        said = "the wheels are not beside the manifest: this checkout's recipe is built instead"
        console.line(said, package=subject.recipe)
        return reproduce_from_checkout(
            subject.bare, recipe_file, context=context, console=console, kind=kind, dest=dest
        )
    results = [
        *reproduce(subject.wheels, context=context, console=console, kind=kind, document=subject.document),
        *taken_again(subject.taken, among=subject.wheels, context=context, console=console),
    ]
    if subject.kernels is not None:
        from forkwheel.release.reproduce_kernels import reproduce_kernels

        results.append(reproduce_kernels(subject.kernels, context=context, console=console, kind=kind, dest=dest))
    return tuple(results)


def _compare(expected: Path, found: Path) -> Reproduced:
    for file in (expected, found):
        if not file.is_file():
            raise UsageError(f"there is no {file}", hint="name two wheels, to compare them")
    projects = [_project(file) for file in (expected, found)]
    if "" not in projects and projects[0] != projects[1]:
        names = " and ".join(projects)
        raise UsageError(f"these are different packages: {names}", hint="compare two wheels of one package")
    differences = compare_wheels(expected, found)
    return Reproduced(expected, sha256_file(expected), sha256_file(found), found, differences)


def _diffoscope(results: tuple[Reproduced, ...], console: Console) -> None:
    for result in results:
        there = result.original.is_file() and result.differences
        if there and (said := diffoscope(result.original, result.path)) is not None:
            console.line(f"diffoscope on {result.wheel}:\n{said}")


def _project(wheel: Path) -> str:
    """Return the project of a wheel; nothing where its name does not tell, as after a download."""
    try:
        return WheelName.parse(wheel.name).name
    except VerificationError:
        return ""


def _report(results: tuple[Reproduced, ...], agreed: tuple[Agreement, ...], console: Console) -> int:
    for result in results:
        for said in _listed(result.differences):
            console.line(f"{result.wheel}: {said}", kind="warning")
        if result.apart:
            console.line(f"{result.wheel}: {result.apart}: the same host compiler would give all bytes", kind="warning")
    for each in agreed:
        parts = ", ".join(name for name, _, _ in each.changes)
        said = "gives the same key" if each.same else f"gives another key: changed are {parts}"
        console.line(f"this checkout's recipe {said}", package=each.package, kind="done" if each.same else "warning")
    if console.json_mode:
        console.data(_document(results, agreed))
    console.table(("wheel", "result", "sha256"), [(one.wheel, one.verdict, one.rebuilt) for one in results])
    different = [result for result in results if result.differences]
    if different:
        worst = different[0]
        first = worst.differences[0]
        raise VerificationError(
            f"{worst.wheel} is not what a rebuild gives ({worst.rebuilt}, not {worst.expected}): "
            f"{first.kind} {first.member}",
            hint="the differences are listed above; the wheel was changed, or the build depends on this machine",
        )
    return 0


def _listed(differences: Sequence[Difference]) -> Iterator[str]:
    """Say what differs, in no more lines than a person reads; the rest is counted by its kind."""
    for one in differences[:_SHOWN]:
        yield f"{one.kind} {one.member}: {one.detail}"
    if rest := Counter(one.kind for one in differences[_SHOWN:]):
        kinds = ", ".join(f"{count} {kind}" for kind, count in rest.items())
        yield f"and {rest.total()} more ({kinds}), which --json lists"


def _document(results: tuple[Reproduced, ...], agreed: tuple[Agreement, ...]) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "wheels": [
            {
                "wheel": one.wheel,
                "verdict": one.verdict,
                "apart": one.apart,
                "expected": one.expected,
                "rebuilt": one.rebuilt,
                "differences": [dict(vars(item)) for item in one.differences],
            }
            for one in results
        ],
        "checkout": [
            {
                "package": each.package,
                "same_key": each.same,
                "changes": [list(change) for change in each.changes],
            }
            for each in agreed
        ],
    }
