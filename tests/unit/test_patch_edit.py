"""Editing a patch in a work tree, and writing it back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from patch_bench import LONG, Bench, diff_at, git
from patch_support import HEADER, LINES, filled_in, make_series, make_tree

from forkwheel.errors import ForkwheelError, PatchError, ToolchainError, UsageError
from forkwheel.patching import pending, worktree
from forkwheel.patching.apply import check_series
from forkwheel.patching.left import LEFT
from forkwheel.patching.refresh import Refreshed
from forkwheel.patching.series import load_series
from forkwheel.patching.worktree import read_work
from forkwheel.store import write_whole


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_the_work_tree_shows_the_patch_as_what_is_not_committed(bench: Bench) -> None:
    bench.open("b.patch")

    assert git(bench, "log", "--format=%s").splitlines() == ["a.patch", "demo: the unpatched source"]
    assert "-row 25\n+ROW 25\n" in git(bench, "diff")
    assert git(bench, "status", "--short").split() == ["M", "f.txt"]
    assert b"row 45" in (bench.work / "f.txt").read_bytes()


def test_the_same_series_gives_the_same_commits(bench: Bench) -> None:
    bench.open("c.patch")
    first = git(bench, "rev-parse", "HEAD")
    bench.open("c.patch")

    assert git(bench, "rev-parse", "HEAD") == first


def test_the_persons_git_changes_nothing(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "pre-commit").write_text("#!/bin/sh\nexit 1\n")
    (hooks / "pre-commit").chmod(0o755)
    configuration = tmp_path / "gitconfig"
    configuration.write_text(
        f"[core]\nautocrlf = true\nhooksPath = {hooks}\nexcludesFile = {tmp_path}/ignore\n"
        "[commit]\ngpgSign = true\n[diff]\nnoprefix = true\nalgorithm = patience\n[user]\nname =\n"
    )
    (tmp_path / "ignore").write_text("*\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    before = bench.bytes_of()

    bench.open("b.patch")
    done = bench.refresh()

    assert not done.changed
    assert bench.bytes_of() == before
    assert not (tmp_path / "elsewhere").exists()


def test_an_unchanged_patch_is_written_back_to_the_same_bytes(bench: Bench) -> None:
    before = bench.bytes_of()

    for name in ("a.patch", "b.patch", "c.patch"):
        bench.open(name)
        assert bench.refresh() == Refreshed(name, False, ("f.txt",), (), None)

    assert bench.bytes_of() == before


def test_a_change_is_written_to_that_patch_alone_with_its_date(bench: Bench) -> None:
    before = bench.bytes_of()
    bench.open("b.patch")
    bench.replace(b"ROW 25", b"Row 25")

    done = bench.refresh()

    after = bench.bytes_of()
    assert (done.changed, done.renumbered, done.broken) == (True, (), None)
    assert {name for name in after if after[name] != before[name]} == {"b.patch"}
    assert after["b.patch"].startswith(HEADER.replace(b"2026-01-02", b"2026-11-29"))
    assert b"+Row 25\n" in after["b.patch"]
    assert bench.refresh().changed is False


def test_later_patches_that_moved_get_their_new_line_numbers(bench: Bench) -> None:
    before = bench.bytes_of()
    bench.open("a.patch")
    bench.replace(b"five\n", b"five\nand a half\n")

    done = bench.refresh()

    after = bench.bytes_of()
    assert done.renumbered == ("b.patch", "c.patch")
    assert after["b.patch"] == before["b.patch"].replace(b"-22,7 +22,7", b"-23,7 +23,7")
    (change,) = check_series(bench.series, bench.tree)
    assert change.content == LONG.replace(b"line 5\n", b"five\nand a half\n").replace(b"row 25", b"ROW 25").replace(
        b"row 45", b"ROW 45"
    )


def test_a_later_patch_follows_its_own_lines_where_others_look_the_same(tmp_path: Path) -> None:
    block = b"".join(b"block %d\n" % number for number in range(10))
    bench = Bench(tmp_path)
    bench.tree = make_tree(tmp_path / "tree", {"f.txt": LINES + block * 6})
    content = LINES + block * 6
    shutil.rmtree(bench.folder)
    diffs = {
        "a.patch": diff_at(5, b"line 5", b"five", content=content),
        "b.patch": diff_at(46, b"block 5", b"BLOCK", content=content),
    }
    make_series(bench.folder, diffs)
    bench.open("a.patch")
    bench.replace(b"five\n", b"five\n" + b"added\n" * 10)

    done = bench.refresh()

    assert done.renumbered == ("b.patch",)
    (change,) = check_series(bench.series, bench.tree)
    assert (
        change.content
        == (LINES.replace(b"line 5\n", b"five\n" + b"added\n" * 10) + block * 2)
        + block.replace(b"block 5", b"BLOCK")
        + block * 3
    )


def test_a_later_patch_that_no_longer_applies_is_named_and_mended_the_same_way(bench: Bench) -> None:
    bench.open("a.patch")
    bench.replace(b"row 24\n", b"changed 24\n")

    done = bench.refresh()
    assert done.broken is not None
    assert (done.broken.patch, done.broken.line) == ("b.patch", 8)
    assert "`patches --edit b.patch`" in done.broken.hint

    (left,) = bench.open("b.patch")
    assert (left.path, left.line, left.reason) == ("f.txt", 8, "the file's lines differ")
    assert b"-row 25\n+ROW 25\n" in left.diff
    bench.replace(b"row 25", b"ROW 25")
    (bench.work / LEFT).unlink()
    assert bench.refresh().broken is None
    (change,) = check_series(bench.series, bench.tree)
    assert b"changed 24\nROW 25\n" in (change.content or b"")


def test_what_still_fits_of_a_broken_patch_is_brought_into_the_work_tree(bench: Bench) -> None:
    both = diff_at(25, b"row 25", b"ROW 25") + b"\n".join(diff_at(45, b"row 45", b"ROW 45").split(b"\n")[2:])
    make_series(
        bench.folder,
        {"a.patch": diff_at(5, b"line 5", b"five"), "b.patch": both, "c.patch": diff_at(55, b"row 55", b"x")},
    )
    bench.open("a.patch")
    bench.replace(b"five\n", b"five\nfive and a half\n")
    bench.replace(b"row 24\n", b"changed 24\n")
    assert bench.refresh().broken is not None

    (left,) = bench.open("b.patch")

    assert b"ROW 45" not in left.diff
    assert b"ROW 45" in (bench.work / "f.txt").read_bytes()
    assert b"ROW 25" not in (bench.work / "f.txt").read_bytes()


def test_a_new_patch_is_listed_last_and_waits_for_its_header(bench: Bench) -> None:
    bench.open("d.patch")
    bench.replace(b"g\n", b"G\n", "g.txt")
    (bench.work / "new").mkdir()
    (bench.work / "new/file").write_bytes(b"text\n")

    done = bench.refresh()

    assert (done.patch, done.changed, done.files) == ("d.patch", True, ("g.txt", "new/file"))
    assert (bench.folder / "series").read_text() == "a.patch\nb.patch\nc.patch\nd.patch\n"
    with pytest.raises(PatchError, match=r"d\.patch:1: `Description` is still to be filled in"):
        load_series(bench.folder)

    content = (bench.folder / "d.patch").read_bytes()
    (bench.folder / "d.patch").write_bytes(filled_in(content))
    bench.replace(b"G\n", b"GG\n", "g.txt")
    assert bench.refresh().changed
    assert {change.path for change in check_series(load_series(bench.folder), bench.tree)} == {
        "f.txt",
        "g.txt",
        "new/file",
    }


def test_a_series_without_a_newline_at_its_end_takes_a_new_patch(bench: Bench) -> None:
    (bench.folder / "series").write_text("a.patch\nb.patch\nc.patch")
    bench.open("d.patch")
    bench.replace(b"g\n", b"G\n", "g.txt")
    bench.refresh()

    assert [patch.name for patch in bench.series.patches] == ["a.patch", "b.patch", "c.patch", "d.patch"]


def test_deletions_modes_and_renames_are_written_back(bench: Bench) -> None:
    bench.open("d.patch")
    (bench.work / "g.txt").rename(bench.work / "h.txt")
    (bench.work / "f.txt").chmod(0o755)

    assert bench.refresh().files == ("f.txt", "h.txt")

    changes = {change.path: change.after for change in check_series(bench.series, bench.tree)}
    assert changes["g.txt"] is None
    assert changes["f.txt"] is not None
    assert changes["f.txt"].mode == "100755"


def edit_another_patch(bench: Bench) -> None:
    file = bench.folder / "c.patch"
    file.write_bytes(file.read_bytes().replace(b"ROW 45", b"Row 45"))


def edit_this_patch(bench: Bench) -> None:
    file = bench.folder / "b.patch"
    file.write_bytes(file.read_bytes().replace(b"ROW 25", b"Row 25"))


def reorder(bench: Bench) -> None:
    (bench.folder / "series").write_text("b.patch\na.patch\nc.patch\n")


@pytest.mark.parametrize("change", [edit_another_patch, edit_this_patch, reorder])
def test_work_is_not_written_over_a_series_that_changed(bench: Bench, change: object) -> None:
    bench.open("b.patch")
    bench.replace(b"ROW 25", b"ROW  25")
    change(bench)  # type: ignore[operator]
    before = bench.bytes_of()

    with pytest.raises(PatchError, match="changed since"):
        bench.refresh()

    assert bench.bytes_of() == before


def test_work_is_not_written_back_for_another_source(bench: Bench, tmp_path: Path) -> None:
    bench.open("b.patch")
    bench.tree = make_tree(tmp_path / "other", {"f.txt": LONG, "g.txt": b"other\n"})

    with pytest.raises(PatchError, match="the source of demo changed"):
        bench.refresh()


def test_headers_may_be_edited_while_the_work_tree_is_open(bench: Bench) -> None:
    bench.open("b.patch")
    file = bench.folder / "b.patch"
    file.write_bytes(file.read_bytes().replace(b"a test", b"a better text"))
    bench.replace(b"ROW 25", b"Row 25")
    bench.refresh()

    assert file.read_bytes().startswith(b"Description: a better text\n")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda work: (work / "x.bin").write_bytes(b"\0"), "is binary"),
        (lambda work: (work / "f.txt.orig").write_bytes(b"x\n"), "left behind"),
        (lambda work: (work / "link").symlink_to("f.txt"), "symbolic link"),
        (lambda work: (work / "f.txt").write_bytes(LONG.replace(b"line 5\n", b"five\n")), "differs in nothing"),
        (lambda work: (work / "a\\b").write_bytes(b"x\n"), "backslash"),
    ],
)
def test_what_cannot_be_a_patch_is_refused(bench: Bench, spoil: object, words: str) -> None:
    bench.open("b.patch")
    spoil(bench.work)  # type: ignore[operator]
    before = bench.bytes_of()

    with pytest.raises(PatchError, match=words):
        bench.refresh()

    assert bench.bytes_of() == before


def test_unsaved_work_is_not_replaced(bench: Bench) -> None:
    bench.open("b.patch")
    bench.replace(b"ROW 25", b"Row 25")

    with pytest.raises(PatchError, match=r"holds unsaved work on b\.patch"):
        bench.open("c.patch")

    bench.refresh()
    bench.open("c.patch")
    assert read_work(bench.work).patch == "c.patch"


def test_a_folder_that_is_something_else_is_not_replaced(bench: Bench) -> None:
    bench.work.mkdir(parents=True)
    (bench.work / "mine").write_text("precious")

    with pytest.raises(UsageError, match="no open work tree"):
        bench.open("b.patch")

    assert (bench.work / "mine").read_text() == "precious"


def test_an_interrupted_opening_leaves_nothing_in_the_way(bench: Bench) -> None:
    rests = [bench.work.with_name(f".{bench.work.name}.{state}") for state in ("new", "old")]
    for rest in rests:
        (rest / "left").mkdir(parents=True)

    bench.open("b.patch")

    assert sorted(bench.work.parent.iterdir()) == [bench.work]
    assert not (bench.work / "left").exists()


def test_a_kill_while_a_work_tree_is_replaced_needs_no_clean_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.open("b.patch")

    def die(folder: Path) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(worktree, "remove_tree", die)
        with pytest.raises(Killed):
            bench.open("c.patch")

    assert read_work(bench.work).patch == "c.patch"
    bench.open("a.patch")
    assert sorted(bench.work.parent.iterdir()) == [bench.work]


def test_a_damaged_record_is_one_error(bench: Bench) -> None:
    bench.open("b.patch")
    (bench.work / ".git/forkwheel.json").write_text("{")

    with pytest.raises(UsageError, match="is damaged"):
        bench.refresh()


def test_missing_git_is_one_error(bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ToolchainError, match="git is not installed"):
        bench.open("b.patch")


class Killed(BaseException):
    """Stands for a kill: nothing catches it."""


@pytest.mark.parametrize("moment", range(8))
def test_a_refresh_that_is_killed_leaves_the_old_series_or_the_new(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    old = bench.series.patches
    bench.open("a.patch")
    bench.replace(b"five\n", b"five\nand a half\n")
    expected = Bench(bench.folder.parent / "copy")
    expected.open("a.patch")
    expected.replace(b"five\n", b"five\nand a half\n")
    expected.refresh()
    calls = iter(range(100))

    def write_or_die(file: Path, content: bytes) -> None:
        if next(calls) == moment:
            raise Killed
        write_whole(file, content)

    with monkeypatch.context() as patch:
        patch.setattr(pending, "write_whole", write_or_die)
        patch.setattr(worktree, "write_whole", write_or_die)
        try:
            bench.refresh()
            killed = False
        except Killed:
            killed = True

    assert killed == (moment < 6)
    found = [patch.content for patch in bench.series.patches]
    assert found in ([patch.content for patch in old], [patch.content for patch in expected.series.patches])
    bench.refresh()
    assert [patch.content for patch in bench.series.patches] == [patch.content for patch in expected.series.patches]


def test_a_record_of_a_newer_format_is_not_touched(bench: Bench) -> None:
    record = bench.folder / pending._RECORD
    record.write_text('{"format": 2}')

    with pytest.raises(ForkwheelError, match="has format 2"):
        load_series(bench.folder)
