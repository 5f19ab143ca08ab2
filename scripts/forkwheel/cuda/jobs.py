"""How many compilations may run at once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from forkwheel.errors import UsageError

_VARIABLE = "MAX_JOBS"
_CONTROLLERS = (
    ("", "", "memory.max", "memory.current", ("active_file", "inactive_file")),
    (
        "memory",
        "memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_active_file", "total_inactive_file"),
    ),
)
"""Control groups of versions 2 and 1: how ``/proc/self/cgroup`` names them, where they are, and their files."""


@dataclass(frozen=True)
class Jobs:
    """A number of compilations, and what allows no more."""

    count: int
    limit: str


def jobs_allowed(environment: Mapping[str, str], *, memory: int, free: int | None) -> Jobs:
    """Return how many compilations may run at once: ``MAX_JOBS``, or as many as cores; fewer where memory is short.

    ``memory`` is what one of them takes and ``free`` what there is (None: unknown), in MiB.
    Raise UsageError for a ``MAX_JOBS`` that is no number.
    """
    named = environment.get(_VARIABLE, "").strip()
    if named and not (named.isascii() and named.isdigit() and int(named) > 0):
        raise UsageError(f"{_VARIABLE} is {named!r}, not a number of 1 or more", hint=f"correct or unset {_VARIABLE}")
    wanted = Jobs(int(named), _VARIABLE) if named else Jobs(len(os.sched_getaffinity(0)), "the cores")
    if free is None or free // memory >= wanted.count:
        return wanted
    return Jobs(max(1, free // memory), f"memory: {free} MiB are free, and one may take {memory}")


def free_memory(root: Path = Path("/")) -> int | None:
    """Return the memory that can be had without swapping, in MiB, of the machine and of our control groups."""
    found = []
    try:
        lines = (root / "proc" / "meminfo").read_text().splitlines()
        found += [int(line.split()[1]) // 1024 for line in lines if line.startswith("MemAvailable:")]
        found += _of_groups(root)
    except (OSError, ValueError):
        pass
    return max(0, min(found)) if found else None


def _of_groups(root: Path) -> Iterator[int]:
    """Yield what each control group around this process leaves; cached files count as free, as they do elsewhere."""
    lines = (root / "proc" / "self" / "cgroup").read_text().splitlines()
    for prefix, place, most, used, cached in _CONTROLLERS:
        top = root / "sys" / "fs" / "cgroup" / place
        for ours in (path for _, controller, path in (line.split(":", 2) for line in lines) if controller == prefix):
            folder = top / ours.lstrip("/")
            for group in (folder, *folder.parents):
                if group.is_relative_to(top) and (limit := _number(group / most)) is not None:
                    stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
                    yield (limit - (_number(group / used) or 0) + sum(int(stat.get(name, 0)) for name in cached)) >> 20


def _number(file: Path) -> int | None:
    text = file.read_text().strip() if file.is_file() else ""
    return int(text) if text.isdigit() else None
