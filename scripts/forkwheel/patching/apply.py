"""Apply a series exactly: checked whole in memory, written to a private copy, verified."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from forkwheel.errors import PatchError
from forkwheel.patching.beside import beside
from forkwheel.patching.judge import (
    ALREADY_APPLIED,
    AMBIGUOUS,
    CLEAN,
    CONFLICT,
    OFFSET,
    HunkVerdict,
    closest,
    judge_hunk,
)
from forkwheel.patching.model import CONTEXT, CREATE, DELETE, RENAME, FilePatch, Hunk, split_lines
from forkwheel.patching.overlay import Change, File, Overlay
from forkwheel.patching.reverse import reversed_file
from forkwheel.patching.series import Patch, Series
from forkwheel.patching.write import PatchedTree, write_changes
from forkwheel.tree import REGULAR, Tree

__all__ = ["Change", "DoesNotApply", "PatchedTree", "apply_patch", "check_series", "is_applied", "write_changes"]

_HINTS = {
    OFFSET: "patches apply at their recorded lines only; `patches --edit {name}` opens it moved, to be refreshed",
    AMBIGUOUS: "patches apply at their recorded lines only; open it with `patches --edit {name}` and choose the place",
    ALREADY_APPLIED: "if upstream has the change now, drop the hunk or the patch",
    CONFLICT: "the source or an earlier patch is not what it was made for; open it with `patches --edit {name}`",
}
_SHORT_CONTEXT = f"make the patch with {CONTEXT} lines of context; only a file's start and end have fewer"


class DoesNotApply(PatchError):  # noqa: N818 - read as a sentence where it is raised
    """A patch does not apply exactly: which file and hunk, and the verdict on it.

    ``hunk`` is None where the whole file is at fault. ``line`` is that of the patch file.
    """

    def __init__(
        self, message: str, *, hint: str, patch: str, path: str, line: int, hunk: Hunk | None, verdict: HunkVerdict
    ) -> None:
        super().__init__(message, hint=hint)
        self.patch = patch
        self.path = path
        self.line = line
        self.hunk = hunk
        self.verdict = verdict


def check_series(series: Series, tree: Tree) -> tuple[Change, ...]:
    """Apply all patches in order, on top of one another, in memory; return the outcome by path.

    A tree that has the whole series already gives no changes; ``is_applied`` tells that from
    a series without effect. Raises DoesNotApply (a PatchError) at the first patch that does
    not apply exactly, VerificationError where the tree on disk is not what its entries say.
    """
    overlay = Overlay(tree)
    try:
        for patch in series.patches:
            apply_patch(overlay, patch, folder=series.folder)
    except DoesNotApply:
        if is_applied(series, tree):
            return ()
        raise
    return overlay.changes()


def is_applied(series: Series, tree: Tree) -> bool:
    """Tell whether a tree is the exact result of a series.

    It is where every patch, from the last to the first, applies exactly in reverse: then the
    tree that this leads to is one that the series turns into this tree. Deletions alone leave
    nothing that would tell; a series of nothing else is never taken for applied.
    """
    if all(file.operation == DELETE for patch in series.patches for file in patch.files):
        return False
    overlay = Overlay(tree)
    try:
        for patch in reversed(series.patches):
            apply_files(overlay, tuple(map(reversed_file, patch.files)), name=patch.name, file=series.file(patch))
    except DoesNotApply:
        return False
    return True


def apply_patch(overlay: Overlay, patch: Patch, *, folder: Path) -> None:
    """Apply one patch to an overlay, all of it or, with DoesNotApply, nothing."""
    apply_files(overlay, patch.files, name=patch.name, file=folder / patch.name)


def apply_files(overlay: Overlay, files: tuple[FilePatch, ...], *, name: str, file: Path) -> None:
    """Apply sections of the patch ``name``, read from ``file``: all or, with DoesNotApply, none of them."""
    work = overlay.copy()
    results = [(patch, _Site(work, patch, name=name, file=file).result()) for patch in files]
    for patch, _ in results:
        if patch.old_path is not None and patch.old_path != patch.new_path:
            work.remove(patch.old_path)
    for patch, result in results:
        if patch.new_path is not None and result is not None:
            if patch.new_path != patch.old_path:
                _Site(work, patch, name=name, file=file).check_free()
            work.put(patch.new_path, result)
    overlay.adopt(work)


class _Site:
    """One file's patch on an overlay, with what its complaints need."""

    def __init__(self, overlay: Overlay, patch: FilePatch, *, name: str, file: Path) -> None:
        self._overlay = overlay
        self._patch = patch
        self._name = name
        self._file = file

    def result(self) -> File | None:
        """Return the file after the patch, or None where it is deleted."""
        if self._patch.operation == CREATE:
            self._check_absent()
            content = b"".join(line for hunk in self._patch.hunks for line in hunk.new)
            return File(self._patch.new_mode or REGULAR, content)
        before = self._before()
        content = self._patched(before)
        if self._patch.operation == DELETE:
            if content:
                self._fail("the deletion leaves lines that the patch does not name")
            return None
        return File(self._patch.new_mode or before.mode, content)

    def check_free(self) -> None:
        """Refuse a new path where a file stands, or where a folder or file is in the way."""
        path = self._patch.path
        if (obstacle := self._overlay.obstacle(path)) is None:
            return
        what = "a symbolic link" if self._overlay.is_link(obstacle) else "a file"
        verb = "cannot be renamed to" if self._patch.operation == RENAME else "cannot be created:"
        self._fail(f"{verb} {path}: the tree has {what} {obstacle}")

    def _check_absent(self) -> None:
        path = self._patch.path
        if path not in self._overlay or self._overlay.is_link(path):
            return
        found = self._overlay.read(path)
        made = b"".join(line for hunk in self._patch.hunks for line in hunk.new)
        if found == File(self._patch.new_mode or REGULAR, made):
            self._fail("the file that the patch creates is there already", verdict=ALREADY_APPLIED)

    def _before(self) -> File:
        path = self._patch.old_path
        assert path is not None
        if (parent := self._overlay.file_above(path)) is not None:
            what = "symbolic link" if self._overlay.is_link(parent) else "file"
            self._fail(f"its path leads through the {what} {parent}")
        if path not in self._overlay:
            self._fail(f"the tree has no file {path}")
        if self._overlay.is_link(path):
            self._fail(f"{path} is a symbolic link in the tree")
        before = self._overlay.read(path)
        self._check_mode(before)
        return before

    def _check_mode(self, before: File) -> None:
        stated, new = self._patch.old_mode, self._patch.new_mode
        if stated is not None and before.mode != stated:
            applied = new == before.mode and self._patch.operation != DELETE
            self._fail(
                f"the file's mode is {before.mode}, the patch says {stated}",
                verdict=ALREADY_APPLIED if applied else CONFLICT,
            )

    def _patched(self, before: File) -> bytes:
        lines = split_lines(before.content)
        parts: list[bytes] = []
        done = 0
        for hunk in self._patch.hunks:
            verdict = judge_hunk(hunk, lines)
            if verdict.verdict != CLEAN:
                self._fail_hunk(hunk, verdict, lines)
            parts += lines[done : hunk.old_index]
            parts += hunk.new
            done = hunk.old_index + hunk.old_count
        return b"".join(parts + lines[done:])

    def _fail_hunk(self, hunk: Hunk, verdict: HunkVerdict, lines: list[bytes]) -> NoReturn:
        number = self._patch.hunks.index(hunk) + 1
        stands = list(hunk.old) == lines[hunk.old_index : hunk.old_index + hunk.old_count]
        table = ""
        if verdict.verdict == CONFLICT and not stands:
            table = "\n" + beside(hunk.old, lines, start=closest(hunk.old, lines, hunk.old_index))
        raise DoesNotApply(
            f"{self._file}:{hunk.line}: hunk {number} of {len(self._patch.hunks)} for {self._patch.path} does not"
            f" apply at line {hunk.old_index + 1} ({verdict}): {verdict.reason}{table}",
            hint=_SHORT_CONTEXT if stands else _HINTS[verdict.verdict].format(name=self._name),
            patch=self._name,
            path=self._patch.path,
            line=hunk.line,
            hunk=hunk,
            verdict=verdict,
        )

    def _fail(self, reason: str, *, verdict: str = CONFLICT) -> NoReturn:
        raise DoesNotApply(
            f"{self._file}:{self._patch.line}: {self._patch.path} ({self._patch.operation}): {reason} ({verdict})",
            hint=_HINTS[verdict].format(name=self._name),
            patch=self._name,
            path=self._patch.path,
            line=self._patch.line,
            hunk=None,
            verdict=HunkVerdict(verdict, (), reason),
        )
