"""Judge what the ranks reported: each case, and the cases of one kind together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forkwheel.gpu.checks import FAIL, PASS, SKIP, Check, failed, passed, skipped
from forkwheel.gpu.job import PASSED, Outcome, explain
from forkwheel.gpu.plan import describe
from forkwheel.gpu.reference import BOUNDS, ROW_FACTOR, larger, within

_SHAPE = ("tokens", "hidden", "seed")


@dataclass(frozen=True)
class Judged:
    """A case with its status, the reason where it did not pass, and its errors by output."""

    case: Mapping[str, Any]
    status: str
    reason: str
    errors: Mapping[str, float]
    kernels: tuple[str, ...] = ()
    seconds: float = 0.0


def bound(case: Mapping[str, Any], output: str) -> float:
    """Return the largest error that an output of a case may have."""
    return BOUNDS[output] if output in BOUNDS else BOUNDS[case["dtype"]]


def judge(cases: Sequence[Mapping[str, Any]], outcome: Outcome) -> Judged:
    """Judge the case that an outcome is about by all ranks' reports; ``cases`` are all that were to be run."""
    case = cases[outcome.case]
    if outcome.status != PASSED:
        return Judged(case, FAIL, explain(outcome, [describe(one) for one in cases]), {})
    results = [result for result in outcome.results if result is not None]
    if reason := next((result["skip"] for result in results if "skip" in result), None):
        return Judged(case, SKIP, reason, {})
    errors: dict[str, float] = {}
    for result in results:
        for output, figure in result["figures"].items():
            errors[output] = larger(errors.get(output, 0.0), figure["error"])
    kernels = tuple(results[0]["kernels"])
    reasons = [reason for rank, result in enumerate(results) for reason in _faults(case, rank, result)]
    if len({result["digest"] for result in results}) > 1:
        reasons.append("the ranks' results are not equal bit for bit")
    return Judged(case, FAIL if reasons else PASS, "; ".join(reasons), errors, kernels, results[0]["seconds"])


def _faults(case: Mapping[str, Any], rank: int, result: Mapping[str, Any]) -> Iterable[str]:
    if result["missing"]:
        ran = ", ".join(result["kernels"]) or "none"
        yield f"rank {rank}: kernel {', '.join(result['missing'])} did not run (these ran: {ran[:300]})"
    for output, figure in result["figures"].items():
        limit = bound(case, output)
        if figure["unwritten"]:
            yield f"rank {rank}: {figure['unwritten']} values of {output} are NaN: never written"
        elif not within(limit, figure["error"], figure["row"]):
            yield (
                f"rank {rank}: {output} is off by {figure['error']:.2e} (bound {limit:g}), "
                f"its worst row by {figure['row']:.2e} (bound {limit * ROW_FACTOR:g})"
            )


def summarise(judged: Sequence[Judged], *, world_size: int) -> list[Check]:
    """Return one check for all shapes of each kind of case, and one for each case that failed."""
    groups: dict[str, list[Judged]] = {}
    for item in judged:
        kind = {name: value for name, value in item.case.items() if name not in _SHAPE}
        name = describe(kind | {"tokens": "*", "hidden": "*"}).removesuffix(" [*, *]")
        groups.setdefault(f"{name}, {world_size} ranks", []).append(item)
    return [check for name, items in groups.items() for check in _group(name, items)]


def _group(name: str, items: list[Judged]) -> list[Check]:
    ran = [item for item in items if item.status != SKIP]
    if not ran:
        return [skipped(name, items[0].reason)]
    failures = [item for item in ran if item.status == FAIL]
    figures = _figures(ran)
    errors = [
        f"{output} {_shown(value)} (bound {bound(ran[0].case, output):g})" for output, value in figures["worst"].items()
    ]
    text = f"{len(ran)} shapes" + (f", worst error {', '.join(errors)}" if errors else "")
    reasons = sorted({item.reason for item in items if item.status == SKIP})
    if reasons:
        text += f"; {len(items) - len(ran)} skipped: {'; '.join(reasons)}"
    if not failures:
        return [passed(name, text, **figures)]
    checks = [failed(name, f"{len(failures)} failed of {text}", **figures)]
    return checks + [failed(f"{describe(item.case)}", item.reason) for item in failures]


def _figures(ran: list[Judged]) -> dict[str, Any]:
    """Collect the errors: the worst by output, and all of them by output, hidden size and token count.

    An error that is no finite number (something was never written) is None: JSON has no NaN.
    """
    worst: dict[str, float] = {}
    table: dict[str, dict[str, dict[str, float | None]]] = {}
    kernels: set[str] = set()
    for item in ran:
        kernels |= {kernel.split("<")[0].split("(")[0].removeprefix("void ") for kernel in item.kernels}
        for output, error in item.errors.items():
            worst[output] = larger(worst.get(output, 0.0), error)
            row = table.setdefault(output, {}).setdefault(str(item.case["hidden"]), {})
            row[str(item.case["tokens"])] = _number(error)
    seconds = round(sum(item.seconds for item in ran), 2)
    rounded = {output: _number(error) for output, error in worst.items()}
    return {"worst": rounded, "errors": table, "kernels": sorted(kernels), "seconds": seconds}


def _number(error: float) -> float | None:
    return float(f"{error:.3g}") if math.isfinite(error) else None


def _shown(error: float | None) -> str:
    return "none" if error is None else f"{error:.1e}"
