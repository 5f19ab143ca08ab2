"""Bring what fits of a patch that no longer applies into a work tree; name the rest for a person.

This serves `patches --edit` alone: no tree that is built is ever made this way.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forkwheel.errors import PatchError
from forkwheel.patching.apply import DoesNotApply, apply_files
from forkwheel.patching.export import render
from forkwheel.patching.judge import CLEAN, OFFSET, judge_hunk
from forkwheel.patching.model import MODIFY, FilePatch, Hunk, split_lines
from forkwheel.patching.overlay import File, Overlay
from forkwheel.patching.series import Patch


@dataclass(frozen=True)
class Left:
    """A hunk, or a file's whole section, that did not fit: its line in the patch file, why, and the diff."""

    path: str
    line: int
    reason: str
    diff: bytes


def apply_what_fits(overlay: Overlay, patch: Patch, *, folder: Path) -> tuple[Left, ...]:
    """Apply the hunks that fit exactly, or in exactly one other place; return the others."""
    left = tuple(part for file in patch.files for part in _apply_file(overlay, file, folder / patch.name))
    paths = {path for file in patch.files for path in (file.old_path, file.new_path) if path}
    if left and all(path not in overlay for path in paths):
        raise PatchError(
            f"the source has no file that {patch.name} changes", hint="check that the series is this package's"
        )
    return left


def _apply_file(overlay: Overlay, patch: FilePatch, file: Path) -> list[Left]:
    """Apply what fits of one file's section; return the rest."""
    try:
        apply_files(overlay, (patch,), name=file.name, file=file)
    except DoesNotApply as error:
        if patch.operation == MODIFY and patch.path in overlay and not overlay.is_link(patch.path):
            return _apply_hunks(overlay, patch)
        return [Left(patch.path, error.line, error.verdict.reason, render([patch]))]
    return []


def _apply_hunks(overlay: Overlay, patch: FilePatch) -> list[Left]:
    before = overlay.read(patch.path)
    lines = split_lines(before.content)
    fitting: list[tuple[int, Hunk]] = []
    left: list[Left] = []
    for hunk in patch.hunks:
        verdict = judge_hunk(hunk, lines)
        offset = {CLEAN: 0, OFFSET: sum(verdict.offsets)}.get(verdict.verdict)
        end = fitting[-1][0] + fitting[-1][1].old_count if fitting else 0
        if offset is not None and hunk.old_index + offset >= end:
            fitting.append((hunk.old_index + offset, hunk))
        else:
            reason = verdict.reason if offset is None else f"a hunk before it has its place; {verdict.reason}"
            left.append(_left(patch, hunk, reason))
    mode = before.mode if patch.old_mode == patch.new_mode else patch.new_mode
    overlay.put(patch.path, File(mode or before.mode, _replaced(lines, fitting)))
    return left


def _left(patch: FilePatch, hunk: Hunk, reason: str) -> Left:
    section = FilePatch(patch.line, MODIFY, patch.path, patch.path, None, None, (hunk,))
    return Left(patch.path, hunk.line, reason, render([section]))


def _replaced(lines: list[bytes], fitting: list[tuple[int, Hunk]]) -> bytes:
    parts: list[bytes] = []
    done = 0
    for index, hunk in fitting:
        parts += [*lines[done:index], *hunk.new]
        done = index + hunk.old_count
    return b"".join(parts + lines[done:])
