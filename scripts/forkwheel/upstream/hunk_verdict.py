"""The verdict on one hunk against another revision of its file, by content.

Besides the new file, the file that the hunk was made for is looked at: it tells how often the
hunk's lines stood there, so that a copy, or the place of a twin, is never taken for the
hunk's own. What is not certain is ``ambiguous``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forkwheel.patching.export import runs_of
from forkwheel.patching.judge import ALREADY_APPLIED, AMBIGUOUS, CLEAN, CONFLICT, OFFSET
from forkwheel.patching.model import CONTEXT, Hunk
from forkwheel.upstream.sites import Text, is_telling, matched_block, partial_places, result_places, stretches

PARTLY_APPLIED = "partly-applied"


@dataclass(frozen=True)
class HunkVerdict:
    """How a hunk stands.

    ``index`` (from 0) is where its lines stand in the new file, for ``clean`` and ``offset``, or
    its result, for ``already-applied`` in one place. ``offset`` is how many lines ``index`` is
    below the recorded line. ``reason`` is for a person.
    """

    verdict: str
    reason: str = ""
    index: int | None = None
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.verdict} {self.offset:+d}" if self.verdict == OFFSET else self.verdict


class HunkJudge:
    """Judges the hunks of one file's patch: ``before`` is what they were made for, ``after`` the new file."""

    def __init__(self, hunks: Sequence[Hunk], before: Text, after: Text) -> None:
        self._before = before
        self._after = after
        self._runs = runs_of(hunks)

    def judge(self, hunk: Hunk) -> HunkVerdict:
        """Give the verdict on one hunk."""
        if self._before.lines == self._after.lines:
            return HunkVerdict(CLEAN, index=hunk.old_index)
        if _inside(self._before.places(hunk.old), len(hunk.old), result_places(hunk, self._before), len(hunk.new)):
            return HunkVerdict(AMBIGUOUS, "what it adds repeats the lines around it: nothing tells whether it is there")
        found = self._find(hunk)
        if found.old and found.surplus > 0:
            return HunkVerdict(AMBIGUOUS, f"there are more copies of its lines than there were: {_lines(found.all)}")
        verdict = self._twin(hunk, found) if found.before > 1 else self._single(hunk, found)
        if verdict is None:
            return self._unmatched(hunk)
        return self._checked(hunk, verdict)

    def _find(self, hunk: Hunk) -> _Found:
        """Find the hunk's lines and its result, each without those that are a part of the other."""
        counted = []
        for text in (self._before, self._after):
            old, new = text.places(hunk.old), result_places(hunk, text)
            inner_new = _inside(new, len(hunk.new), old, len(hunk.old))
            inner_old = _inside(old, len(hunk.old), new, len(hunk.new))
            counted.append(([n for n in old if n not in inner_old], [n for n in new if n not in inner_new]))
        (before, before_new), (old, new) = counted
        return _Found(len(before), len(before_new), tuple(old), tuple(new))

    def _single(self, hunk: Hunk, found: _Found) -> HunkVerdict | None:
        """Judge a hunk whose lines stood in one place only."""
        if found.old:
            return self._at(hunk, found.old[0])
        return self._taken(found.new) if found.gain > 0 else None

    def _twin(self, hunk: Hunk, found: _Found) -> HunkVerdict | None:
        """Judge a hunk whose lines stood in several places, by what stands around them."""
        olds = [index for index in found.old if self._is_own(hunk, index, len(hunk.old))]
        news = [index for index in found.new if self._is_own(hunk, index, len(hunk.new))]
        if len(olds) + len(news) == 1:
            if news:
                return self._taken(news)
            if olds[0] == hunk.old_index or len(found.old) == 1:
                return self._at(hunk, olds[0])
        if not found.old and found.gain >= found.before:
            return self._taken(found.new)
        if found.old or found.gain > 0:
            return HunkVerdict(AMBIGUOUS, f"its lines stand in several places: {_lines(found.all)}")
        return None

    def _is_own(self, hunk: Hunk, position: int, length: int) -> bool:
        """Tell whether what stands around a place stood around the hunk's own, and around no other."""
        mine, its = matched_block(
            start=hunk.old_index,
            stop=hunk.old_index + hunk.old_count,
            before=self._before,
            position=position,
            end=position + length,
            after=self._after,
            runs=self._runs,
        )
        return (
            len(self._before.places(self._before.lines[mine])) == 1
            and len(self._after.places(self._after.lines[its])) == 1
        )

    def _at(self, hunk: Hunk, index: int) -> HunkVerdict:
        left = len(self._after.lines) - index - hunk.old_count
        offset = index - hunk.old_index
        if not offset and hunk.trailing < CONTEXT and left:
            return HunkVerdict(CONFLICT, f"its lines, at line {index + 1}, are no longer at the file's end")
        return HunkVerdict(OFFSET if offset else CLEAN, index=index, offset=offset)

    def _taken(self, places: Sequence[int]) -> HunkVerdict:
        index = places[0] if len(places) == 1 else None
        return HunkVerdict(ALREADY_APPLIED, f"its result stands in the file: {_lines(places)}", index=index)

    def _unmatched(self, hunk: Hunk) -> HunkVerdict:
        partial = partial_places(hunk, self._after)
        if len(partial) == 1:
            return HunkVerdict(PARTLY_APPLIED, f"a part of it stands in the file: {_lines(partial)}")
        if partial:
            return HunkVerdict(AMBIGUOUS, f"parts of it stand in several places: {_lines(partial)}")
        return HunkVerdict(CONFLICT, self._difference(hunk))

    def _checked(self, hunk: Hunk, verdict: HunkVerdict) -> HunkVerdict:
        """Doubt a verdict where upstream added, or kept, the same lines in another place."""
        for part in stretches(hunk):
            if part.is_context or not any(map(is_telling, (*part.old, *part.new))):
                continue
            if not part.old and verdict.verdict in (CLEAN, OFFSET):
                allowed = len(self._before.places(part.new)) + self._others(hunk, part.new)
                if len(places := self._after.places(part.new)) > allowed:
                    return HunkVerdict(AMBIGUOUS, f"what it adds stands in another place: {_lines(places)}")
            if not part.new and verdict.verdict == ALREADY_APPLIED:
                places = self._after.places(part.old)
                if len(places) >= len(self._before.places(part.old)):
                    return HunkVerdict(AMBIGUOUS, f"what it removes stands in another place: {_lines(places)}")
        return verdict

    def _others(self, hunk: Hunk, lines: tuple[bytes, ...]) -> int:
        """Count the other changes of the patch that add the same lines."""
        return max(0, sum(run.new == lines for run in self._runs) - sum(run.new == lines for run in runs_of([hunk])))

    def _difference(self, hunk: Hunk) -> str:
        packed = Text(tuple(_packed(line) for line in self._after.lines))
        for name, lines in (("its lines stand", hunk.old), ("its result stands", hunk.new)):
            if len(places := packed.places([_packed(line) for line in lines])) == 1:
                return f"{name} there but for white space: {_lines(places)}"
        return "the file's lines differ"


@dataclass(frozen=True)
class _Found:
    """How often the hunk's lines (and its result) stood before, and where they stand now."""

    before: int
    before_new: int
    old: tuple[int, ...]
    new: tuple[int, ...]

    @property
    def gain(self) -> int:
        return len(self.new) - self.before_new

    @property
    def surplus(self) -> int:
        return len(self.old) + len(self.new) - self.before - self.before_new

    @property
    def all(self) -> tuple[int, ...]:
        return tuple(sorted({*self.old, *self.new}))


def _inside(places: Sequence[int], length: int, others: Sequence[int], longer: int) -> set[int]:
    """Return the places whose lines are a part of longer ones at one of the other places."""
    if length >= longer:
        return set()
    return {place for place in places if any(other <= place <= other + longer - length for other in others)}


def _packed(line: bytes) -> bytes:
    return b"".join(line.split())


def _lines(places: Sequence[int]) -> str:
    shown = ", ".join(str(index + 1) for index in sorted(places)[:6])
    return ("line " if len(places) == 1 else "lines ") + shown + (", …" if len(places) > 6 else "")
