"""What judging a series against another revision gives: verdicts by patch, file and hunk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forkwheel.patching.judge import ALREADY_APPLIED, AMBIGUOUS, CLEAN, CONFLICT, OFFSET
from forkwheel.upstream.hunk_verdict import PARTLY_APPLIED, HunkVerdict

MOVED = "file moved"
GONE = "file gone"

_WORST_FIRST = (CONFLICT, GONE, AMBIGUOUS, PARTLY_APPLIED, MOVED, OFFSET, CLEAN)
APPLIES = (CLEAN, OFFSET)
"""Verdicts after which a patch can be carried over without a person."""


@dataclass(frozen=True)
class JudgedHunk:
    """One hunk: the line of its ``@@`` in the patch, its line in the old file, and how it stands."""

    line: int
    old_start: int
    verdict: HunkVerdict


@dataclass(frozen=True)
class JudgedFile:
    """One file of a patch; ``target`` is its path in the new revision, if it is another."""

    path: str
    operation: str
    verdict: str
    target: str | None
    reason: str
    hunks: tuple[JudgedHunk, ...]

    def __str__(self) -> str:
        return f"{MOVED} to {self.target}" if self.verdict == MOVED else _shown(self.verdict, self.hunks)


@dataclass(frozen=True)
class JudgedPatch:
    """One patch; ``expired`` is the header field and release that say that upstream has it."""

    name: str
    verdict: str
    expired: str | None
    files: tuple[JudgedFile, ...]

    def __str__(self) -> str:
        return _shown(self.verdict, [hunk for file in self.files for hunk in file.hunks])

    @property
    def advice(self) -> str:
        """What its header asks to be done at this revision, or nothing."""
        return f"expired: drop it ({self.expired})" if self.expired else ""


def _shown(verdict: str, hunks: Sequence[JudgedHunk]) -> str:
    """Add the offset where all hunks that moved have moved by the same."""
    offsets = {hunk.verdict.offset for hunk in hunks if hunk.verdict.verdict == OFFSET}
    return f"{verdict} {offsets.pop():+d}" if verdict == OFFSET and len(offsets) == 1 else verdict


def summary(parts: Iterable[JudgedFile | JudgedHunk]) -> str:
    """Return the verdict on a whole from those on its parts."""
    verdicts = {part.verdict if isinstance(part.verdict, str) else part.verdict.verdict for part in parts}
    if verdicts == {ALREADY_APPLIED}:
        return ALREADY_APPLIED
    for verdict in _WORST_FIRST[:4]:
        if verdict in verdicts:
            return verdict
    if ALREADY_APPLIED in verdicts:
        return PARTLY_APPLIED
    return next(verdict for verdict in _WORST_FIRST if verdict in verdicts)
