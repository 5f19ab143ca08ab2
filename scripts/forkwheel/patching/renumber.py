"""Carry later patches over a change in an earlier one, where they merely moved.

Nothing is searched for: what the change did to a file is known, so each later hunk has one
place where it belongs now. Where it meets changed lines, or where lines were added or removed
among equal ones so that the hunk may belong before or after them, it is a conflict.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from forkwheel.patching.apply import DoesNotApply, apply_patch
from forkwheel.patching.export import Run, hunks_from, render, runs_of
from forkwheel.patching.git import diff_runs
from forkwheel.patching.judge import CONFLICT, HunkVerdict
from forkwheel.patching.model import CREATE, FilePatch, Hunk, split_lines
from forkwheel.patching.overlay import Overlay
from forkwheel.patching.series import Patch, parse_patch


def renumber(patch: Patch, *, old: Overlay, new: Overlay, folder: Path) -> Patch:
    """Return the patch as it applies to ``new``, and apply it to both states.

    ``old`` is the state that the patch was made for. Raises DoesNotApply where the lines that
    it expects are no longer there as they were.
    """
    files = tuple(_moved(file, patch, old, new, folder) for file in patch.files)
    if files != patch.files:
        patch_moved = parse_patch(patch.header.text + render(files), folder / patch.name, allow_todo=True)
    else:
        patch_moved = patch
    apply_patch(new, patch_moved, folder=folder)
    apply_patch(old, patch, folder=folder)
    return patch_moved


def _moved(file: FilePatch, patch: Patch, old: Overlay, new: Overlay, folder: Path) -> FilePatch:
    path = file.old_path
    if file.operation == CREATE or path is None or path not in new or path not in old:
        return file
    before, after = old.read(path).content, new.read(path).content
    if before == after:
        return file
    between = _between(before, after)
    lines = split_lines(before)
    for hunk in file.hunks:
        if any(_meets(run, hunk) or _slides_past(run, hunk, lines) for run in between):
            raise _conflict(hunk, file, patch, folder)
    runs = [_shifted(run, between) for run in runs_of(file.hunks)]
    mode = new.read(path).mode if file.old_mode is None else file.old_mode
    hunks = hunks_from(runs, split_lines(after))
    return FilePatch(file.line, file.operation, path, file.new_path, mode, file.new_mode or mode, hunks)


def _between(before: bytes, after: bytes) -> tuple[Run, ...]:
    if before and after:
        return diff_runs(before, after)
    return (Run(0, len(split_lines(before)), tuple(split_lines(after))),)


def _meets(run: Run, hunk: Hunk) -> bool:
    """Tell whether a change reaches into the lines that a hunk expects."""
    start, end = hunk.old_index, hunk.old_index + hunk.old_count
    if run.start == run.stop:
        return start < run.start < end
    return run.start < end and run.stop > start


def _slides_past(run: Run, hunk: Hunk, lines: Sequence[bytes]) -> bool:
    """Tell whether an insertion or deletion could as well stand on the other side of a hunk's change."""
    low, high = _slide(run, lines)
    return any(low < change.stop and high > change.start for change in runs_of([hunk]))


def _slide(run: Run, lines: Sequence[bytes]) -> tuple[int, int]:
    """Return from where to where in the old lines a run can be moved without another result."""
    if run.new and run.start < run.stop:
        return run.start, run.stop
    block = list(run.new) if run.new else list(lines[run.start : run.stop])
    up = down = 0
    while up < run.start and lines[run.start - up - 1] == block[-1 - up % len(block)]:
        up += 1
    while run.stop + down < len(lines) and lines[run.stop + down] == block[down % len(block)]:
        down += 1
    return run.start - up, run.stop + down


def _shifted(run: Run, between: Sequence[Run]) -> Run:
    shift = sum(len(other.new) - (other.stop - other.start) for other in between if other.stop <= run.start)
    return Run(run.start + shift, run.stop + shift, run.new)


def _conflict(hunk: Hunk, file: FilePatch, patch: Patch, folder: Path) -> DoesNotApply:
    reason = "the refreshed patch changed lines that the hunk expects, or made its place uncertain"
    return DoesNotApply(
        f"{folder / patch.name}:{hunk.line}: a hunk for {file.path} no longer applies: {reason}",
        hint=f"open it with `patches --edit {patch.name}`, mend it there, and refresh it",
        patch=patch.name,
        path=file.path,
        line=hunk.line,
        hunk=hunk,
        verdict=HunkVerdict(CONFLICT, (), reason),
    )
