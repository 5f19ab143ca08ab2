"""Small trees and series for the tests of patching."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from forkwheel.errors import PatchError
from forkwheel.patching.model import FilePatch
from forkwheel.patching.series import Series, load_series, parse_patch
from forkwheel.tree import Tree, scan

HEADER = b"Description: a test\nOrigin: tests\nForwarded: no\nLast-Update: 2026-01-02\n\n"
HEADER_LINES = 5
LINES = b"".join(b"line %d\n" % number for number in range(1, 21))
"""A file of twenty distinct lines."""

EDIT = (
    b"--- a/f.txt\n+++ b/f.txt\n@@ -7,7 +7,7 @@\n"
    b" line 7\n line 8\n line 9\n-line 10\n+ten\n line 11\n line 12\n line 13\n"
)
"""A diff that changes line 10 of ``LINES`` in f.txt."""


def make_tree(root: Path, files: Mapping[str, bytes], *, executable: tuple[str, ...] = ()) -> Tree:
    """Write files and describe them."""
    for name, content in files.items():
        target = root / os.fsdecode(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(0o755 if name in executable else 0o644)
    root.mkdir(parents=True, exist_ok=True)
    return scan(root)


def filled_in(patch: bytes) -> bytes:
    """Answer the fields of a new patch's header."""
    return re.sub(rb"Forwarded: TODO .*", b"Forwarded: no", patch).replace(b"TODO ", b"")


def make_series(folder: Path, diffs: Mapping[str, bytes], *, header: bytes = HEADER) -> Series:
    """Write one patch for each diff, and load them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, diff in diffs.items():
        (folder / name).write_bytes(header + diff)
    (folder / "series").write_text("".join(f"{name}\n" for name in diffs))
    return load_series(folder)


def read_files(diff: bytes) -> tuple[FilePatch, ...]:
    """Parse a diff under the usual header."""
    return parse_patch(HEADER + diff, Path("x.patch")).files


def refused(diff: bytes) -> PatchError:
    """Return the error with which a diff is refused by the reader."""
    with pytest.raises(PatchError) as caught:
        read_files(diff)
    return caught.value
