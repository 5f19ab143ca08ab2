"""The strict reader of unified diffs, on bytes: what it accepts is what gets applied.

A diff is either git's (each section starts with ``diff --git``) or plain (``---`` and
``+++`` alone) throughout. Nothing is skipped: every line belongs to a section.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from forkwheel.patching.fault import Place
from forkwheel.patching.hunks import check_hunks
from forkwheel.patching.model import FilePatch, Hunk, Line
from forkwheel.patching.sections import EXTENDED, Names, Section, resolve

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(?: [^\n]*)?\n")
_NO_NEWLINE = b"\\ No newline at end of file\n"
_BINARY = (b"GIT binary patch", b"Binary files ")
_RECREATE = "make the patch again with `git diff` or `diff -u`, or by `patches --edit NAME`"


def read_diff(lines: Sequence[bytes], *, file: Path, first_line: int) -> tuple[FilePatch, ...]:
    """Read the lines of a diff, the first of which is ``first_line`` of ``file``.

    Raises PatchError, with file and line, at the first thing that is not exactly a diff.
    """
    return tuple(_Reader(lines, file=file, first_line=first_line).sections())


class _Reader:
    def __init__(self, lines: Sequence[bytes], *, file: Path, first_line: int) -> None:
        self._lines = lines
        self._file = file
        self._first = first_line
        self._index = 0

    @property
    def _place(self) -> Place:
        return Place(self._file, self._first + self._index)

    def _peek(self, ahead: int = 0) -> bytes:
        index = self._index + ahead
        return self._lines[index] if index < len(self._lines) else b""

    def _take(self) -> bytes:
        line = self._peek()
        self._index += 1
        return line

    def sections(self) -> list[FilePatch]:
        if not self._lines:
            self._place.fail("the patch changes no file", hint="add the diff after the header and a blank line")
        is_git = self._peek().startswith(b"diff --git ")
        patches: list[FilePatch] = []
        while self._index < len(self._lines):
            patch = self._git_section() if is_git else self._plain_section()
            self._check_distinct(patch, patches)
            patches.append(patch)
        return patches

    def _check_distinct(self, patch: FilePatch, earlier: list[FilePatch]) -> None:
        taken = {path: other.line for other in earlier for path in (other.old_path, other.new_path) if path}
        for path in (patch.old_path, patch.new_path):
            if path in taken:
                Place(self._file, patch.line).fail(
                    f"{path} has a second section; its first is at line {taken[path]}",
                    hint="put all hunks of a file into one section, or the second into a patch of its own",
                )

    def _git_section(self) -> FilePatch:
        place = self._place
        line = self._take()
        if not line.startswith(b"diff --git "):
            self._index -= 1
            self._fail_unexpected()
        section = Section(place, git_line=self._text(line, place)[len(b"diff --git ") :])
        while (keyword := self._keyword()) is not None:
            at = self._place
            if keyword in section.fields:
                at.fail(f"`{keyword}` is given twice", hint=_RECREATE)
            section.fields[keyword] = (at, self._text(self._take(), at)[len(keyword) + 1 :])
        if self._peek().startswith(b"--- "):
            section.names = self._names()
            section.hunks = self._hunks()
        elif self._peek() and not self._peek().startswith(b"diff --git "):
            self._fail_unexpected()
        return self._finish(section)

    def _plain_section(self) -> FilePatch:
        if not (self._peek().startswith(b"--- ") and self._peek(1).startswith(b"+++ ")):
            self._fail_unexpected()
        section = Section(self._place, git_line=None)
        section.names = self._names()
        section.hunks = self._hunks()
        return self._finish(section)

    def _finish(self, section: Section) -> FilePatch:
        patch = resolve(section)
        check_hunks(patch, file=self._file)
        return patch

    def _keyword(self) -> str | None:
        line = self._peek()
        return next((word for word in EXTENDED if line.startswith(word.encode() + b" ")), None)

    def _names(self) -> Names:
        old_place, old = self._place, self._take()
        new_place, new = self._place, self._take()
        if not new.startswith(b"+++ "):
            new_place.fail("a `+++` line is due after `---`", hint=_RECREATE)
        return Names(old_place, self._text(old, old_place)[4:], new_place, self._text(new, new_place)[4:])

    def _text(self, line: bytes, place: Place) -> bytes:
        if line.endswith(b"\r\n"):
            place.fail("the line ends in CRLF, so the patch was damaged", hint="convert the patch's own lines to LF")
        return line[:-1]

    def _hunks(self) -> tuple[Hunk, ...]:
        hunks = []
        while self._peek().startswith(b"@@"):
            hunks.append(self._hunk())
        if not hunks:
            self._place.fail("a hunk (`@@`) is due here", hint=_RECREATE)
        if self._peek() and not self._peek().startswith((b"diff --git ", b"--- ")):
            self._fail_unexpected(after=hunks[-1])
        return tuple(hunks)

    def _hunk(self) -> Hunk:
        place = self._place
        match = _HUNK.fullmatch(self._take())
        if match is None:
            place.fail("not a hunk's header", hint="it is written `@@ -LINE,COUNT +LINE,COUNT @@`, and ends in LF")
        old_start, old_count, new_start, new_count = (1 if group is None else int(group) for group in match.groups())
        lines = self._body(place, old_count, new_count)
        return Hunk(place.line, old_start, old_count, new_start, new_count, tuple(lines))

    def _body(self, header: Place, old_count: int, new_count: int) -> list[Line]:
        lines: list[Line] = []
        old_left, new_left = old_count, new_count
        while old_left or new_left or self._peek().startswith(b"\\"):
            line = self._peek()
            kind = line[:1]
            old_left -= kind in (b" ", b"-") and line != b""
            new_left -= kind in (b" ", b"+") and line != b""
            if kind == b"\\":
                self._end_without_newline(lines)
            elif kind not in (b" ", b"-", b"+") or old_left < 0 or new_left < 0:
                self._fail_body(header, lines, old_count=old_count, new_count=new_count)
            else:
                lines.append(Line(kind.decode(), line[1:]))
            self._index += 1
        return lines

    def _end_without_newline(self, lines: list[Line]) -> None:
        if self._peek() != _NO_NEWLINE or not lines or not lines[-1].content.endswith(b"\n"):
            self._place.fail("a misplaced or misspelt `\\` line", hint="it is `\\ No newline at end of file`, once")
        if lines[-1].content == b"\n":
            self._place.fail("an empty line without a newline is no line", hint="make the patch again with `git diff`")
        lines[-1] = Line(lines[-1].kind, lines[-1].content[:-1])

    def _fail_body(self, header: Place, lines: list[Line], *, old_count: int, new_count: int) -> NoReturn:
        if self._peek().rstrip(b"\r\n") == b"" and self._peek():
            self._place.fail(
                "an empty line inside a hunk", hint="an editor stripped the space that starts an empty context line"
            )
        old = sum(line.kind != "+" for line in lines)
        new = sum(line.kind != "-" for line in lines)
        self._place.fail(
            f"wrong line count: the hunk at line {header.line} declares {old_count} old and {new_count} new lines,"
            f" but its lines end or turn here after {old} and {new}",
            hint=_RECREATE,
        )

    def _fail_unexpected(self, *, after: Hunk | None = None) -> NoReturn:
        line = self._peek()
        if line.startswith(_BINARY):
            self._place.fail("a binary hunk", hint="patches change text only; leave binary files to the source")
        if after is not None and line[:1] in (b" ", b"+", b"-", b"\\", b"\n", b"\r"):
            self._place.fail(
                f"a line after the declared end of the hunk at line {after.line}"
                f" ({after.old_count} old and {after.new_count} new lines)",
                hint="correct the hunk's counts, or remove the line",
            )
        shown = line.rstrip(b"\r\n")[:60].decode("utf-8", "backslashreplace")
        self._place.fail(f"unexpected line {shown!r}", hint="a patch is a header, a blank line and a unified diff")
