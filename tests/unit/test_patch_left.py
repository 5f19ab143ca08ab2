"""What could not be brought into a work tree is never lost, and closing loses no work."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from patch_bench import Bench, diff_at, git
from patch_support import make_series, make_tree

from forkwheel.errors import PatchError
from forkwheel.patching.apply import check_series
from forkwheel.patching.left import LEFT
from forkwheel.patching.lenient import Left
from forkwheel.patching.worktree import close_work, read_work


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def bench_with_a_conflict(bench: Bench) -> Left:
    """Open b.patch, whose only hunk no longer fits."""
    bench.open("a.patch")
    bench.replace(b"row 24\n", b"changed 24\n")
    bench.refresh()
    (left,) = bench.open("b.patch")
    return left


def test_what_is_left_is_written_where_git_does_not_see_it(bench: Bench) -> None:
    left = bench_with_a_conflict(bench)

    text = (bench.work / LEFT).read_text()
    assert "# b.patch:8: f.txt: the file's lines differ\n" in text
    assert text.endswith(left.diff.decode())
    assert git(bench, "status", "--short") == ""


def test_nothing_is_written_back_while_hunks_are_left(bench: Bench) -> None:
    bench_with_a_conflict(bench)
    bench.replace(b"row 26\n", b"ROW 26\n")
    before = bench.bytes_of()

    with pytest.raises(PatchError, match=r"LEFT\.patch holds hunks of b\.patch"):
        bench.refresh()

    assert bench.bytes_of() == before
    bench.replace(b"row 25", b"ROW 25")
    (bench.work / LEFT).unlink()
    assert bench.refresh().files == ("f.txt",)
    (change,) = check_series(bench.series, bench.tree)
    assert b"changed 24\nROW 25\nROW 26\n" in (change.content or b"")


def test_opening_a_patch_with_left_hunks_again_loses_nothing(bench: Bench) -> None:
    left = bench_with_a_conflict(bench)
    before = bench.bytes_of()
    (bench.work / LEFT).unlink()

    assert bench.open("b.patch") == (left,)
    assert bench.bytes_of() == before
    close_work(read_work(bench.work))
    assert bench.bytes_of() == before


def test_each_left_part_says_why(bench: Bench) -> None:
    spoilt = diff_at(25, b"row 25", b"ROW 25") + b"".join(diff_at(45, b"r 45", b"R").splitlines(keepends=True)[2:])
    created = b"--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n+x\n"
    gone = b"--- a/gone.txt\n+++ b/gone.txt\n@@ -1 +1 @@\n-x\n+y\n"
    shutil.rmtree(bench.folder)
    make_series(bench.folder, {"a.patch": spoilt + gone + created % b"g.txt" + created % b"new.txt"})

    left = bench.open("a.patch")

    assert [(part.path, part.line, part.reason) for part in left] == [
        ("f.txt", 17, "the file's lines differ"),
        ("gone.txt", 26, "the tree has no file gone.txt"),
        ("g.txt", 31, "cannot be created: g.txt: the tree has a file g.txt"),
    ]
    assert (bench.work / "new.txt").read_bytes() == b"x\n"
    assert b"ROW 25" in (bench.work / "f.txt").read_bytes()


def test_a_mode_that_the_patch_does_not_change_is_kept(bench: Bench) -> None:
    (bench.tree.root / "f.txt").chmod(0o755)
    bench.tree = make_tree(bench.tree.root, {})
    index = b"diff --git a/f.txt b/f.txt\nindex 1111111..2222222 100644\n"
    shutil.rmtree(bench.folder)
    make_series(bench.folder, {"a.patch": index + diff_at(5, b"line 5", b"five")})

    assert bench.open("a.patch") == ()

    bench.refresh()
    (change,) = check_series(bench.series, bench.tree)
    assert change.after is not None
    assert change.after.mode == "100755"


def test_a_source_with_a_file_of_the_name_for_what_is_left_is_refused(bench: Bench) -> None:
    bench.tree = make_tree(bench.tree.root, {LEFT: b"x\n"})

    with pytest.raises(PatchError, match=r"LEFT\.patch is a file of the source"):
        bench.open("a.patch")


def test_a_closed_work_tree_is_gone(bench: Bench) -> None:
    bench.open("b.patch")

    close_work(read_work(bench.work))

    assert list(bench.work.parent.iterdir()) == []


def test_a_work_tree_with_unsaved_work_is_not_closed(bench: Bench) -> None:
    bench.open("b.patch")
    bench.replace(b"ROW 25", b"Row 25")

    with pytest.raises(PatchError, match=r"holds unsaved work on b\.patch"):
        close_work(read_work(bench.work))

    assert b"Row 25" in (bench.work / "f.txt").read_bytes()
