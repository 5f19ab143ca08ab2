"""From two states of a tree to the files of a patch, keeping what an earlier export chose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from forkwheel.errors import PatchError
from forkwheel.patching.export import Run, hunks_from, render, runs_of
from forkwheel.patching.git import diff_runs
from forkwheel.patching.model import CREATE, DELETE, MODIFY, RENAME, FilePatch, split_lines
from forkwheel.patching.overlay import File, Overlay
from forkwheel.patching.series import Patch


def export(patch: Patch, before: Overlay) -> bytes:
    """Write a patch again from what it does to the tree that it applies to."""
    return patch.header.text + render(_again(file, before) for file in patch.files)


def _again(patch: FilePatch, before: Overlay) -> FilePatch:
    old = None if patch.old_path is None else before.read(patch.old_path)
    lines = [] if old is None else split_lines(old.content)
    hunks = hunks_from(runs_of(patch.hunks), lines)
    old_mode = None if old is None else old.mode
    new_mode = None if patch.operation == DELETE else patch.new_mode or old_mode
    return FilePatch(0, patch.operation, patch.old_path, patch.new_path, old_mode, new_mode, hunks)


def compare(before: Overlay, after: Overlay, paths: Iterable[str], *, earlier: Sequence[FilePatch]) -> list[FilePatch]:
    """Return what turns one state into the other at the given paths.

    Where ``earlier``, the patch as it was, does the same to a file, its choice of changed
    lines is kept. A file that is gone and one of the same content that is new are a rename,
    and so are those that ``earlier`` renames.
    """
    gone = [path for path in sorted(paths) if path in before and path not in after]
    new = [path for path in sorted(paths) if path in after and path not in before]
    renames = _renames(before, after, gone, new, earlier)
    known = {(file.old_path, file.new_path): file for file in earlier}
    pairs: list[tuple[str | None, str | None]] = list(renames.items())
    pairs += [(path, None) for path in gone if path not in renames]
    pairs += [(None, path) for path in new if path not in renames.values()]
    pairs += [(path, path) for path in sorted(paths) if path in before and path in after]
    return [_file(before, after, old, new, known.get((old, new))) for old, new in pairs]


def _renames(
    before: Overlay, after: Overlay, gone: Sequence[str], new: Sequence[str], earlier: Sequence[FilePatch]
) -> dict[str, str]:
    renames = {
        file.old_path: file.new_path
        for file in earlier
        if file.operation == RENAME and file.old_path in gone and file.new_path in new
    }
    found = {old: target for old, target in renames.items() if old is not None and target is not None}
    for path in gone:
        content = before.read(path).content
        same = [other for other in new if other not in found.values() and after.read(other).content == content]
        if path not in found and len(same) == 1 and content:
            found[path] = same[0]
    return found


def _file(
    before: Overlay, after: Overlay, old_path: str | None, new_path: str | None, known: FilePatch | None
) -> FilePatch:
    old = None if old_path is None else before.read(old_path)
    new = None if new_path is None else after.read(new_path)
    lines = split_lines(old.content) if old else []
    hunks = hunks_from(_runs(old, new, known), lines)
    operation = CREATE if old is None else DELETE if new is None else MODIFY if old_path == new_path else RENAME
    old_mode, new_mode = (old.mode if old else None), (new.mode if new else None)
    return FilePatch(0, operation, old_path, new_path, old_mode, new_mode, hunks)


def _runs(old: File | None, new: File | None, known: FilePatch | None) -> tuple[Run, ...]:
    before, after = (old.content if old else b""), (new.content if new else b"")
    if before == after:
        return ()
    lines = split_lines(before)
    if known is not None and replay(runs_of(known.hunks), lines) == after:
        return runs_of(known.hunks)
    if not before or not after:
        return (Run(0, len(lines), tuple(split_lines(after))),)
    runs = diff_runs(before, after)
    if replay(runs, lines) != after:
        raise PatchError("git's diff does not lead from one content to the other", hint="use another git version")
    return runs


def replay(runs: Sequence[Run], before: Sequence[bytes]) -> bytes | None:
    """Return the content that runs make of lines, or None where they do not fit into them."""
    parts: list[bytes] = []
    done = 0
    for run in runs:
        if run.stop > len(before):
            return None
        parts += [*before[done : run.start], *run.new]
        done = run.stop
    return b"".join([*parts, *before[done:]])
