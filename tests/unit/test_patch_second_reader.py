"""unidiff must see in a patch what the strict reader saw."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from patch_support import EDIT, read_files

from forkwheel.errors import PatchError
from forkwheel.patching.model import FilePatch, Line, split_lines
from forkwheel.patching.second_reader import check_agreement


def disagreement(files: tuple[FilePatch, ...], diff: bytes = EDIT) -> str:
    with pytest.raises(PatchError) as caught:
        check_agreement(files, split_lines(diff), file=Path("x.patch"), first_line=1)
    return caught.value.message


def test_two_equal_readings_agree() -> None:
    check_agreement(read_files(EDIT), split_lines(EDIT), file=Path("x.patch"), first_line=1)


def test_each_difference_is_named() -> None:
    (file,) = read_files(EDIT)
    (hunk,) = file.hunks
    other_line = replace(hunk, lines=(Line(" ", b"another\n"), *hunk.lines[1:]))
    other_kind = replace(hunk, lines=(*hunk.lines[:4], Line(" ", b"ten\n"), *hunk.lines[5:]))

    assert "sees 1 files where there are 2" in disagreement((file, file))
    assert "sees 1 hunks of f.txt, not 2" in disagreement((replace(file, hunks=(hunk, hunk)),))
    assert "reads the name as 'f.txt', not 'g.txt'" in disagreement((replace(file, new_path="g.txt"),))
    assert "numbers as (7, 7, 7, 7)" in disagreement((replace(file, hunks=(replace(hunk, old_start=8),)),))
    assert "other lines" in disagreement((replace(file, hunks=(other_line,)),))
    assert "other lines" in disagreement((replace(file, hunks=(other_kind,)),))
    assert "cannot read" in disagreement((file,), EDIT.replace(b"+++ b/f.txt\n", b""))
