"""``forkwheel smoke`` and ``forkwheel bench``."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forkwheel.console import Console
from forkwheel.errors import GpuCheckError, UsageError
from forkwheel.gpu.checks import FAIL, PASS, Check
from forkwheel.gpu.devices import find_machine
from forkwheel.gpu.environment import InstalledWheel, find_prebuilt, find_wheels, make_environment
from forkwheel.gpu.job import Limits
from forkwheel.gpu.plan import load_plan, quick
from forkwheel.gpu.ranks import choose_worlds
from forkwheel.gpu.smoke import Setting
from forkwheel.recipe import find_recipe, load_recipe
from forkwheel.release.manifest import read_manifest, write_json
from forkwheel.tree import sha256_file

if TYPE_CHECKING:
    from forkwheel.cli import Commands

_KINDS = {PASS: "done", FAIL: "error"}


def register(commands: Commands) -> None:
    """Add ``smoke`` and ``bench``."""
    smoke = commands.add("smoke", help="Compile, load, run and judge the fork on the GPUs of this machine.")
    _common(smoke)
    smoke.add_argument(
        "--only", action="append", default=[], metavar="OPERATION", help="run this operation (repeatable)"
    )
    smoke.add_argument(
        "--evidence", action="store_true", help="only list the records that are kept, and which are stale"
    )
    smoke.add_argument("--quick", action="store_true", help="run fewer shapes; the verdict says so")
    smoke.add_argument("--controls", action="store_true", help="see that each check fails where it must")
    smoke.add_argument("--stock-wheel", type=_file, metavar="WHEEL", help="the unpatched wheel, for --controls")
    smoke.add_argument("--stock-object", type=_file, metavar="FILE", help="its object for this GPU, already compiled")
    smoke.set_defaults(run=run_smoke_command)
    bench = commands.add("bench", help="Time the fusion against what would run otherwise, and advise.")
    _common(bench)
    bench.set_defaults(run=run_bench_command)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--recipe", default="sm120", metavar="NAME", help="a recipe's name, folder or file")
    parser.add_argument(
        "--wheels", type=Path, default=Path("dist"), metavar="DIR", help="folder of manifest and wheels"
    )
    parser.add_argument(
        "--no-prebuilt", action="store_true", help="let the JIT compile, although there is a kernel wheel"
    )
    parser.add_argument("--with-wheel", type=_file, action="append", default=[], help="one more wheel to install")
    parser.add_argument("--python", type=Path, metavar="PATH", help="the interpreter that has torch for CUDA")
    parser.add_argument("--world-size", type=_positive, action="append", default=[], help="ranks (repeatable)")
    parser.add_argument(
        "--ranks-per-gpu", type=_positive, metavar="N", help="let N ranks share a GPU (default: 2 on one GPU)"
    )
    parser.add_argument("--hang-limit", type=float, default=60.0, metavar="S", help="seconds without progress")
    parser.add_argument("--work", type=Path, metavar="DIR", help="keep the environment, JIT cache and logs here")


def _file(text: str) -> Path:
    if not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is no file")
    return Path(text)


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no positive number")
    return int(text)


def run_smoke_command(options: argparse.Namespace, console: Console) -> int:
    """Run the smoke checks, or their controls; write the verdict beside the manifest."""
    from forkwheel.gpu.controls import run_controls
    from forkwheel.gpu.smoke import run_smoke
    from forkwheel.gpu.verdict import smoke_document

    if options.evidence:
        return _show_evidence(options, console)
    log = console.bind("gpu")

    def report(check: Check) -> None:
        console.line(
            f"{check.status} {check.name}: {check.detail}", kind=_KINDS.get(check.status, "warning"), package="gpu"
        )

    with _setting(options, console) as setting:
        _check_names(options.only, setting)
        if options.quick:
            setting = replace(setting, plan=quick(setting.plan))
        if options.controls:
            with log.stage("controls"):
                checks = run_controls(setting, report, stock=options.stock_wheel, prebuilt=options.stock_object)
        else:
            with log.stage("smoke"):
                checks = run_smoke(setting, report, only=options.only)
        document = smoke_document(setting, checks, date=_now(), kind="controls" if options.controls else "smoke")
        file = options.wheels / f"{setting.recipe.name}.{document['kind']}.json"
    return _finish(document, file, console)


def _check_names(only: Sequence[str], setting: Setting) -> None:
    names = [operation.name for operation in setting.plan.operations]
    for name in only:
        if name not in names:
            raise UsageError(f"there is no operation {name!r}", hint=f"the operations are {', '.join(names)}")


def _show_evidence(options: argparse.Namespace, console: Console) -> int:
    from forkwheel.gpu.verdict import evidence

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

    with _setting(options, console) as setting:
        with console.bind("gpu").stage("bench"):
            result = run_bench(setting, console.bind("gpu"))
        document = bench_document(setting, result, date=_now())
    file = options.wheels / f"{setting.recipe.name}.bench.json"
    file.write_bytes(write_json(document))
    for note in write_plot(document, file.with_suffix("")):
        console.line(note, package="gpu")
    columns, rows = bench_rows(document)
    console.table(columns, rows, title=document["statement"])
    if options.json:
        console.data(document)
    console.line(document["advice"]["line"], kind="done")
    if document["failures"]:
        raise GpuCheckError("; ".join(document["failures"])[:2000], hint=f"read {file}, then run the smoke checks")
    return 0


def _finish(document: dict[str, Any], file: Path, console: Console) -> int:
    file.write_bytes(write_json(document))
    counts = document["counts"]
    rows = [[check["status"], check["name"], check["detail"].splitlines()[0][:160]] for check in document["checks"]]
    console.table(["", "check", "result"], rows, title=document["statement"])
    if document["kind"] == "smoke":
        for name in document["not_run"]:
            console.line(f"{name}: did not run", kind="warning")
    if console.json_mode:
        console.data(document)
    line = f"{document['verdict']}: {document['statement']}"
    line += "".join(f", {counts[status]} {status}" for status in counts)
    console.line(f"{line}; {file}", kind=_KINDS[document["verdict"]])
    return 0 if document["verdict"] == PASS else GpuCheckError.exit_code


@contextmanager
def _setting(options: argparse.Namespace, console: Console) -> Iterator[Setting]:
    """Prepare everything for a run; the GPUs are looked for before anything is made."""
    machine = find_machine()
    recipe = load_recipe(find_recipe(options.recipe, recipes=Path("recipes")))
    plan = load_plan(recipe.folder)
    manifest = _manifest(options.wheels / f"{recipe.name}.manifest.json")
    worlds = choose_worlds(
        options.world_size,
        supported=plan.world_sizes,
        gpus=len(machine.devices),
        ranks_per_gpu=options.ranks_per_gpu,
    )
    if options.work:
        options.work.mkdir(parents=True, exist_ok=True)
    # A folder of its own each time: nothing that an earlier run compiled is used.
    work = Path(tempfile.mkdtemp(prefix="forkwheel-gpu-", dir=options.work)).absolute()
    try:
        wheels = find_wheels(options.wheels, manifest)
        wheels += tuple(InstalledWheel(file.resolve(), sha256_file(file)) for file in options.with_wheel)
        prebuilt = _prebuilt(options, recipe.name, machine.devices[0].capability)
        wheels += () if isinstance(prebuilt, str) else (prebuilt,)
        with console.bind("gpu").stage("environment"):
            environment = make_environment(
                work / "env", base=options.python, wheels=wheels, needs=dict(plan.needs), torch=plan.torch
            )
        limits = Limits(case=options.hang_limit)
        reason = prebuilt if isinstance(prebuilt, str) else ""
        yield Setting(recipe, plan, manifest, machine, environment, wheels, worlds, work, limits, reason)
    finally:
        if options.work is None:
            shutil.rmtree(work, ignore_errors=True)


def _prebuilt(options: argparse.Namespace, recipe: str, capability: tuple[int, int]) -> InstalledWheel | str:
    file = options.wheels / f"{recipe}.kernels.json"
    if options.no_prebuilt:
        return "--no-prebuilt was given"
    if not file.is_file():
        return "there is none beside the manifest"
    return find_prebuilt(options.wheels, json.loads(file.read_bytes()), capability=capability)


def _manifest(file: Path) -> dict[str, Any]:
    document = read_manifest(file)
    if document is None:
        raise UsageError(f"{file} is missing or cannot be read", hint="build the wheels first, or name --wheels")
    return document


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
