"""Whether a hunk fits a file, and where else it would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forkwheel.patching.model import CONTEXT, Hunk

CLEAN = "clean"
OFFSET = "offset"
ALREADY_APPLIED = "already-applied"
AMBIGUOUS = "ambiguous"
CONFLICT = "conflict"


@dataclass(frozen=True)
class HunkVerdict:
    """How a hunk fits: only ``clean`` is applied.

    ``offsets`` are how many lines below its recorded line the hunk would fit too (``offset``:
    one, ``ambiguous``: several). ``reason`` says what is wrong, and is empty for ``clean``.
    """

    verdict: str
    offsets: tuple[int, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.verdict} {self.offsets[0]:+d}" if self.verdict == OFFSET else self.verdict


def judge_hunk(hunk: Hunk, lines: Sequence[bytes]) -> HunkVerdict:
    """Compare a hunk with the lines of the file that its old line numbers count in."""
    if _stands(hunk.old, lines, hunk.old_index):
        reason = _start_fault(hunk) or _end_fault(hunk, lines)
        return HunkVerdict(CONFLICT, (), reason) if reason else HunkVerdict(CLEAN)
    if any(_stands(hunk.new, lines, index) for index in (hunk.new_index, hunk.old_index)):
        return HunkVerdict(ALREADY_APPLIED, (), "its result stands in the file already")
    offsets = tuple(index - hunk.old_index for index in places(hunk.old, lines))
    if len(offsets) == 1:
        return HunkVerdict(OFFSET, offsets, f"its lines stand elsewhere: {_where(hunk, offsets)}")
    if offsets:
        return HunkVerdict(
            AMBIGUOUS, offsets, f"its lines stand in {len(offsets)} other places: {_where(hunk, offsets)}"
        )
    if found := places(hunk.new, lines):
        return HunkVerdict(ALREADY_APPLIED, (), f"its result stands in the file already, at line {found[0] + 1}")
    return HunkVerdict(CONFLICT, (), _difference(hunk, lines))


def places(wanted: Sequence[bytes], lines: Sequence[bytes]) -> list[int]:
    """Return each index (from 0) at which ``wanted`` stands in ``lines``."""
    if not wanted:
        return []
    return [index for index in range(len(lines) - len(wanted) + 1) if _stands(wanted, lines, index)]


def closest(wanted: Sequence[bytes], lines: Sequence[bytes], index: int) -> int:
    """Return where more than twice as many of ``wanted`` stand in ``lines`` as at ``index``, or ``index``."""

    def equal(start: int) -> int:
        found = lines[start : start + len(wanted)]
        return sum(one == other and not one.isspace() for one, other in zip(wanted, found, strict=False))

    best = max(range(len(lines)), key=lambda start: (equal(start), -abs(start - index)), default=index)
    return best if equal(best) > max(2 * equal(index), 1) else index


def _stands(wanted: Sequence[bytes], lines: Sequence[bytes], index: int) -> bool:
    if index + len(wanted) > len(lines):
        return False
    return all(line == lines[index + number] for number, line in enumerate(wanted))


def _where(hunk: Hunk, offsets: Sequence[int]) -> str:
    return ", ".join(f"line {hunk.old_index + offset + 1} (offset {offset:+d})" for offset in offsets)


def _start_fault(hunk: Hunk) -> str:
    if hunk.old_index and hunk.leading < CONTEXT:
        due = min(CONTEXT, hunk.leading + hunk.old_index)
        return f"it has {hunk.leading} lines of context before its first change, where the file has {due}"
    return ""


def _end_fault(hunk: Hunk, lines: Sequence[bytes]) -> str:
    left = len(lines) - hunk.old_index - hunk.old_count
    if left and hunk.trailing < CONTEXT:
        due = min(CONTEXT, hunk.trailing + left)
        return f"it has {hunk.trailing} lines of context after its last change, where the file has {due}"
    return ""


def _difference(hunk: Hunk, lines: Sequence[bytes]) -> str:
    found = lines[hunk.old_index : hunk.old_index + hunk.old_count]
    if [_without_cr(line) for line in hunk.old] == [_without_cr(line) for line in found]:
        if any(line.endswith(b"\r\n") for line in hunk.old):
            return "the patch's lines end in CRLF where the file's end in LF"
        if any(line.endswith(b"\r\n") for line in found):
            return "the file's lines end in CRLF where the patch's end in LF"
        return "the newline at the file's end differs"
    near = closest(hunk.old, lines, hunk.old_index)
    if near != hunk.old_index:
        return f"the file's lines differ; the closest are at {_where(hunk, [near - hunk.old_index])}"
    return "the file's lines differ"


def _without_cr(line: bytes) -> bytes:
    return line.rstrip(b"\r\n")
