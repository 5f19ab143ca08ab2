"""Where a file went that a new revision no longer has."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath

from forkwheel.patching.model import split_lines
from forkwheel.upstream.files import Files, read_all

ALIKE = 0.6
"""The share of lines that two files have in common, from which on one is the other, moved."""

_CLEARLY = 0.1
_MOST_READ = 400


def moved_to(path: str, content: bytes, *, before: Files, after: Files) -> tuple[str, ...]:
    """Return the new file that holds most of a gone file's lines; several where none is clearly the one.

    Files of the same name are looked at first, then those of the same suffix.
    """
    known = set(before.paths())
    new = [other for other in after.paths() if other not in known and not after.is_link(other)]
    name = PurePosixPath(path)
    named = [other for other in new if PurePosixPath(other).name == name.name]
    like = [other for other in new if PurePosixPath(other).suffix == name.suffix and other not in named]
    for candidates in (named, sorted(like)[:_MOST_READ]):
        if found := _most_alike(content, candidates, after):
            return found
    return ()


def is_like(left: bytes, right: bytes) -> bool:
    """Tell whether one content may be the other, changed."""
    return left == right or _likeness(_counted(left), _counted(right)) >= ALIKE


def _most_alike(content: bytes, candidates: list[str], after: Files) -> tuple[str, ...]:
    wanted = _counted(content)
    found = read_all(after, candidates)
    ranked = sorted((_likeness(wanted, _counted(file.content)), other) for other, file in found.items())
    alike = [(share, other) for share, other in ranked if share >= ALIKE]
    if not alike:
        return ()
    best = alike[-1][0]
    return tuple(other for share, other in alike if share > best - _CLEARLY)


def _counted(content: bytes) -> Counter[bytes]:
    return Counter(line.strip() for line in split_lines(content) if line.strip())


def _likeness(left: Counter[bytes], right: Counter[bytes]) -> float:
    total = left.total() + right.total()
    return 2 * (left & right).total() / total if total else 0.0
