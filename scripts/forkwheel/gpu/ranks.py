"""Run cases in spawned ranks, under a watchdog, and go on in new processes after a failure."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forkwheel.errors import UsageError
from forkwheel.gpu.rank_group import RankGroup

PASSED, ERROR, HANG = "ok", "error", "hang"


@dataclass(frozen=True)
class Limits:
    """Seconds without any report from any rank after which a group counts as hung."""

    start: float = 900.0
    case: float = 60.0


@dataclass(frozen=True)
class Job:
    """What a group of ranks is to run.

    ``worker`` is a Python file with ``start(rank)``; ``devices`` holds the GPU of each rank;
    ``settings`` and ``cases`` are JSON values that reach the worker as they are.
    """

    python: Path
    worker: Path
    devices: tuple[int, ...]
    settings: Mapping[str, Any]
    cases: tuple[Mapping[str, Any], ...]
    environment: Mapping[str, str]
    limits: Limits = Limits()
    interfere: Callable[[RankGroup, int], None] | None = None


@dataclass(frozen=True)
class Outcome:
    """How a case ended: ``ok`` with each rank's result, ``error`` or ``hang`` with the reason.

    ``stacks`` holds, after a hang, each rank's Python stack, and ``last`` the case that each
    rank finished last (its index, or None).
    """

    case: int
    status: str
    results: tuple[Mapping[str, Any] | None, ...] = ()
    error: str = ""
    stacks: tuple[str, ...] = ()
    last: tuple[int | None, ...] = ()
    log: str = ""


def devices_for(world_size: int, *, gpus: int, ranks_per_gpu: int) -> tuple[int, ...]:
    """Assign GPUs to ranks, each GPU to ``ranks_per_gpu`` at most; raise UsageError where they do not suffice."""
    if world_size > gpus * ranks_per_gpu:
        raise UsageError(
            f"{world_size} ranks do not fit on {gpus} GPUs with {ranks_per_gpu} rank(s) each",
            hint="ask for a smaller world size, or set --ranks-per-gpu",
        )
    return tuple(rank * gpus // world_size if world_size > gpus else rank for rank in range(world_size))


def world_sizes(
    asked: Sequence[int], *, supported: Sequence[int], gpus: int, ranks_per_gpu: int | None
) -> tuple[tuple[int, ...], int]:
    """Choose the world sizes and the ranks for each GPU; a size without kernels is a UsageError.

    By default these are all sizes with a GPU for each rank; a single GPU takes two ranks.
    """
    for size in asked:
        if size not in supported:
            names = ", ".join(map(str, supported))
            raise UsageError(f"world size {size} is not supported", hint=f"the sizes with kernels are {names}")
    each = ranks_per_gpu or (2 if gpus == 1 else 1)
    sizes = tuple(asked) or tuple(size for size in supported if size <= gpus * each)
    for size in sizes:
        devices_for(size, gpus=gpus, ranks_per_gpu=each)
    return sizes, each


def run_ranks(job: Job, folder: Path) -> Iterator[Outcome]:
    """Yield the outcome of every case, in order; a case that breaks the ranks ends only itself.

    ``folder`` takes the ranks' logs. Where the ranks cannot even start, or hang as they end,
    one outcome with case -1 says so, and the cases that were left are not run.
    """
    left = list(range(len(job.cases)))
    attempt = 0
    while left:
        attempt += 1
        group = RankGroup(job, [(index, dict(job.cases[index])) for index in left], folder / f"group-{attempt}")
        failed = False
        for outcome in _watch(job, group, left):
            yield outcome
            failed = outcome.status != PASSED
            if outcome.case == -1:
                return
        if not failed:
            return


def _watch(job: Job, group: RankGroup, left: list[int]) -> Iterator[Outcome]:
    """Yield outcomes until the group has ended; take what was run from ``left``."""
    try:
        quiet_since = time.monotonic()
        while True:
            reported = group.read(0.2)
            now = time.monotonic()
            quiet_since = now if reported else quiet_since
            while left and group.finished(left[0]):
                yield Outcome(left[0], PASSED, results=group.results(left.pop(0)), last=group.last())
            if job.interfere is not None:
                job.interfere(group, left[0] if left else -1)
            if error := group.failure():
                yield _failed(group, left, ERROR, error)
                return
            if group.ended():
                return
            limit = job.limits.case if group.started() else job.limits.start
            if now - quiet_since > limit:
                yield _failed(group, left, HANG, f"no rank reported anything for {limit:g} s")
                return
    finally:
        group.kill()


def _failed(group: RankGroup, left: list[int], status: str, error: str) -> Outcome:
    stacks: tuple[str, ...] = ()
    if status == HANG:
        states = group.states()
        stacks = group.stacks()
        stopped = [f"rank {rank} is stopped (state {state})" for rank, state in enumerate(states) if state in "Tt"]
        error = "; ".join([error, *stopped])
    started = group.running() or not left or group.last() != (None,) * group.size
    case = left.pop(0) if left and (group.running() or started) else -1
    outcome = Outcome(case, status, error=error, stacks=stacks, last=group.last(), log=group.log_tail())
    return replace(outcome, results=group.results(case) if case >= 0 else ())


def write_job(job: Job, cases: list[tuple[int, dict[str, Any]]], folder: Path) -> Path:
    """Write the file that the ranks read their work from."""
    folder.mkdir(parents=True)
    file = folder / "job.json"
    document = {
        "world_size": len(job.devices),
        "devices": job.devices,
        "worker": str(job.worker),
        "settings": dict(job.settings),
        "cases": cases,
        "meeting": str(folder / "meeting"),
        "stacks": str(folder / "stacks-{rank}.txt"),
    }
    file.write_text(json.dumps(document))
    return file


def rank_environment(job: Job) -> dict[str, str]:
    """Return a rank's environment: the caller's, without Python's own settings, and the job's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return kept | {"PYTHONUNBUFFERED": "1", "PYTHONNOUSERSITE": "1"} | dict(job.environment)


def bootstrap() -> str:
    """Return the program that makes forkwheel's rank modules importable without installing them."""
    package = Path(__file__).resolve().parents[1]
    return (
        "import sys, types; package = types.ModuleType('forkwheel'); "
        f"package.__path__ = [{str(package)!r}]; sys.modules['forkwheel'] = package; "
        "from forkwheel.gpu.rank_main import main; main(sys.argv[1:])"
    )


def default_python() -> Path:
    """Return the interpreter that runs now."""
    return Path(sys.executable)
