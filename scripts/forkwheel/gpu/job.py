"""What ranks are to run, and how each case of it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forkwheel.gpu.rank_group import RankGroup

PASSED, ERROR, HANG = "ok", "error", "hang"


@dataclass(frozen=True)
class Limits:
    """Seconds without any report from any rank after which a group counts as hung.

    ``start`` holds until all ranks are ready (which may take a compilation), ``case`` after.
    """

    start: float = 900.0
    case: float = 60.0


@dataclass(frozen=True)
class Job:
    """What a group of ranks is to run.

    ``worker`` is a Python file with ``start(rank)``; ``devices`` holds the GPU of each rank;
    ``settings`` and ``cases`` are JSON values that reach the worker as they are. ``interfere``
    is called again and again while the ranks run: how a control disturbs them.
    """

    python: Path
    worker: Path
    devices: tuple[int, ...]
    settings: Mapping[str, Any]
    cases: tuple[Mapping[str, Any], ...]
    environment: Mapping[str, str]
    limits: Limits = Limits()
    interfere: Callable[[RankGroup], None] | None = None


@dataclass(frozen=True)
class Outcome:
    """How a case ended: ``ok`` with each rank's result, ``error`` or ``hang`` with the reason.

    ``case`` is its index, or -1 for what befell the ranks before the first case or after the
    last. ``stacks`` holds, after a hang, each rank's Python stack, and ``last`` the case that
    each rank finished last (its index, or None). ``log`` is the end of what the ranks printed.
    """

    case: int
    status: str
    results: tuple[Mapping[str, Any] | None, ...] = ()
    error: str = ""
    stacks: tuple[str, ...] = ()
    last: tuple[int | None, ...] = ()
    log: str = ""


def explain(outcome: Outcome, cases: Sequence[str]) -> str:
    """Say what broke the ranks and, after a hang, where each of them was; ``cases`` are the names of all."""
    parts = [f"{outcome.status}: {outcome.error}"]
    if outcome.status == HANG:
        for rank, index in enumerate(outcome.last):
            parts.append(f"; rank {rank} finished last: {'nothing' if index is None else cases[index]}")
    for rank, stack in enumerate(outcome.stacks):
        parts.append(f"\nstack of rank {rank}:\n{stack or '(none: the process did not answer)'}")
    return "".join(parts)
