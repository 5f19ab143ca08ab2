"""A series and its work tree, for the tests of editing patches."""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path

from patch_support import LINES, make_series, make_tree

from forkwheel.patching.lenient import Left
from forkwheel.patching.refresh import Refreshed, refresh
from forkwheel.patching.series import Series, load_series
from forkwheel.patching.worktree import open_work, read_work
from forkwheel.tree import Tree

TODAY = datetime.date(2026, 11, 29)
LONG = LINES + b"".join(b"row %d\n" % number for number in range(21, 61))


def diff_at(line: int, old: bytes, new: bytes, *, content: bytes = LONG) -> bytes:
    """Return a diff of f.txt that replaces one line."""
    lines = content.splitlines(keepends=True)
    before, after = lines[line - 4 : line - 1], lines[line : line + 3]
    body = b"".join(b" " + text for text in before) + b"-" + old + b"\n+" + new + b"\n"
    head = b"--- a/f.txt\n+++ b/f.txt\n@@ -%d,7 +%d,7 @@\n" % (line - 3, line - 3)
    return head + body + b"".join(b" " + text for text in after)


class Bench:
    """A tree, a series of three patches of one file, and a folder for the work tree."""

    def __init__(self, root: Path) -> None:
        self.tree: Tree = make_tree(root / "tree", {"f.txt": LONG, "g.txt": b"g\n"})
        self.folder = root / "series"
        self.work = root / "build" / "work"
        diffs = {
            "a.patch": diff_at(5, b"line 5", b"five"),
            "b.patch": diff_at(25, b"row 25", b"ROW 25"),
            "c.patch": diff_at(45, b"row 45", b"ROW 45"),
        }
        make_series(self.folder, diffs)

    @property
    def series(self) -> Series:
        return load_series(self.folder, allow_todo=True)

    def open(self, name: str) -> tuple[Left, ...]:
        return open_work(self.series, self.tree, self.work, package="demo", name=name, epoch=1_700_000_000)[1]

    def replace(self, old: bytes, new: bytes, file: str = "f.txt") -> None:
        target = self.work / file
        content = target.read_bytes()
        assert old in content
        target.write_bytes(content.replace(old, new, 1))

    def refresh(self) -> Refreshed:
        return refresh(read_work(self.work), self.series, self.tree, today=TODAY)

    def bytes_of(self) -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in self.folder.iterdir()}


def git(bench: Bench, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=bench.work, check=True, capture_output=True, text=True).stdout
