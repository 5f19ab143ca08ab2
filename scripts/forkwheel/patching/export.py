"""Write patches: one form for each content, so that an unchanged series exports to the same bytes.

A diff has ``---`` and ``+++`` lines alone where these say all, and ``diff --git`` sections
throughout where a file is renamed, changes its mode, is empty or is created executable. It
has no ``index`` lines, no text after ``@@`` and no dates; sections are sorted by path.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forkwheel.patching.model import CONTEXT, CREATE, DELETE, MODIFY, RENAME, FilePatch, Hunk, Line
from forkwheel.patching.names import encode, quote
from forkwheel.tree import EXECUTABLE, REGULAR


@dataclass(frozen=True)
class Run:
    """A run of changed lines: the old file's lines ``start`` to ``stop`` (from 0) become ``new``."""

    start: int
    stop: int
    new: tuple[bytes, ...]


def runs_of(hunks: Iterable[Hunk]) -> tuple[Run, ...]:
    """Return the runs of changed lines that hunks hold."""
    runs: list[Run] = []
    for hunk in hunks:
        position = start = hunk.old_index
        added: list[bytes] = []
        for line in (*hunk.lines, Line(" ", b"")):
            if line.kind == "+":
                added.append(line.content)
            elif line.kind == " ":
                if added or position > start:
                    runs.append(Run(start, position, tuple(added)))
                added = []
                start = position + 1
            position += line.kind != "+"
    return tuple(runs)


def hunks_from(runs: Sequence[Run], before: Sequence[bytes]) -> tuple[Hunk, ...]:
    """Lay runs out as hunks with their context; changes that are close share a hunk."""
    groups: list[list[Run]] = []
    for run in runs:
        if groups and run.start - groups[-1][-1].stop <= 2 * CONTEXT:
            groups[-1].append(run)
        else:
            groups.append([run])
    hunks = []
    delta = 0
    for group in groups:
        hunks.append(_hunk(group, before, delta=delta))
        delta += sum(len(run.new) - (run.stop - run.start) for run in group)
    return tuple(hunks)


def _hunk(group: Sequence[Run], before: Sequence[bytes], *, delta: int) -> Hunk:
    start = max(0, group[0].start - CONTEXT)
    end = min(len(before), group[-1].stop + CONTEXT)
    lines: list[Line] = []
    position = start
    for run in group:
        lines += [Line(" ", line) for line in before[position : run.start]]
        lines += [Line("-", line) for line in before[run.start : run.stop]]
        lines += [Line("+", line) for line in run.new]
        position = run.stop
    lines += [Line(" ", line) for line in before[position:end]]
    old = sum(line.kind != "+" for line in lines)
    new = sum(line.kind != "-" for line in lines)
    return Hunk(0, start + (old > 0), old, start + delta + (new > 0), new, tuple(lines))


def render(files: Iterable[FilePatch]) -> bytes:
    """Return the diff of files, in the one form described above."""
    ordered = sorted(files, key=lambda file: encode(file.path))
    is_git = any(map(_needs_git, ordered))
    return b"".join(_section(file, is_git=is_git) for file in ordered)


def _needs_git(file: FilePatch) -> bool:
    changes_mode = file.operation == MODIFY and file.old_mode != file.new_mode
    return file.operation == RENAME or not file.hunks or changes_mode or _is_executable(file)


def _is_executable(file: FilePatch) -> bool:
    return file.operation == CREATE and file.new_mode == EXECUTABLE


def _section(file: FilePatch, *, is_git: bool) -> bytes:
    old, new = encode(file.old_path or file.path), encode(file.new_path or file.path)
    lines = _git_lines(file, old, new) if is_git else []
    if file.hunks:
        lines.append(b"--- " + (_name(b"a/" + old) if file.operation != CREATE else b"/dev/null"))
        lines.append(b"+++ " + (_name(b"b/" + new) if file.operation != DELETE else b"/dev/null"))
    return b"".join(line + b"\n" for line in lines) + b"".join(map(_render_hunk, file.hunks))


def _name(name: bytes) -> bytes:
    """Write a name; a tab ends one that holds a space, as git does."""
    quoted = quote(name)
    return quoted + b"\t" if quoted == name and b" " in name else quoted


def _git_lines(file: FilePatch, old: bytes, new: bytes) -> list[bytes]:
    lines = [b"diff --git " + quote(b"a/" + old) + b" " + quote(b"b/" + new)]
    if file.operation == CREATE:
        lines.append(b"new file mode " + (file.new_mode or REGULAR).encode())
    elif file.operation == DELETE:
        lines.append(b"deleted file mode " + (file.old_mode or REGULAR).encode())
    elif file.old_mode != file.new_mode:
        lines += [b"old mode " + (file.old_mode or "").encode(), b"new mode " + (file.new_mode or "").encode()]
    if file.operation == RENAME:
        lines += [b"rename from " + quote(old), b"rename to " + quote(new)]
    return lines


def _render_hunk(hunk: Hunk) -> bytes:
    old, new = _range(hunk.old_start, hunk.old_count), _range(hunk.new_start, hunk.new_count)
    lines = [f"@@ -{old} +{new} @@\n".encode()]
    for line in hunk.lines:
        ending = b"" if line.content.endswith(b"\n") else b"\n\\ No newline at end of file\n"
        lines.append(line.kind.encode() + line.content + ending)
    return b"".join(lines)


def _range(start: int, count: int) -> str:
    return str(start) if count == 1 else f"{start},{count}"
