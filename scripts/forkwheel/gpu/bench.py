"""Time the fusion against what would run otherwise, at every shape and world size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forkwheel.console import Log
from forkwheel.gpu.advice import Point
from forkwheel.gpu.job import PASSED, Job, Outcome, explain
from forkwheel.gpu.ranks import run_ranks
from forkwheel.gpu.smoke import Setting
from forkwheel.gpu.statistics import Timing, slowest, timing

WORKER = Path(__file__).with_name("timing_worker.py")
_FUSED = "fused "


@dataclass(frozen=True)
class BenchResult:
    """All points, in the order they were timed; what could not be timed, and what failed."""

    points: tuple[Point, ...]
    skipped: tuple[str, ...]
    failures: tuple[str, ...]


def run_bench(setting: Setting, log: Log) -> BenchResult:
    """Time all shapes at all world sizes."""
    points: list[Point] = []
    skipped: dict[str, None] = {}
    failures: list[str] = []
    wanted = bench_cases(setting)
    for world_size, devices in setting.worlds.items():
        left = len(wanted)
        with closing(run_ranks(_job(setting, devices, wanted), setting.work / f"bench-{world_size}")) as outcomes:
            for outcome in outcomes:
                left -= outcome.case >= 0
                if outcome.status != PASSED:
                    failures.append(f"{world_size} ranks{_failure(outcome, wanted)}")
                    log.warning(f"{failures[-1]}\n{outcome.log}")
                    continue
                results = [result for result in outcome.results if result is not None]
                for name, reason in (item for result in results for item in result["skipped"].items()):
                    skipped[f"{name}, {world_size} ranks: {reason}"] = None
                point = make_point(world_size, wanted[outcome.case], results)
                if point is not None:
                    points.append(point)
                    log.info(_line(point))
        if left:
            failures.append(f"{world_size} ranks: {left} of {len(wanted)} shapes were not timed")
    return BenchResult(tuple(points), tuple(skipped), tuple(failures))


def _failure(outcome: Outcome, wanted: Sequence[Mapping[str, Any]]) -> str:
    where = "" if outcome.case < 0 else f", {_shape(wanted[outcome.case])}"
    return f"{where}: {explain(outcome, [_shape(case) for case in wanted])}"


def bench_cases(setting: Setting) -> tuple[dict[str, Any], ...]:
    """Return the shapes to time; the first value of each variant is the one that is timed."""
    bench = setting.plan.bench
    operation = setting.plan.operation(bench.operation)
    pattern = next(item for item in operation.patterns if item.name == bench.pattern)
    variants = {name: values[0] for name, values in operation.variants if name != "shot"}
    return tuple(
        {"operation": operation.name, "pattern": pattern.name, "dtype": bench.dtype, "tokens": tokens}
        | {
            "hidden": hidden,
            "shots": list(bench.shots),
            "others": list(bench.others),
            "outputs": list(pattern.outputs),
            **variants,
        }
        for hidden in bench.hidden
        for tokens in bench.tokens
    )


def _job(setting: Setting, devices: tuple[int, ...], wanted: tuple[dict[str, Any], ...]) -> Job:
    bench = setting.plan.bench
    settings = {
        "driver": str(setting.plan.operation(bench.operation).driver),
        "max_tokens": max(bench.tokens),
        "max_hidden": max(bench.hidden),
        "gpu_each": len(set(devices)) == len(devices),
    }
    return Job(setting.environment.python, WORKER, devices, settings, wanted, setting.variables, setting.limits)


def make_point(world_size: int, case: Mapping[str, Any], results: list[Mapping[str, Any]]) -> Point | None:
    """Join the ranks' rounds; None where there is nothing to compare."""
    names = set.intersection(*(set(result["rounds"]) for result in results))
    timings: dict[str, Timing] = {
        name: slowest([timing(result["rounds"][name]) for result in results]) for name in sorted(names)
    }
    fused = {name.removeprefix(_FUSED): one for name, one in timings.items() if name.startswith(_FUSED)}
    others = {name: one for name, one in timings.items() if not name.startswith(_FUSED)}
    if not fused or not others:
        return None
    return Point(world_size, case["hidden"], case["tokens"], fused, others)


def _shape(case: Mapping[str, Any]) -> str:
    return f"[{case['tokens']}, {case['hidden']}]"


def _line(point: Point) -> str:
    times = [f"{name} {one.median:.1f}" for name, one in {**point.fused, **point.others}.items()]
    return f"{point.world_size} ranks [{point.tokens}, {point.hidden}]: {', '.join(times)} us, ratio {point.ratio:.2f}"
