"""The reverse of a patch, to tell whether a tree has it."""

from __future__ import annotations

from forkwheel.patching.model import CREATE, DELETE, FilePatch, Hunk, Line

_OPPOSITE = {" ": " ", "+": "-", "-": "+"}
_UNDOING = {CREATE: DELETE, DELETE: CREATE}


def reversed_file(patch: FilePatch) -> FilePatch:
    """Return the patch that undoes this one."""
    return FilePatch(
        line=patch.line,
        operation=_UNDOING.get(patch.operation, patch.operation),
        old_path=patch.new_path,
        new_path=patch.old_path,
        old_mode=patch.new_mode,
        new_mode=patch.old_mode,
        hunks=tuple(_reversed_hunk(hunk) for hunk in patch.hunks),
    )


def _reversed_hunk(hunk: Hunk) -> Hunk:
    lines = tuple(Line(_OPPOSITE[line.kind], line.content) for line in hunk.lines)
    return Hunk(hunk.line, hunk.new_start, hunk.new_count, hunk.old_start, hunk.old_count, lines)
