"""``forkwheel smoke`` and ``forkwheel bench``."""

from __future__ import annotations

import argparse
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forkwheel.console import Console
from forkwheel.errors import GpuCheckError, UsageError
from forkwheel.gpu.checks import FAIL, PASS, Check
from forkwheel.gpu.plan import quick
from forkwheel.gpu.prepare import prepared
from forkwheel.options import add_recipe_option
from forkwheel.recipe import find_recipe, load_recipe
from forkwheel.release.manifest import write_json
from forkwheel.store import write_whole

if TYPE_CHECKING:
    from forkwheel.cli import Commands

_KINDS = {PASS: "done", FAIL: "error"}
_LONGEST_LIMIT = 24 * 60 * 60
_WIDEST = 160


def register(commands: Commands) -> None:
    """Add ``smoke`` and ``bench``."""
    smoke = commands.add("smoke", help="compile, load, run and judge the fork on the GPUs of this machine")
    _common(smoke)
    smoke.add_argument(
        "--only", action="append", default=[], metavar="OPERATION", help="run this operation (repeatable)"
    )
    smoke.add_argument(
        "--evidence", action="store_true", help="only list the records that are kept, and which are stale"
    )
    how = smoke.add_mutually_exclusive_group()
    how.add_argument("--quick", action="store_true", help="run fewer shapes; the verdict says so")
    how.add_argument("--controls", action="store_true", help="see that each check fails where it must")
    smoke.add_argument("--stock-wheel", type=_file, metavar="WHEEL", help="the unpatched wheel, for --controls")
    smoke.add_argument("--stock-object", type=_file, metavar="FILE", help="its object for this GPU, already compiled")
    smoke.set_defaults(run=run_smoke_command)
    bench = commands.add("bench", help="time the fusion against what would run otherwise, and advise")
    _common(bench)
    bench.set_defaults(run=run_bench_command)


def _common(parser: argparse.ArgumentParser) -> None:
    add_recipe_option(parser, default="sm120")
    parser.add_argument(
        "--wheels", type=Path, default=Path("dist"), metavar="DIR", help="folder of manifest and wheels"
    )
    parser.add_argument(
        "--no-prebuilt", action="store_true", help="let the JIT compile, although there is a kernel wheel"
    )
    parser.add_argument(
        "--with-wheel", type=_file, action="append", default=[], metavar="WHEEL", help="one more wheel to install"
    )
    parser.add_argument("--python", type=Path, metavar="PATH", help="the interpreter that has torch for CUDA")
    parser.add_argument(
        "--world-size", type=_positive, action="append", default=[], metavar="N", help="ranks (repeatable)"
    )
    parser.add_argument(
        "--ranks-per-gpu", type=_positive, metavar="N", help="let N ranks share a GPU (default: 2 on one GPU)"
    )
    parser.add_argument("--hang-limit", type=_seconds, default=60.0, metavar="S", help="seconds without progress")
    parser.add_argument("--work", type=Path, metavar="DIR", help="keep the environment, JIT cache and logs here")


def _file(text: str) -> Path:
    if not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is no file")
    return Path(text)


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no positive number")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _LONGEST_LIMIT:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds up to {_LONGEST_LIMIT}")
    return seconds


def run_smoke_command(options: argparse.Namespace, console: Console) -> int:
    """Run the smoke checks, or their controls; write the verdict beside the manifest."""
    from forkwheel.gpu.controls import run_controls
    from forkwheel.gpu.smoke import run_smoke
    from forkwheel.gpu.verdict import smoke_document

    if options.evidence:
        return _show_evidence(options, console)
    _check_together(options)
    log = console.bind("gpu")

    def report(check: Check) -> None:
        console.line(
            f"{check.status} {check.name}: {check.detail}", kind=_KINDS.get(check.status, "warning"), package="gpu"
        )

    with prepared(options, console) as setting:
        if options.quick:
            setting = replace(setting, plan=quick(setting.plan), quick=True)
        if options.controls:
            with log.stage("controls"):
                checks = run_controls(setting, report, stock=options.stock_wheel, prebuilt=options.stock_object)
        else:
            with log.stage("smoke"):
                checks = run_smoke(setting, report, only=options.only)
        document = smoke_document(setting, checks, date=_now(), kind="controls" if options.controls else "smoke")
        file = options.wheels / f"{setting.recipe.name}.{document['kind']}.json"
    return _finish(document, file, console)


def _check_together(options: argparse.Namespace) -> None:
    """Refuse options that would do nothing."""
    if options.controls and options.only:
        raise UsageError("--controls runs no single operation", hint="leave out --only")
    if options.stock_wheel and not options.controls:
        raise UsageError("--stock-wheel is for --controls only", hint="leave it out, or add --controls")
    if options.stock_object and not options.stock_wheel:
        raise UsageError("--stock-object goes with --stock-wheel", hint="name the unpatched wheel too")


def _show_evidence(options: argparse.Namespace, console: Console) -> int:
    from forkwheel.gpu.evidence import evidence

    found = evidence(load_recipe(find_recipe(options.recipe, recipes=Path("recipes"))))
    rows = [[item.state, item.file.name, item.kind, item.date, item.verdict, item.statement] for item in found]
    console.table(["", "file", "kind", "date", "verdict", "ran on"], rows)
    if options.json:
        names = ("state", "kind", "date", "verdict", "statement")
        records = [{"file": item.file.name} | {name: getattr(item, name) for name in names} for item in found]
        console.data({"schema": 1, "evidence": records})
    return 0


def run_bench_command(options: argparse.Namespace, console: Console) -> int:
    """Time the fusion; write table, JSON and plot, and end with the advice."""
    from forkwheel.gpu.bench import run_bench
    from forkwheel.gpu.plot import write_plot
    from forkwheel.gpu.report import bench_document, bench_rows

    with prepared(options, console) as setting:
        with console.bind("gpu").stage("bench"):
            result = run_bench(setting, console.bind("gpu"))
        document = bench_document(setting, result, date=_now())
    file = options.wheels / f"{setting.recipe.name}.bench.json"
    columns, rows = bench_rows(document)
    console.table(columns, rows, title=document["statement"])
    if options.json:
        console.data(document)
    write_whole(file, write_json(document))
    for note in write_plot(document, file.with_suffix("")):
        console.line(note, package="gpu")
    console.line(document["advice"]["line"], kind="done" if document["points"] else "warning")
    if document["failures"]:
        failures = "; ".join(failure.splitlines()[0] for failure in document["failures"])
        raise GpuCheckError(failures, hint=f"read {file}, then run the smoke checks")
    return 0


def _finish(document: dict[str, Any], file: Path, console: Console) -> int:
    """Show the outcome, and then write it: a full disk must not hide it."""
    counts = document["counts"]
    rows = [[check["status"], check["name"], _first_line(check["detail"])] for check in document["checks"]]
    console.table(["", "check", "result"], rows, title=document["statement"])
    if document["kind"] == "smoke":
        for name in document["not_run"]:
            console.line(f"{name}: did not run", kind="warning")
    if console.json_mode:
        console.data(document)
    write_whole(file, write_json(document))
    line = f"{document['verdict']}: {document['statement']}"
    line += "".join(f", {counts[status]} {status}" for status in counts)
    console.line(f"{line}; {file}", kind=_KINDS[document["verdict"]])
    return 0 if document["verdict"] == PASS else GpuCheckError.exit_code


def _first_line(text: str) -> str:
    return text.partition("\n")[0][:_WIDEST]


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
