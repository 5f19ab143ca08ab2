"""What must hold among the hunks of one file, as far as the patch alone tells."""

from __future__ import annotations

from pathlib import Path

from forkwheel.patching.fault import Place
from forkwheel.patching.model import CONTEXT, CREATE, DELETE, FilePatch, Hunk


def check_hunks(patch: FilePatch, *, file: Path) -> None:
    """Check a section's hunks: order, line numbers, context, newlines, and that each changes something.

    Raises PatchError at the first hunk that is at fault.
    """
    end = 0
    delta = 0
    for index, hunk in enumerate(patch.hunks):
        place = Place(file, hunk.line)
        last = index == len(patch.hunks) - 1
        if hunk.old == hunk.new:
            place.fail("the hunk changes nothing", hint="remove it")
        _check_starts(hunk, place)
        if hunk.old_index < end:
            place.fail("the hunk overlaps the one before it, or comes out of order", hint="merge or sort the hunks")
        if hunk.new_index != hunk.old_index + delta:
            expected = hunk.old_start + delta
            place.fail(
                f"the hunk's new line is {hunk.new_start}, but {hunk.old_start} moved by the hunks before it"
                f" gives {expected}",
                hint="make the patch again; its line numbers were edited by hand",
            )
        _check_context(hunk, place)
        _check_newlines(hunk, place, last=last)
        end = hunk.old_index + hunk.old_count
        delta += hunk.new_count - hunk.old_count
    _check_whole(patch, file)


def _check_starts(hunk: Hunk, place: Place) -> None:
    for start, count in ((hunk.old_start, hunk.old_count), (hunk.new_start, hunk.new_count)):
        if count and not start:
            place.fail("the hunk starts at line 0, which does not exist", hint="lines count from 1")


def _check_context(hunk: Hunk, place: Place) -> None:
    if max(hunk.leading, hunk.trailing) > CONTEXT:
        place.fail(
            f"the hunk has {hunk.leading} and {hunk.trailing} lines of context around its changes",
            hint=f"make the patch with {CONTEXT} lines of context",
        )


def _check_newlines(hunk: Hunk, place: Place, *, last: bool) -> None:
    for lines in (hunk.old, hunk.new):
        inner = lines[:-1] if last else lines
        if not all(line.endswith(b"\n") for line in inner):
            place.fail(
                "`\\ No newline at end of file` stands after a line that is not the file's last",
                hint="make the patch again with `git diff` or `diff -u`",
            )


def _check_whole(patch: FilePatch, file: Path) -> None:
    for operation, what, counts in (
        (CREATE, "creation", [hunk.old_count for hunk in patch.hunks]),
        (DELETE, "deletion", [hunk.new_count for hunk in patch.hunks]),
    ):
        is_partial = len(counts) > 1 or any(counts) or any(hunk.old_index for hunk in patch.hunks)
        if patch.operation == operation and is_partial:
            Place(file, patch.hunks[0].line).fail(
                f"the {what} of {patch.path} is not one hunk with the whole file",
                hint="a file comes from, or goes to, nothing at all",
            )
