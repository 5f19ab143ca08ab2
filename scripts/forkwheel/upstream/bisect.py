"""Which commit of a history took a patch, or changed what it applies to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from forkwheel.patching.judge import ALREADY_APPLIED
from forkwheel.patching.series import Series
from forkwheel.tree import Tree
from forkwheel.upstream.history import History
from forkwheel.upstream.judged import APPLIES, JudgedPatch
from forkwheel.upstream.verdict import changed_paths, judge_series


@dataclass(frozen=True)
class Event:
    """A commit after which a patch stands otherwise: its first release, date and subject."""

    commit: str
    release: str | None
    subject: str
    verdict: str


@dataclass(frozen=True)
class Traced:
    """What a history tells of one patch: the commit that has its content, and the one that broke it.

    ``now`` is the verdict at the last commit. ``taken`` is None where upstream does not have
    the patch's very content; ``changed`` is None where it applies to the end.
    """

    patch: str
    now: str
    taken: Event | None
    changed: Event | None


def trace(series: Series, base: Tree, history: History, *, first: str, last: str) -> tuple[Traced, ...]:
    """Search the commits after ``first`` up to ``last`` (full commits), for each patch of a series.

    Only commits that change a file of the series are judged, each at most once, and of those
    only as many as a bisection needs: a patch that upstream took and later undid is searched
    from the end.
    """
    commits = [first, *history.between(first, last, changed_paths(series))]
    judged: dict[int, tuple[JudgedPatch, ...]] = {}

    def at(index: int, patch: int) -> JudgedPatch:
        if index not in judged:
            judged[index] = judge_series(series, base, history.files(commits[index]), version=None)
        return judged[index][patch]

    return tuple(
        _traced(patch.name, lambda index, number=number: at(index, number), commits, history)  # type: ignore[misc]
        for number, patch in enumerate(series.patches)
    )


def _traced(name: str, at: Callable[[int], JudgedPatch], commits: Sequence[str], history: History) -> Traced:
    last = len(commits) - 1
    taken = changed = None
    if at(last).verdict == ALREADY_APPLIED:
        taken = first_where(lambda index: at(index).verdict == ALREADY_APPLIED, last)
    if at(last).verdict not in APPLIES:
        changed = first_where(lambda index: at(index).verdict not in APPLIES, last)

    def event(index: int | None) -> Event | None:
        if index is None or not index:
            return None
        commit = commits[index]
        return Event(commit, history.first_release(commit), history.subject(commit), str(at(index)))

    return Traced(name, str(at(last)), event(taken), event(changed))


def first_where(holds: Callable[[int], bool], last: int) -> int:
    """Return the index from which on a condition holds up to ``last``, where it does; by bisection."""
    low, high = 0, last
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def document(traced: Sequence[Traced]) -> list[dict[str, Any]]:
    """Return what was traced for JSON."""

    def event(found: Event | None) -> dict[str, Any] | None:
        if found is None:
            return None
        return {"commit": found.commit, "release": found.release, "subject": found.subject, "verdict": found.verdict}

    return [
        {"patch": item.patch, "now": item.now, "taken": event(item.taken), "changed": event(item.changed)}
        for item in traced
    ]
