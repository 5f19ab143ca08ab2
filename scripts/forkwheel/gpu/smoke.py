"""The smoke run: see whether the fork compiles, loads, runs and computes the right thing here."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forkwheel.children import CHILDREN
from forkwheel.gpu import preflight
from forkwheel.gpu.checks import FAIL, Check, failed, passed, skipped
from forkwheel.gpu.devices import Machine
from forkwheel.gpu.environment import Environment, InstalledWheel
from forkwheel.gpu.hardware import probe_hardware
from forkwheel.gpu.job import PASSED, Job, Limits, Outcome, explain
from forkwheel.gpu.judge import Judged, judge, summarise
from forkwheel.gpu.plan import GpuPlan, Operation, cases, describe
from forkwheel.gpu.ranks import MOST_BROKEN, run_ranks
from forkwheel.recipe import Recipe

CORRECTNESS = Path(__file__).with_name("correctness.py")
#: From this major compute capability on there is an architecture-specific variant of each target (sm_90a).
_SPECIFIC_FROM = 9
_COMPILE_SECONDS, _RUN_SECONDS = 300.0, 60.0

Report = Callable[[Check], None]


@dataclass(frozen=True)
class Setting:
    """All that a run on this machine is made of.

    ``work`` takes what the run writes; ``without_prebuilt`` is why no wheel of compiled kernels is
    used; ``quick`` tells that the plan has fewer shapes than the recipe says.
    """

    recipe: Recipe
    plan: GpuPlan
    manifest: Mapping[str, Any]
    machine: Machine
    environment: Environment
    wheels: tuple[InstalledWheel, ...]
    worlds: Mapping[int, tuple[int, ...]]
    work: Path
    limits: Limits
    without_prebuilt: str = ""
    quick: bool = False

    @property
    def variables(self) -> dict[str, str]:
        """The variables of every process that runs the fork: a JIT cache of its own, and its own tools."""
        cache = self.work / "jit"
        cache.mkdir(parents=True, exist_ok=True)
        return {self.plan.workspace_variable: str(cache)} | preflight.tool_path(self.environment.python)


def run_smoke(setting: Setting, report: Report, *, only: Sequence[str] = ()) -> list[Check]:
    """Run all checks in their order, reporting each as it ends; ``only`` names operations."""
    checks: list[Check] = []

    def take(check: Check) -> bool:
        checks.append(check)
        report(check)
        return check.status != FAIL

    ready = [take(check) for check in preflight_checks(setting)]
    for check in numerics(setting):
        take(check)
    if not all(ready):
        for operation in setting.plan.operations:
            take(skipped(operation.name, "the preflight failed"))
        return checks
    take(gate(setting))
    for world_size in setting.worlds:
        for operation in setting.plan.operations:
            if not only or operation.name in only:
                for check in correctness(setting, operation, world_size):
                    take(check)
    return checks


def preflight_checks(setting: Setting) -> Iterator[Check]:
    """Yield the preflight's checks; no object is loaded that the tested wheels do not know."""
    machine, environment, variables = setting.machine, setting.environment, setting.variables
    yield preflight.gpus(machine)
    yield preflight.versions(machine, environment, preflight.toolkit_version(variables))
    known = preflight.known_objects(setting.wheels)
    if setting.without_prebuilt:
        yield skipped("wheel of compiled kernels", setting.without_prebuilt)
    clean = preflight.planted(setting.recipe, setting.plan, environment, known)
    yield clean
    yield from preflight.patched_files(environment, setting.manifest)
    yield preflight.imported(setting.plan, environment, setting.manifest, variables)
    yield from probe_hardware(machine, environment, setting.work / "probes")
    if clean.status == FAIL:
        yield skipped(f"object {setting.plan.object}", "an unknown one would be loaded")
    else:
        yield preflight.loaded_object(setting.plan, environment, variables, known, setting.limits.start)


def correctness(
    setting: Setting, operation: Operation, world_size: int, *, settings: Mapping[str, Any] | None = None
) -> list[Check]:
    """Run an operation's whole matrix and return a check for each kind of case."""
    wanted = tuple(cases(setting.plan, operation))
    judged = run_cases(setting, operation, world_size, wanted, settings=settings or {})
    checks = summarise(judged, world_size=world_size)
    if len(judged) < len(wanted):
        left = len(wanted) - len(judged)
        checks.append(failed(f"{operation.name}, {world_size} ranks", f"{left} of {len(wanted)} cases were not run"))
    return checks


def run_cases(
    setting: Setting,
    operation: Operation,
    world_size: int,
    wanted: tuple[dict[str, Any], ...],
    *,
    settings: Mapping[str, Any],
    interfere: Any = None,
    limits: Limits | None = None,
    most_broken: int = MOST_BROKEN,
) -> list[Judged]:
    """Run cases of an operation in ranks; after ``most_broken`` broken groups the rest is left unrun."""
    shapes = setting.plan.shapes
    job = Job(
        python=setting.environment.python,
        worker=CORRECTNESS,
        devices=setting.worlds[world_size],
        settings={
            "driver": str(operation.driver),
            "max_tokens": max(shapes.tokens),
            "max_hidden": max(shapes.hidden),
            **settings,
        },
        cases=wanted,
        environment=setting.variables,
        limits=limits or setting.limits,
        interfere=interfere,
    )
    judged: list[Judged] = []
    folder = setting.work / "ranks" / f"{operation.name}-{world_size}-{len(list_runs(setting.work))}"
    with closing(run_ranks(job, folder, most_broken=most_broken)) as outcomes:
        for outcome in outcomes:
            judged.append(_lost(operation, outcome, wanted) if outcome.case == -1 else judge(wanted, outcome))
    return judged


def _lost(operation: Operation, outcome: Outcome, wanted: Sequence[Mapping[str, Any]]) -> Judged:
    """Describe ranks that broke before their first case or after their last."""
    case = {"operation": operation.name, "pattern": "ranks", "dtype": "start or end", "tokens": 0, "hidden": 0}
    return Judged(case, FAIL, f"{explain(outcome, [describe(one) for one in wanted])}\n{outcome.log}", {})


def list_runs(work: Path) -> list[Path]:
    """List the folders of the ranks' runs so far."""
    return list((work / "ranks").iterdir()) if (work / "ranks").is_dir() else []


def gate(setting: Setting) -> Check:
    """Evaluate the recipe's gate for the GPU at hand."""
    name = "gate"
    worker = setting.plan.gate
    if worker is None:
        return skipped(name, "the recipe has none")
    job = Job(
        setting.environment.python, worker, (0,), {}, ({},), setting.variables, replace(setting.limits, start=120)
    )
    outcome = next(run_ranks(job, setting.work / "gate"))
    if outcome.status != PASSED or outcome.results[0] is None:
        return failed(name, f"{explain(outcome, [name])}\n{outcome.log}")
    result = outcome.results[0]
    return passed(name, result["detail"]) if result["passed"] else failed(name, result["detail"])


def numerics(setting: Setting) -> Iterator[Check]:
    """Compile the recipe's CUDA program against the installed headers, and run it."""
    program = setting.plan.numerics
    if program is None:
        return
    name = f"{program.source.stem} at {', '.join(map(str, program.threads))} threads"
    if preflight.toolkit_version(setting.variables) is None:
        yield skipped(name, "there is no nvcc to compile it with")
        return
    yield numeric_program(setting, setting.environment.site, name)


def numeric_program(setting: Setting, site: Path, name: str) -> Check:
    """Compile the CUDA program against the headers below ``site`` and run it on the first GPU."""
    program = setting.plan.numerics
    assert program is not None
    binary = setting.work / f"{program.source.stem}-{len(list(setting.work.glob(program.source.stem + '-*')))}"
    major, minor = setting.machine.devices[0].capability
    include = [option for path in program.include for option in ("-I", str(site / path))]
    architecture = f"sm_{major}{minor}" + ("a" if major >= _SPECIFIC_FROM else "")
    options = ["-std=c++17", "--expt-relaxed-constexpr", f"-arch={architecture}", "-o", str(binary)]
    compile_ = [preflight.nvcc(setting.variables), *options, *include, str(program.source)]
    try:
        done = CHILDREN.run(compile_, seconds=_COMPILE_SECONDS)
        if done.returncode:
            return failed(name, f"does not compile: {done.stderr[-500:]}")
        done = CHILDREN.run([str(binary), *map(str, program.threads)], seconds=_RUN_SECONDS)
    except subprocess.TimeoutExpired as error:
        return failed(name, f"did not end within {error.timeout:g} s")
    text = "; ".join((done.stdout + done.stderr).splitlines())
    if done.returncode:
        return failed(name, f"{text or 'no output'} (it ended with {done.returncode})")
    return passed(name, text)
