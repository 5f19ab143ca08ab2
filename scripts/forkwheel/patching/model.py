r"""What a patch is made of: header, files, hunks and lines, as frozen values.

Contents are bytes. A line's bytes include its newline; a line without one stands where
the patch says ``\ No newline at end of file``. Paths are POSIX and relative to the tree,
decoded with ``surrogateescape``. Every line number counts from 1 in the patch file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from packaging.version import Version

CONTEXT = 3
"""Lines of context before and after a change, as ``diff -u`` gives them."""

CREATE = "create"
DELETE = "delete"
MODIFY = "modify"
RENAME = "rename"


@dataclass(frozen=True)
class Line:
    """One line of a hunk; ``kind`` is a space (context), ``-`` (removed) or ``+`` (added)."""

    kind: str
    content: bytes


@dataclass(frozen=True)
class Hunk:
    """One hunk; ``line`` is that of its ``@@``, starts and counts are as written there."""

    line: int
    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[Line, ...]

    @cached_property
    def old(self) -> tuple[bytes, ...]:
        """The lines that the hunk expects: context and removed."""
        return tuple(line.content for line in self.lines if line.kind != "+")

    @cached_property
    def new(self) -> tuple[bytes, ...]:
        """The lines that the hunk leaves: context and added."""
        return tuple(line.content for line in self.lines if line.kind != "-")

    @property
    def old_index(self) -> int:
        """Index (from 0) in the old file of the first of ``old``."""
        return self.old_start - 1 if self.old_count else self.old_start

    @property
    def new_index(self) -> int:
        """Index (from 0) in the new file of the first of ``new``."""
        return self.new_start - 1 if self.new_count else self.new_start

    @property
    def leading(self) -> int:
        """How many lines of context stand before the first change."""
        return _context_run(self.lines)

    @property
    def trailing(self) -> int:
        """How many lines of context stand after the last change."""
        return _context_run(self.lines[::-1])


def _context_run(lines: Sequence[Line]) -> int:
    return next((count for count, line in enumerate(lines) if line.kind != " "), len(lines))


@dataclass(frozen=True)
class FilePatch:
    """What a patch does to one file.

    ``line`` is the section's first. ``old_path`` is None for a creation, ``new_path`` for a
    deletion. A mode is None where the patch does not state it.
    """

    line: int
    operation: str
    old_path: str | None
    new_path: str | None
    old_mode: str | None
    new_mode: str | None
    hunks: tuple[Hunk, ...]

    @property
    def path(self) -> str:
        """The path that names the file: the one after the patch, but for a deletion."""
        path = self.new_path if self.new_path is not None else self.old_path
        assert path is not None
        return path


@dataclass(frozen=True)
class Header:
    """The fields before the diff; ``text`` is their bytes with the blank line that ends them.

    ``lines`` gives each field's line. ``applied_upstream`` and ``applied_commit`` are the
    release and the commit that took the patch, each None where it is not known. ``todo`` are the
    fields that are yet to be filled in.
    """

    description: str
    origin: str
    forwarded: str
    last_update: date
    applied_upstream: Version | None
    applied_commit: str | None
    drop_after: Version | None
    requires: tuple[str, ...]
    lines: tuple[tuple[str, int], ...]
    text: bytes
    todo: tuple[str, ...] = ()

    def line_of(self, field: str) -> int:
        """Return the line of a field that the header has."""
        return dict(self.lines)[field]


def split_lines(content: bytes) -> list[bytes]:
    """Split at newlines alone, keeping them: a carriage return or form feed is content."""
    lines = content.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])
