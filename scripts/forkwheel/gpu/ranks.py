"""Run cases in spawned ranks, under a watchdog, and go on in new processes after a failure."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

from forkwheel.errors import UsageError
from forkwheel.gpu.job import ERROR, HANG, PASSED, Job, Outcome
from forkwheel.gpu.rank_group import RankGroup

MOST_BROKEN = 4


def devices_for(world_size: int, *, gpus: int, ranks_per_gpu: int) -> tuple[int, ...]:
    """Assign GPUs to ranks, each GPU to ``ranks_per_gpu`` at most; raise UsageError where they do not suffice."""
    if world_size > gpus * ranks_per_gpu:
        raise UsageError(
            f"{world_size} ranks do not fit on {gpus} GPUs with {ranks_per_gpu} rank(s) each",
            hint="ask for a smaller world size, or set --ranks-per-gpu",
        )
    return tuple(rank % gpus for rank in range(world_size))


def check_worlds(asked: Sequence[int], *, supported: Sequence[int]) -> None:
    """Raise UsageError for a world size without kernels."""
    for size in asked:
        if size not in supported:
            names = ", ".join(map(str, supported))
            raise UsageError(f"world size {size} is not supported", hint=f"the sizes with kernels are {names}")


def choose_worlds(
    asked: Sequence[int], *, supported: Sequence[int], gpus: int, ranks_per_gpu: int | None
) -> dict[int, tuple[int, ...]]:
    """Map each world size to run to the GPUs of its ranks; a size without kernels is a UsageError.

    By default these are all sizes with a GPU for each rank; a single GPU takes two ranks.
    """
    check_worlds(asked, supported=supported)
    each = ranks_per_gpu or (2 if gpus == 1 else 1)
    sizes = tuple(asked) or tuple(size for size in supported if size <= gpus * each)
    if not sizes:
        names = ", ".join(map(str, supported))
        raise UsageError(f"no supported world size ({names}) fits on {gpus} GPUs", hint="set --ranks-per-gpu")
    return {size: devices_for(size, gpus=gpus, ranks_per_gpu=each) for size in sizes}


def run_ranks(job: Job, folder: Path, *, most_broken: int = MOST_BROKEN) -> Generator[Outcome, None, None]:
    """Yield the outcome of every case; a case that breaks the ranks ends only itself.

    ``folder`` takes the ranks' logs. Where the ranks cannot even start, one outcome with case
    -1 says so, and no case is run. After ``most_broken`` broken groups the rest is left unrun.
    """
    left = list(range(len(job.cases)))
    for attempt in range(1, most_broken + 1):
        group = RankGroup(job, [(index, dict(job.cases[index])) for index in left], folder / f"group-{attempt}")
        healthy = True
        for outcome in _watch(job, group, left):
            yield outcome
            healthy = healthy and outcome.status == PASSED
            if outcome.case == -1:
                return
        if healthy or not left:
            return


def _watch(job: Job, group: RankGroup, left: list[int]) -> Iterator[Outcome]:
    """Yield outcomes until the group has ended; take what was run from ``left``."""
    try:
        last_report = time.monotonic()
        while True:
            if group.read(0.2):
                last_report = time.monotonic()
            if failure := group.failure():
                group.read(0)  # what the other ranks reported before it
            while left and group.finished(left[0]):
                yield Outcome(left[0], PASSED, results=group.results(left.pop(0)), last=group.last())
            if failure:
                case, error = failure
                yield _failed(group, left, case, ERROR, error)
                return
            if group.ended():
                return
            if job.interfere is not None:
                job.interfere(group)
            limit = job.limits.case if group.started() else job.limits.start
            if time.monotonic() - last_report > limit:
                yield _failed(group, left, None, HANG, f"no rank reported anything for {limit:g} s")
                return
    finally:
        group.kill()


def _failed(group: RankGroup, left: list[int], case: int | None, status: str, error: str) -> Outcome:
    """Describe a failure, and take its case from ``left``: the failed rank's own, or else the first unfinished.

    A failure before all ranks were ready is no case's.
    """
    stacks: tuple[str, ...] = ()
    if status == HANG:
        stopped = [f"rank {rank} is stopped" for rank, state in enumerate(group.states()) if state in "Tt"]
        error = "; ".join([error, *stopped])
        stacks = group.stacks()
    last, log = group.last(), group.log_tail()
    if stuck := group.kill():
        error += f"; process {', '.join(map(str, stuck))} can't be ended: its GPU may stay busy"
    if case is None and left and group.started():
        case = left[0]
    if case is not None:
        left.remove(case)
    return Outcome(
        -1 if case is None else case,
        status,
        results=() if case is None else group.results(case),
        error=error,
        stacks=stacks,
        last=last,
        log=log,
    )
