"""The bench's document, and its table."""

from __future__ import annotations

from typing import Any

from forkwheel.gpu.advice import MARGIN, Point, advise, crossover, one_line
from forkwheel.gpu.bench import BenchResult
from forkwheel.gpu.smoke import Setting
from forkwheel.gpu.statistics import Timing
from forkwheel.gpu.verdict import header, without_paths


def bench_document(setting: Setting, result: BenchResult, *, date: str) -> dict[str, Any]:
    """Return the bench's record; times are microseconds for one call."""
    bench = setting.plan.bench
    return header(setting, date=date, kind="bench") | {
        "operation": bench.operation,
        "pattern": bench.pattern,
        "dtype": bench.dtype,
        "unit": "us",
        "margin": MARGIN,
        "points": [_point(point) for point in result.points],
        "crossovers": crossovers(result.points),
        "skipped": list(result.skipped),
        "failures": without_paths(setting, {"all": list(result.failures)})["all"],
        "advice": _advice(setting, result.points),
    }


def _advice(setting: Setting, points: tuple[Point, ...]) -> dict[str, Any]:
    bench = setting.plan.bench
    items = advise(points, tokens=bench.tokens, hidden=bench.hidden)
    line = (
        one_line(items, dict(setting.plan.advice)) if items else "nothing could be compared here, so there is no advice"
    )
    worlds = {str(item.world_size): {"kind": item.kind, "tokens": item.tokens} for item in items}
    return {"line": line, "worlds": worlds}


def crossovers(points: tuple[Point, ...]) -> list[dict[str, Any]]:
    """Return where the fusion becomes slower, for each world size and hidden size; null where it never does."""
    found = []
    for world_size, hidden in sorted({(point.world_size, point.hidden) for point in points}):
        here = [point for point in points if (point.world_size, point.hidden) == (world_size, hidden)]
        tokens = crossover(here)
        found.append({"world_size": world_size, "hidden": hidden, "tokens": None if tokens is None else round(tokens)})
    return found


def _point(point: Point) -> dict[str, Any]:
    return {
        "world_size": point.world_size,
        "hidden": point.hidden,
        "tokens": point.tokens,
        "fused": {name: _timing(one) for name, one in point.fused.items()},
        "others": {name: _timing(one) for name, one in point.others.items()},
        "ratio": round(point.ratio, 4),
        "wins": point.wins,
    }


def _timing(one: Timing) -> dict[str, float]:
    return {
        "median": round(one.median, 3),
        "low": round(one.low, 3),
        "high": round(one.high, 3),
        "noise": round(one.noise, 4),
    }


def bench_rows(document: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the table's columns and rows."""
    shots = list(dict.fromkeys(name for point in document["points"] for name in point["fused"]))
    others = list(dict.fromkeys(name for point in document["points"] for name in point["others"]))
    rows = []
    for point in document["points"]:
        times = [_cell(point["fused"].get(name)) for name in shots] + [
            _cell(point["others"].get(name)) for name in others
        ]
        sizes = [str(point[name]) for name in ("world_size", "hidden", "tokens")]
        rows.append([*sizes, *times, f"{point['ratio']:.2f}", "yes" if point["wins"] else "no"])
    columns = [
        "ranks",
        "hidden",
        "tokens",
        *(f"fused {name}, us" for name in shots),
        *(f"{name}, us" for name in others),
    ]
    return [*columns, "ratio", "wins"], rows


def _cell(one: dict[str, float] | None) -> str:
    return "-" if one is None else f"{one['median']:.1f} ± {100 * one['noise']:.0f} %"
