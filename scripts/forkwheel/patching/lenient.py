"""Bring what fits of a patch that no longer applies into a work tree, for a person to look over.

This serves `patches --edit` alone: no tree that is built is ever made this way.
"""

from __future__ import annotations

from forkwheel.errors import PatchError
from forkwheel.patching.export import render
from forkwheel.patching.judge import CLEAN, OFFSET, judge_hunk
from forkwheel.patching.model import MODIFY, FilePatch, Hunk, split_lines
from forkwheel.patching.names import decode
from forkwheel.patching.overlay import File, Overlay
from forkwheel.patching.series import Patch


def apply_what_fits(overlay: Overlay, patch: Patch) -> tuple[str, ...]:
    """Apply the hunks that fit exactly, or in exactly one other place; return the others as text."""
    rejected = []
    for file in patch.files:
        left = _apply_file(overlay, file)
        if left is not None:
            rejected.append(decode(render([left])))
    if len(rejected) == len(patch.files) and all(
        path not in overlay for file in patch.files for path in (file.old_path, file.new_path) if path
    ):
        raise PatchError(
            f"the source has no file that {patch.name} changes", hint="check that the series is this package's"
        )
    return tuple(rejected)


def _apply_file(overlay: Overlay, patch: FilePatch) -> FilePatch | None:
    """Apply what fits of one file's patch; return the rest, or None where nothing is left."""
    path = patch.path
    if patch.operation != MODIFY or path not in overlay or overlay.is_link(path):
        return patch
    before = overlay.read(path)
    lines = split_lines(before.content)
    fitting: list[tuple[int, Hunk]] = []
    left: list[Hunk] = []
    for hunk in patch.hunks:
        verdict = judge_hunk(hunk, lines)
        offset = {CLEAN: 0, OFFSET: sum(verdict.offsets)}.get(verdict.verdict)
        end = fitting[-1][0] + fitting[-1][1].old_count if fitting else 0
        if offset is None or hunk.old_index + offset < end:
            left.append(hunk)
        else:
            fitting.append((hunk.old_index + offset, hunk))
    overlay.put(path, File(patch.new_mode or before.mode, _replaced(lines, fitting)))
    if not left:
        return None
    return FilePatch(patch.line, MODIFY, path, path, None, None, tuple(left))


def _replaced(lines: list[bytes], fitting: list[tuple[int, Hunk]]) -> bytes:
    parts: list[bytes] = []
    done = 0
    for index, hunk in fitting:
        parts += [*lines[done:index], *hunk.new]
        done = index + hunk.old_count
    return b"".join(parts + lines[done:])
