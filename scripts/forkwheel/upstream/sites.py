"""Where the lines of a hunk stand in a file: as it expects them, as it leaves them, or in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from forkwheel.patching.export import Run
from forkwheel.patching.model import CONTEXT, Hunk


@dataclass(frozen=True)
class Text:
    """The lines of a file, indexed so that a run of them is found quickly."""

    lines: tuple[bytes, ...]

    @cached_property
    def _where(self) -> dict[bytes, list[int]]:
        where: dict[bytes, list[int]] = {}
        for index, line in enumerate(self.lines):
            where.setdefault(line, []).append(index)
        return where

    def places(self, wanted: Sequence[bytes]) -> list[int]:
        """Return each index (from 0) at which all of ``wanted`` stand; nothing stands nowhere."""
        if not wanted:
            return []
        rare, found = 0, self._where.get(wanted[0], [])
        for number, line in enumerate(wanted):
            if len(mine := self._where.get(line, [])) < len(found):
                rare, found = number, mine
        wanted = tuple(wanted)
        starts = (index - rare for index in found)
        return [start for start in starts if start >= 0 and self.lines[start : start + len(wanted)] == wanted]


def result_places(hunk: Hunk, text: Text) -> list[int]:
    """Return where what the hunk leaves stands.

    A hunk at an end of its file has little context there. Where it only removes lines at that
    end, the context alone is no proof, and has to be at the end of the file still.
    """
    found = text.places(hunk.new)
    if hunk.leading < CONTEXT and _only_removes(hunk, first=True):
        found = [index for index in found if index == 0]
    if hunk.trailing < CONTEXT and _only_removes(hunk, first=False):
        found = [index for index in found if index + len(hunk.new) == len(text.lines)]
    return found


def _only_removes(hunk: Hunk, *, first: bool) -> bool:
    kinds = "".join(line.kind for line in hunk.lines).strip(" ")
    runs = kinds.split()
    return "+" not in (runs[0] if first else runs[-1])


@dataclass(frozen=True)
class Stretch:
    """Context lines (``old`` equal to ``new``), or a run of changed lines, of a hunk."""

    old: tuple[bytes, ...]
    new: tuple[bytes, ...]
    is_context: bool


def stretches(hunk: Hunk) -> list[Stretch]:
    """Part a hunk into context and changes, in order."""
    parts: list[Stretch] = []
    lines = list(hunk.lines)
    while lines:
        is_context = lines[0].kind == " "
        count = next((n for n, line in enumerate(lines) if (line.kind == " ") != is_context), len(lines))
        taken, lines = lines[:count], lines[count:]
        old = tuple(line.content for line in taken if line.kind != "+")
        new = tuple(line.content for line in taken if line.kind != "-")
        parts.append(Stretch(old, new, is_context))
    return parts


def partial_places(hunk: Hunk, text: Text) -> list[int]:
    """Return where a part of the hunk stands applied: all its context, and a mixture between.

    Between the context there may be nothing but lines that the hunk removes and lines that it
    adds, each in their order, with at least one step of the hunk done and one left.
    """
    parts = stretches(hunk)
    first = parts[0].old if parts[0].is_context else ()
    starts = text.places(first) if first else [0]
    return [start for start in starts if any(_is_partial(parts, found) for found in _regions(parts, text, start))]


def _regions(parts: Sequence[Stretch], text: Text, start: int) -> Iterator[list[tuple[bytes, ...]]]:
    """Yield what stands in the place of each change, for each way to lay the context out."""
    if not parts:
        yield []
        return
    part, rest = parts[0], parts[1:]
    if part.is_context:
        if text.lines[start : start + len(part.old)] == part.old:
            yield from _regions(rest, text, start + len(part.old))
        return
    for length in range(len(part.old) + len(part.new) + 1):
        region = text.lines[start : start + length]
        if len(region) < length or not is_mixture(region, part):
            continue
        if not rest and start + length != len(text.lines):
            continue
        for others in _regions(rest, text, start + length):
            yield [region, *others]


def is_mixture(region: Sequence[bytes], part: Stretch) -> bool:
    """Tell whether lines are a merge of some removed lines and some added ones, each in order."""
    reached = {(0, 0)}
    for line in region:
        reached = {
            step
            for old, new in reached
            for step in (
                *((index + 1, new) for index in range(old, len(part.old)) if part.old[index] == line),
                *((old, index + 1) for index in range(new, len(part.new)) if part.new[index] == line),
            )
        }
        if not reached:
            return False
    return True


def _is_partial(parts: Sequence[Stretch], regions: Sequence[tuple[bytes, ...]]) -> bool:
    changes = [part for part in parts if not part.is_context]
    pairs = list(zip(changes, regions, strict=True))
    all_old = all(region == part.old for part, region in pairs)
    all_new = all(region == part.new for part, region in pairs)
    return not all_old and not all_new and any(_is_started(part, region) for part, region in pairs)


def _is_started(part: Stretch, region: Sequence[bytes]) -> bool:
    """Tell whether a step of a change is done: a telling line added or, where it only removes, removed."""
    if part.new:
        return any(is_telling(line) and line in part.new and line not in part.old for line in region)
    return len(region) < len(part.old) and any(map(is_telling, part.old))


def is_telling(line: bytes) -> bool:
    """Tell whether a line says something: brackets and blank lines stand everywhere."""
    return sum(character.isalnum() for character in line.decode("latin-1")) >= 3


def matched_block(
    *, start: int, stop: int, before: Text, position: int, end: int, after: Text, runs: Sequence[Run]
) -> tuple[slice, slice]:
    """Extend a match outward while both files agree, and return it in each of them.

    Lines ``start`` to ``stop`` of ``before`` stand, changed or not, at ``position`` to ``end``
    of ``after``. ``runs`` are the patch's own changes of ``before``: each may be made or not.
    """
    up, top = _walk_up(start, before, position, after, runs)
    down, bottom = _walk_down(stop, before, end, after, runs)
    return slice(up, down), slice(top, bottom)


def _walk_up(index: int, before: Text, position: int, after: Text, runs: Sequence[Run]) -> tuple[int, int]:
    above = [run for run in runs if run.stop <= index]
    while True:
        run = above[-1] if above and above[-1].stop == index else None
        if run is not None:
            above.pop()
            for lines in (run.new, before.lines[run.start : run.stop]):
                if position >= len(lines) and after.lines[position - len(lines) : position] == tuple(lines):
                    index, position = run.start, position - len(lines)
                    break
            else:
                return index, position
        elif index and position and before.lines[index - 1] == after.lines[position - 1]:
            index, position = index - 1, position - 1
        else:
            return index, position


def _walk_down(index: int, before: Text, position: int, after: Text, runs: Sequence[Run]) -> tuple[int, int]:
    below = [run for run in reversed(runs) if run.start >= index]
    while True:
        run = below[-1] if below and below[-1].start == index else None
        if run is not None:
            below.pop()
            for lines in (run.new, before.lines[run.start : run.stop]):
                if after.lines[position : position + len(lines)] == tuple(lines):
                    index, position = run.stop, position + len(lines)
                    break
            else:
                return index, position
        elif index < len(before.lines) and position < len(after.lines) and before.lines[index] == after.lines[position]:
            index, position = index + 1, position + 1
        else:
            return index, position
