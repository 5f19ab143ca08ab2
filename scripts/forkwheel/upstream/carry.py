"""Bring what fits of a patch into the files of another revision, or take out what they have of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from forkwheel.patching.judge import ALREADY_APPLIED, CLEAN
from forkwheel.patching.model import CREATE, DELETE, RENAME, FilePatch, Hunk, split_lines
from forkwheel.patching.overlay import File
from forkwheel.tree import REGULAR
from forkwheel.upstream.files import Layer
from forkwheel.upstream.judged import APPLIES, MOVED, JudgedFile


def carry(judged: JudgedFile, patch: FilePatch, after: Layer) -> None:
    """Bring what fits of a file's patch into the new files."""
    if patch.operation == CREATE:
        if judged.verdict == CLEAN:
            content = b"".join(line for hunk in patch.hunks for line in hunk.new)
            after.put(patch.path, File(patch.new_mode or REGULAR, content))
        return
    path = judged.target or patch.old_path
    if path is None or path not in after or after.is_link(path):
        return
    if patch.operation == DELETE:
        if judged.verdict in (CLEAN, MOVED):
            after.remove(path)
        return
    found = after.read(path)
    target = patch.path if patch.operation == RENAME else path
    if target != path:
        after.remove(path)
    mode = patch.new_mode if patch.new_mode not in (None, patch.old_mode) else None
    fitting = [(index, hunk.old_count, hunk.new) for index, hunk in _standing(judged, patch, APPLIES)]
    after.put(target, File(mode or found.mode, _replaced(found.content, fitting)))


def undo(judged: JudgedFile, patch: FilePatch, after: Layer) -> None:
    """Take those hunks of a file's patch that stand applied in one place out of the new file."""
    if patch.operation == CREATE:
        if judged.verdict == ALREADY_APPLIED:
            after.remove(patch.path)
        return
    found = after.read(patch.path)
    taken = [(index, hunk.new_count, hunk.old) for index, hunk in _standing(judged, patch, (ALREADY_APPLIED,))]
    after.put(patch.path, File(found.mode, _replaced(found.content, taken)))


def spliced(content: bytes, hunks: Iterable[tuple[int, Hunk]]) -> bytes:
    """Put each hunk's new lines in the place of its old ones, which begin at the index given."""
    return _replaced(content, [(index, hunk.old_count, hunk.new) for index, hunk in hunks])


def _standing(judged: JudgedFile, patch: FilePatch, verdicts: Sequence[str]) -> list[tuple[int, Hunk]]:
    """Return the hunks of these verdicts whose place is known, with the place."""
    return [
        (item.verdict.index, hunk)
        for item, hunk in zip(judged.hunks, patch.hunks, strict=True)
        if item.verdict.verdict in verdicts and item.verdict.index is not None
    ]


def _replaced(content: bytes, changes: Iterable[tuple[int, int, Sequence[bytes]]]) -> bytes:
    """Replace lines: each change is the index of the first, how many, and what comes in their place."""
    lines = split_lines(content)
    parts: list[bytes] = []
    done = 0
    for index, count, new in sorted(changes, key=lambda change: change[0]):
        if index >= done:
            parts += [*lines[done:index], *new]
            done = index + count
    return b"".join(parts + lines[done:])
