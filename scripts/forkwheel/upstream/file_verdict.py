"""The verdict on one file of a patch against another revision."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

from forkwheel.patching.judge import ALREADY_APPLIED, AMBIGUOUS, CLEAN, CONFLICT
from forkwheel.patching.model import CREATE, DELETE, RENAME, FilePatch, split_lines
from forkwheel.patching.overlay import File, Overlay
from forkwheel.tree import REGULAR
from forkwheel.upstream.carry import spliced
from forkwheel.upstream.files import Layer
from forkwheel.upstream.hunk_verdict import PARTLY_APPLIED, HunkJudge, HunkVerdict
from forkwheel.upstream.judged import APPLIES, GONE, MOVED, JudgedFile, JudgedHunk, summary
from forkwheel.upstream.moved import is_like, moved_to
from forkwheel.upstream.sites import Text


def judge_file(
    patch: FilePatch,
    before: Overlay,
    after: Layer,
    *,
    going: Collection[str] = (),
    beneath: JudgedFile | None = None,
) -> JudgedFile:
    """Judge one file of a patch.

    ``going`` are the paths that the whole patch takes away. ``beneath`` is the verdict on the
    file without what upstream took of later patches, which may hide that it took this one.
    """
    if patch.operation == CREATE:
        return _uncovered(_judge_creation(patch, after, going), beneath)
    assert patch.old_path is not None
    old = before.read(patch.old_path)
    is_there = patch.old_path in after
    targets = () if is_there else moved_to(patch.old_path, old.content, before=before, after=after)
    if patch.operation == RENAME and patch.path in after and not is_there:
        return _judge_renamed(patch, old, after, targets)
    if patch.operation == RENAME and (found := after.obstacle(patch.path, apart_from=going)):
        return _whole(patch, CONFLICT, f"{found} is in the way")
    if is_there:
        return _judge_content(patch, old, after, patch.old_path, beneath=beneath)
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
    result = spliced(old.content, list(zip(starts, patch.hunks, strict=True)))
    if new.content in (old.content, result):
        return True
    is_elsewhere = bool(targets) and patch.path not in targets
    return not is_elsewhere and (is_like(old.content, new.content) or is_like(result, new.content))


def _judge_content(
    patch: FilePatch, old: File, after: Layer, target: str, *, beneath: JudgedFile | None = None
) -> JudgedFile:
    if after.is_link(target):
        return _whole(patch, CONFLICT, f"{target} is a symbolic link now")
    new = after.read(target)
    judge = HunkJudge(patch.hunks, Text(tuple(split_lines(old.content))), Text(tuple(split_lines(new.content))))
    hunks = tuple(JudgedHunk(hunk.line, hunk.old_start, judge.judge(hunk)) for hunk in patch.hunks)
    if beneath is not None and beneath.target is None:
        hunks = tuple(_uncovered(hunk, other) for hunk, other in zip(hunks, beneath.hunks, strict=True))
    verdict, reason = _with_mode(summary(hunks) if hunks else None, patch, new)
    if patch.operation == DELETE and new.content != old.content and verdict in (*APPLIES, ALREADY_APPLIED):
        verdict, reason = CONFLICT, "the file that the patch deletes has changed"
    if patch.operation == RENAME and target != patch.path and verdict == ALREADY_APPLIED:
        verdict, reason = PARTLY_APPLIED, "the file is not renamed"
    reason = reason or "; ".join(dict.fromkeys(hunk.verdict.reason for hunk in hunks if hunk.verdict.reason))
    return JudgedFile(patch.path, patch.operation, verdict, None, reason, hunks)


_Judged = TypeVar("_Judged", JudgedFile, JudgedHunk)


def _uncovered(judged: _Judged, beneath: _Judged | None) -> _Judged:
    """Let a conflict be what later patches made of one that upstream took."""
    if beneath is None or _of(judged) not in (CONFLICT, PARTLY_APPLIED) or _of(beneath) != ALREADY_APPLIED:
        return judged
    return beneath


def _of(judged: JudgedFile | JudgedHunk) -> str:
    return judged.verdict if isinstance(judged.verdict, str) else judged.verdict.verdict


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
