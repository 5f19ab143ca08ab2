"""The command ``reproduce``."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from forkwheel.console import Console
from forkwheel.errors import UsageError, VerificationError
from forkwheel.fetch import FetchContext, parse_mirrors
from forkwheel.recipe import SOURCE_KINDS, find_recipe
from forkwheel.release.compare import compare_wheels, diffoscope
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

if TYPE_CHECKING:
    from forkwheel.cli import Commands

SCHEMA = 1


def register(commands: Commands) -> None:
    """Add ``reproduce``."""
    parser = commands.add("reproduce", help="build wheels again from what they carry, and compare byte for byte")
    parser.add_argument("subject", metavar="WHEEL-or-manifest-or-index-URL", help="what is to be built again")
    parser.add_argument("--recipe", help="which set, where there are several")
    parser.add_argument("--source", choices=SOURCE_KINDS, help="use this kind of source only")
    parser.add_argument("--mirror", action="append", default=[], metavar="URL=PATH", help="fetch a git URL from there")
    parser.add_argument("--from-repo", action="store_true", help="also say whether this checkout gives the same key")
    parser.add_argument("--against", type=Path, metavar="WHEEL", help="build nothing: compare with this wheel")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the rebuilt wheels here")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    """Build again and compare; raise VerificationError where a wheel is not the same."""
    if options.against is not None:
        results: tuple[Reproduced, ...] = (_compare(Path(options.subject), options.against),)
        return _report(results, (), console)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="forkwheel-reproduce-") as temporary:
        work = Path(temporary)
        context = FetchContext(
            store=Store(work / "cache"),
            log=console.bind("reproduce"),
            mirrors=parse_mirrors(options.mirror, os.environ),
        )
        subject = read_subject(options.subject, work=work, context=context, recipe=options.recipe)
        results = _rebuild(subject, options, context, console, work)
        agreed = _agreement(subject, options, context, console) if options.from_repo else ()
        if options.out is not None:
            for result in results:
                copy_whole(result.path, options.out / result.path.name)
        _diffoscope(results, console)
        return _report(results, agreed, console)


def _rebuild(
    subject: Subject, options: argparse.Namespace, context: FetchContext, console: Console, work: Path
) -> tuple[Reproduced, ...]:
    kind, dest = options.source, work / "kernels-again"
    if subject.bare is not None:
        name = options.recipe or subject.recipe
        console.line("the wheels are not beside the manifest: this checkout's recipe is built instead", package=name)
        file = find_recipe(name, recipes=Path("recipes"))
        return reproduce_from_checkout(subject.bare, file, context=context, console=console, kind=kind, dest=dest)
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
    differences = compare_wheels(expected, found)
    return Reproduced(expected, sha256_file(expected), sha256_file(found), found, differences)


def _agreement(
    subject: Subject, options: argparse.Namespace, context: FetchContext, console: Console
) -> tuple[Agreement, ...]:
    file = find_recipe(options.recipe or subject.recipe, recipes=Path("recipes"))
    return agreement(subject.wheels, file, context=context, console=console, kind=options.source)


def _diffoscope(results: tuple[Reproduced, ...], console: Console) -> None:
    for result in results:
        there = result.original.is_file() and result.differences
        if there and (said := diffoscope(result.original, result.path)) is not None:
            console.line(f"diffoscope on {result.wheel}:\n{said}")


def _report(results: tuple[Reproduced, ...], agreed: tuple[Agreement, ...], console: Console) -> int:
    for result in results:
        for one in result.differences:
            console.line(f"{result.wheel}: {one.kind} {one.member}: {one.detail}", kind="warning")
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
            hint="every difference is listed above; the wheel was changed, or the build depends on this machine",
        )
    return 0


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
