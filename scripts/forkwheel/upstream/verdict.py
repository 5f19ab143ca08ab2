"""The verdicts on a whole series against another revision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from packaging.version import Version

from forkwheel.patching.apply import apply_patch
from forkwheel.patching.model import CREATE, DELETE, MODIFY, RENAME
from forkwheel.patching.overlay import Overlay
from forkwheel.patching.series import Patch, Series
from forkwheel.tree import Tree
from forkwheel.upstream.carry import carry, undo
from forkwheel.upstream.file_verdict import judge_file
from forkwheel.upstream.files import Files, Layer
from forkwheel.upstream.judged import JudgedFile, JudgedPatch, summary

APPLIED_UPSTREAM = "Applied-Upstream"


def judge_series(series: Series, base: Tree, new: Files, *, version: str | None) -> tuple[JudgedPatch, ...]:
    """Judge every patch of a series against the files of another revision.

    ``base`` is the tree that the series applies to. What fits is carried over before the next
    patch is judged, and what upstream took of the later patches is taken out where it hides
    that an earlier one was taken. ``version`` is the new revision's, if it has one, for the
    headers' expiry.
    """
    states = _states(series, base)
    beneath = _beneath_later(series, states, new)
    after = Layer(new)
    judged = []
    for number, patch in enumerate(series.patches):
        going = {file.old_path for file in patch.files if file.operation in (DELETE, RENAME) and file.old_path}
        files = tuple(
            judge_file(file, states[number], after, going=going, beneath=beneath.get((number, file.path)))
            for file in patch.files
        )
        for file, patched in zip(files, patch.files, strict=True):
            carry(file, patched, after)
        judged.append(JudgedPatch(patch.name, summary(files), expired_by(patch, version), files))
    return tuple(judged)


def _states(series: Series, base: Tree) -> list[Overlay]:
    """Return the files that each patch of the series is made for."""
    states = [Overlay(base)]
    for patch in series.patches:
        states.append(states[-1].copy())
        apply_patch(states[-1], patch, folder=series.folder)
    return states


def _beneath_later(series: Series, states: Sequence[Overlay], new: Files) -> dict[tuple[int, str], JudgedFile]:
    """Judge, from the last patch to the first, the files that several patches change.

    What a later patch did is taken out before an earlier one is judged: upstream may have
    both, and then the earlier one's result stands in the file no more.
    """
    every = Counter(path for patch in series.patches for path in {file.path for file in patch.files})
    after = Layer(new)
    found: dict[tuple[int, str], JudgedFile] = {}
    for number in reversed(range(len(series.patches))):
        for file in series.patches[number].files:
            is_shared = every[file.path] > 1 and file.operation in (CREATE, MODIFY)
            if is_shared and file.path in after and not after.is_link(file.path):
                judged = judge_file(file, states[number], after)
                undo(judged, file, after)
                found[number, file.path] = judged
    return found


def changed_paths(series: Series) -> list[str]:
    """List every path that a series changes, by its old and its new name."""
    files = [file for patch in series.patches for file in patch.files]
    return sorted({path for file in files for path in (file.old_path, file.new_path) if path is not None})


def expired_by(patch: Patch, version: str | None) -> str | None:
    """Return the header's field and release that make the patch needless at ``version``, or None."""
    if version is None:
        return None
    limits = ((APPLIED_UPSTREAM, patch.header.applied_upstream), ("Drop-After", patch.header.drop_after))
    for field, limit in limits:
        if limit is not None and Version(version) >= limit:
            return f"{field}: {limit}"
    return None
