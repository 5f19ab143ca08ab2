"""What the GPUs must be able to do before the first all-reduce: clusters, peer access, stores that arrive."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

from forkwheel.gpu.checks import Check, failed, passed, skipped
from forkwheel.gpu.devices import Machine
from forkwheel.gpu.environment import Environment
from forkwheel.gpu.job import PASSED, Job, Limits, Outcome, explain
from forkwheel.gpu.ranks import run_ranks

_PROBE = Path(__file__).with_name("probe.py")


def probe_hardware(machine: Machine, environment: Environment, folder: Path, *, lost: bool = False) -> list[Check]:
    """Probe clusters, peer access and stores into a peer's memory; each GPU pair in turn."""
    numbers = [device.index for device in machine.devices]
    checks = [_clusters(machine, environment, folder / "clusters")]
    pairs = list(combinations(numbers, 2)) or [(0, 0)]
    if len(numbers) > 1:
        checks.append(_peers(machine, environment, folder / "peers"))
    else:
        checks.append(skipped("peer access", "there is one GPU"))
    for first, second in pairs:
        checks.append(_stores(environment, (first, second), folder / f"stores-{first}-{second}", lost=lost))
    return checks


def _probe(environment: Environment, devices: tuple[int, ...], case: dict[str, Any], folder: Path) -> Outcome:
    job = Job(environment.python, _PROBE, devices, {}, (case,), {}, Limits(start=90, case=45))
    return next(run_ranks(job, folder))


def _clusters(machine: Machine, environment: Environment, folder: Path) -> Check:
    name = "largest cluster"
    if not machine.devices[0].clusters:
        return skipped(name, f"{machine.devices[0].architecture} has no clusters")
    outcome = _probe(environment, (0,), {"probe": "clusters"}, folder)
    if outcome.status != PASSED or outcome.results[0] is None:
        return failed(name, explain(outcome, [name]))
    sizes = outcome.results[0]["clusters"]
    if not sizes:
        return failed(name, "no cluster can be launched, not even of one block")
    return passed(name, f"{max(sizes)} blocks", largest=max(sizes))


def _peers(machine: Machine, environment: Environment, folder: Path) -> Check:
    numbers = tuple(device.index for device in machine.devices)
    outcome = _probe(environment, numbers, {"probe": "peers", "gpus": list(numbers)}, folder)
    if outcome.status != PASSED:
        return failed("peer access", explain(outcome, ["peer access"]))
    blocked = [
        f"{number} to {peer}"
        for number, result in zip(numbers, outcome.results, strict=True)
        for peer, reached in (result or {"peers": {}})["peers"].items()
        if not reached
    ]
    if blocked:
        return failed("peer access", f"the driver offers none from GPU {', '.join(blocked)}")
    return passed("peer access", f"between all {len(numbers)} GPUs")


def _stores(environment: Environment, pair: tuple[int, int], folder: Path, *, lost: bool) -> Check:
    name = f"kernel stores over IPC, GPU {pair[0]} and {pair[1]}"
    outcome = _probe(environment, pair, {"probe": "stores", "lost": lost}, folder)
    if outcome.status != PASSED:
        return failed(name, explain(outcome, [name]))
    for result in outcome.results:
        if result is not None and result["arrived"] != result["words"]:
            return failed(
                name,
                f"{result['words'] - result['arrived']} of {result['words']} words that a kernel stored never arrived",
            )
    return passed(name, "every word that a kernel stored was read by the peer")
