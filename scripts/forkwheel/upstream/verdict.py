"""The verdicts on a whole series against another revision: by patch, file and hunk."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from packaging.version import Version

from forkwheel.patching.apply import apply_patch
from forkwheel.patching.judge import ALREADY_APPLIED, AMBIGUOUS, CLEAN, CONFLICT, OFFSET
from forkwheel.patching.model import CREATE, DELETE, RENAME, FilePatch, Hunk, split_lines
from forkwheel.patching.overlay import File, Overlay
from forkwheel.patching.series import Patch, Series
from forkwheel.tree import REGULAR, Tree
from forkwheel.upstream.files import Files, Layer
from forkwheel.upstream.hunk_verdict import PARTLY_APPLIED, HunkJudge, HunkVerdict
from forkwheel.upstream.moved import is_like, moved_to
from forkwheel.upstream.sites import Text

MOVED = "file moved"
GONE = "file gone"

_WORST_FIRST = (CONFLICT, GONE, AMBIGUOUS, PARTLY_APPLIED, MOVED, OFFSET, CLEAN)
APPLIES = (CLEAN, OFFSET)
"""Verdicts after which a patch can be carried over without a person."""


@dataclass(frozen=True)
class JudgedHunk:
    """One hunk: the line of its ``@@`` in the patch, its line in the old file, and how it stands."""

    line: int
    old_start: int
    verdict: HunkVerdict


@dataclass(frozen=True)
class JudgedFile:
    """One file of a patch; ``target`` is its path in the new revision, if it is another."""

    path: str
    operation: str
    verdict: str
    target: str | None
    reason: str
    hunks: tuple[JudgedHunk, ...]

    def __str__(self) -> str:
        return f"{MOVED} to {self.target}" if self.verdict == MOVED else _shown(self.verdict, self.hunks)


@dataclass(frozen=True)
class JudgedPatch:
    """One patch; ``expired`` is the header field and release that say that upstream has it."""

    name: str
    verdict: str
    expired: str | None
    files: tuple[JudgedFile, ...]

    def __str__(self) -> str:
        return _shown(self.verdict, [hunk for file in self.files for hunk in file.hunks])


def _shown(verdict: str, hunks: Sequence[JudgedHunk]) -> str:
    """Add the offset where all hunks that moved have moved by the same."""
    offsets = {hunk.verdict.offset for hunk in hunks if hunk.verdict.verdict == OFFSET}
    return f"{verdict} {offsets.pop():+d}" if verdict == OFFSET and len(offsets) == 1 else verdict


def judge_series(series: Series, base: Tree, new: Files, *, version: str | None) -> tuple[JudgedPatch, ...]:
    """Judge every patch of a series against the files of another revision.

    ``base`` is the tree that the series applies to. What fits is carried over before the next
    patch is judged. ``version`` is the new revision's, if it has one, for the headers' expiry.
    """
    before, after = Overlay(base), Layer(new)
    judged = []
    for patch in series.patches:
        going = {file.old_path for file in patch.files if file.operation in (DELETE, RENAME) and file.old_path}
        files = tuple(_judge_file(file, before, after, going) for file in patch.files)
        for file, patched in zip(files, patch.files, strict=True):
            _carry(file, patched, after)
        judged.append(JudgedPatch(patch.name, _summary(files), expired_by(patch, version), files))
        apply_patch(before, patch, folder=series.folder)
    return tuple(judged)


def changed_paths(series: Series) -> list[str]:
    """List every path that a series changes, by its old and its new name."""
    files = [file for patch in series.patches for file in patch.files]
    return sorted({path for file in files for path in (file.old_path, file.new_path) if path is not None})


def expired_by(patch: Patch, version: str | None) -> str | None:
    """Return the header's field and release that make the patch needless at ``version``, or None."""
    if version is None:
        return None
    limits = (("Applied-Upstream", patch.header.applied_upstream), ("Drop-After", patch.header.drop_after))
    for field, limit in limits:
        if limit is not None and Version(version) >= limit:
            return f"{field}: {limit}"
    return None


def _summary(parts: Iterable[JudgedFile | JudgedHunk]) -> str:
    """Return the verdict on a whole from those on its parts."""
    verdicts = {part.verdict if isinstance(part.verdict, str) else part.verdict.verdict for part in parts}
    if verdicts == {ALREADY_APPLIED}:
        return ALREADY_APPLIED
    for verdict in _WORST_FIRST[:4]:
        if verdict in verdicts:
            return verdict
    if ALREADY_APPLIED in verdicts:
        return PARTLY_APPLIED
    return next(verdict for verdict in _WORST_FIRST if verdict in verdicts)


def _judge_file(patch: FilePatch, before: Overlay, after: Layer, going: Collection[str]) -> JudgedFile:
    """Judge one file of a patch; ``going`` are the paths that the whole patch takes away."""
    if patch.operation == CREATE:
        return _judge_creation(patch, after, going)
    assert patch.old_path is not None
    old = before.read(patch.old_path)
    is_there = patch.old_path in after
    targets = () if is_there else moved_to(patch.old_path, old.content, before=before, after=after)
    if patch.operation == RENAME and patch.path in after and not is_there:
        return _judge_renamed(patch, old, after, targets)
    if patch.operation == RENAME and (found := after.obstacle(patch.path, apart_from=going)):
        return _whole(patch, CONFLICT, f"{found} is in the way")
    if is_there:
        return _judge_content(patch, old, after, patch.old_path)
    return _judge_gone(patch, old, after, targets)


def _judge_gone(patch: FilePatch, old: File, after: Layer, targets: Sequence[str]) -> JudgedFile:
    """Judge a patch of a file that is no longer there, and may be one of ``targets`` now."""
    if not targets and patch.operation == DELETE:
        return _whole(patch, ALREADY_APPLIED, "the file that the patch deletes is gone")
    if not targets:
        return _whole(patch, GONE, "no new file is like it")
    if len(targets) > 1:
        return _whole(patch, AMBIGUOUS, f"the file is gone, and may be any of: {', '.join(targets)}")
    judged = _judge_content(patch, old, after, targets[0])
    return JudgedFile(patch.path, patch.operation, _moved(judged.verdict), targets[0], judged.reason, judged.hunks)


def _moved(verdict: str) -> str:
    """Let a move hide that a hunk fits, and nothing else."""
    return MOVED if verdict in APPLIES else verdict


def _judge_creation(patch: FilePatch, after: Layer, going: Collection[str]) -> JudgedFile:
    path = patch.path
    if path not in after:
        found = after.obstacle(path, apart_from=going)
        return _whole(patch, CONFLICT, f"{found} is in the way") if found else _whole(patch, CLEAN)
    made = File(patch.new_mode or REGULAR, b"".join(line for hunk in patch.hunks for line in hunk.new))
    if not after.is_link(path) and after.read(path) == made:
        return _whole(patch, ALREADY_APPLIED, "the file is there, and the same")
    return _whole(patch, CONFLICT, "another file has its path")


def _judge_renamed(patch: FilePatch, old: File, after: Layer, targets: Sequence[str]) -> JudgedFile:
    """Judge a patch's renaming that upstream did too, if the file there is like the one that it would give."""
    path = patch.path
    if after.is_link(path) or not _is_renamed(patch, old, after.read(path), targets):
        return _whole(patch, CONFLICT, f"{path} is another file")
    judged = _judge_content(patch, old, after, path)
    if not patch.hunks and patch.new_mode in (None, patch.old_mode):
        return _whole(patch, ALREADY_APPLIED, f"the file is {path} already")
    verdict = PARTLY_APPLIED if judged.verdict in APPLIES else judged.verdict
    return JudgedFile(patch.path, patch.operation, verdict, path, "the file is renamed already", judged.hunks)


def _is_renamed(patch: FilePatch, old: File, new: File, targets: Sequence[str]) -> bool:
    starts = [hunk.old_start - (1 if hunk.old_count else 0) for hunk in patch.hunks]
    result = _spliced(old.content, list(zip(starts, patch.hunks, strict=True)))
    if new.content in (old.content, result):
        return True
    is_elsewhere = bool(targets) and patch.path not in targets
    return not is_elsewhere and (is_like(old.content, new.content) or is_like(result, new.content))


def _judge_content(patch: FilePatch, old: File, after: Layer, target: str) -> JudgedFile:
    if after.is_link(target):
        return _whole(patch, CONFLICT, f"{target} is a symbolic link now")
    new = after.read(target)
    judge = HunkJudge(patch.hunks, Text(tuple(split_lines(old.content))), Text(tuple(split_lines(new.content))))
    hunks = tuple(JudgedHunk(hunk.line, hunk.old_start, judge.judge(hunk)) for hunk in patch.hunks)
    verdict, reason = _with_mode(_summary(hunks) if hunks else None, patch, new)
    if patch.operation == DELETE and new.content != old.content and verdict in (*APPLIES, ALREADY_APPLIED):
        verdict, reason = CONFLICT, "the file that the patch deletes has changed"
    if patch.operation == RENAME and target != patch.path and verdict == ALREADY_APPLIED:
        verdict, reason = PARTLY_APPLIED, "the file is not renamed"
    reason = reason or "; ".join(dict.fromkeys(hunk.verdict.reason for hunk in hunks if hunk.verdict.reason))
    return JudgedFile(patch.path, patch.operation, verdict, None, reason, hunks)


def _with_mode(verdict: str | None, patch: FilePatch, new: File) -> tuple[str, str]:
    """Take a change of the mode into account; ``verdict`` is that on the content, if it changes."""
    if patch.new_mode in (None, patch.old_mode) or patch.operation == DELETE:
        return verdict or CLEAN, ""
    is_done = new.mode == patch.new_mode
    if verdict is None:
        return (ALREADY_APPLIED if is_done else CLEAN), ("its mode is set already" if is_done else "")
    if is_done == (verdict == ALREADY_APPLIED) or verdict not in (*APPLIES, ALREADY_APPLIED):
        return verdict, ""
    return PARTLY_APPLIED, f"its mode is {new.mode}"


def _whole(patch: FilePatch, verdict: str, reason: str = "") -> JudgedFile:
    """Give every hunk the verdict on its file."""
    hunks = tuple(JudgedHunk(hunk.line, hunk.old_start, HunkVerdict(verdict)) for hunk in patch.hunks)
    return JudgedFile(patch.path, patch.operation, verdict, None, reason, hunks)


def _carry(judged: JudgedFile, patch: FilePatch, after: Layer) -> None:
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
    after.put(target, File(mode or found.mode, _replaced(found.content, judged.hunks, patch.hunks)))


def _replaced(content: bytes, judged: Sequence[JudgedHunk], hunks: Sequence[Hunk]) -> bytes:
    fitting = [(item.verdict.index, hunk) for item, hunk in zip(judged, hunks, strict=True)]
    return _spliced(content, [(index, hunk) for index, hunk in fitting if index is not None])


def _spliced(content: bytes, hunks: Sequence[tuple[int, Hunk]]) -> bytes:
    """Put each hunk's new lines in the place of its old ones, which begin at the index given."""
    lines = split_lines(content)
    parts: list[bytes] = []
    done = 0
    for index, hunk in sorted(hunks, key=lambda pair: pair[0]):
        if index >= done:
            parts += [*lines[done:index], *hunk.new]
            done = index + hunk.old_count
    return b"".join(parts + lines[done:])
