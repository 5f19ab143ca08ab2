"""Verdicts on another revision, case by case: what a hunk's surroundings can hide, and whole files."""

from __future__ import annotations

from pathlib import Path

import pytest
from patch_support import EDIT, HEADER, LINES, make_series, make_tree

from forkwheel.patching.overlay import Overlay
from forkwheel.upstream.judged import JudgedPatch
from forkwheel.upstream.matrix import Column, cell, courses, needs_work
from forkwheel.upstream.sites import Stretch, Text, is_mixture
from forkwheel.upstream.verdict import judge_series


def judge(
    folder: Path,
    diff: bytes | dict[str, bytes],
    base: dict[str, bytes],
    new: dict[str, bytes],
    *,
    version: str | None = None,
    header: bytes = HEADER,
    executable: tuple[str, ...] = (),
) -> tuple[JudgedPatch, ...]:
    diffs = diff if isinstance(diff, dict) else {"a.patch": diff}
    series = make_series(folder / "series", diffs, header=header)
    tree = make_tree(folder / "base", base)
    after = make_tree(folder / "new", new, executable=executable)
    return judge_series(series, tree, Overlay(after), version=version)


def one(judged: tuple[JudgedPatch, ...]) -> str:
    return str(judged[0].files[0].hunks[0].verdict)


NAMES = b"--- a/f.txt\n+++ b/f.txt\n"
ABOVE = b" line 7\n line 8\n line 9\n"
INSERTION = NAMES + b"@@ -7,6 +7,7 @@\n" + ABOVE + b"+import sm120\n line 10\n line 11\n line 12\n"
REMOVAL = NAMES + b"@@ -7,7 +7,6 @@\n" + ABOVE + b"-line 10\n line 11\n line 12\n line 13\n"
REMOVAL_AT_END = b"--- a/f.txt\n+++ b/f.txt\n@@ -16,5 +16,3 @@\n line 16\n line 17\n line 18\n-line 19\n-line 20\n"


def test_what_upstream_added_elsewhere_is_not_added_twice(tmp_path: Path) -> None:
    new = LINES.replace(b"line 2\n", b"line 2\nimport sm120\n")
    judged = judge(tmp_path, INSERTION, {"f.txt": LINES}, {"f.txt": new})
    assert one(judged) == "ambiguous"
    assert "line 3" in judged[0].files[0].reason


def test_what_stood_elsewhere_before_is_no_doubt(tmp_path: Path) -> None:
    base = LINES.replace(b"line 18\n", b"import sm120\n")
    judged = judge(tmp_path, INSERTION, {"f.txt": base}, {"f.txt": base + b"more\n"})
    assert one(judged) == "clean"


def test_what_upstream_moved_is_not_removed(tmp_path: Path) -> None:
    new = LINES.replace(b"line 10\n", b"") + b"line 10\n"
    assert one(judge(tmp_path, REMOVAL, {"f.txt": LINES}, {"f.txt": new})) == "ambiguous"


def test_a_removal_that_upstream_did_is_taken(tmp_path: Path) -> None:
    new = LINES.replace(b"line 10\n", b"")
    assert one(judge(tmp_path, REMOVAL, {"f.txt": LINES}, {"f.txt": new})) == "already-applied"


def test_context_alone_does_not_prove_a_removal_at_the_end(tmp_path: Path) -> None:
    new = LINES.replace(b"line 19\n", b"line nineteen\n")
    assert one(judge(tmp_path, REMOVAL_AT_END, {"f.txt": LINES}, {"f.txt": new})) == "conflict"


def test_a_removal_at_the_end_that_upstream_did_is_taken(tmp_path: Path) -> None:
    new = LINES.replace(b"line 19\nline 20\n", b"")
    assert one(judge(tmp_path, REMOVAL_AT_END, {"f.txt": LINES}, {"f.txt": new})) == "already-applied"


def test_a_hunk_at_the_end_no_longer_applies_where_upstream_goes_on(tmp_path: Path) -> None:
    assert one(judge(tmp_path, REMOVAL_AT_END, {"f.txt": LINES}, {"f.txt": LINES + b"more\n"})) == "conflict"


def test_lines_that_repeat_their_surroundings_prove_nothing(tmp_path: Path) -> None:
    base = b"a\n" * 4 + b"b\n" * 4
    diff = b"--- a/f.txt\n+++ b/f.txt\n@@ -2,6 +2,7 @@\n a\n a\n a\n+a\n b\n b\n b\n"
    for new in (b"a\n" * 5 + b"b\n" * 4, b"x\n" + base):
        folder = tmp_path / str(len(new))
        assert one(judge(folder, diff, {"f.txt": base}, {"f.txt": new})) == "ambiguous"


def test_the_twins_own_result_is_seen_though_the_others_stand(tmp_path: Path) -> None:
    """Without the file that the patch was made for, the other guard would be an `offset`."""
    guard = b"x\ny\nz\nOLD\nu\nv\nw\n"
    base = b"one\n" + guard + b"two\n" + guard
    diff = b"--- a/f.txt\n+++ b/f.txt\n@@ -2,7 +2,7 @@\n x\n y\n z\n-OLD\n+NEW\n u\n v\n w\n"
    new = base.replace(b"OLD", b"NEW", 1)
    assert one(judge(tmp_path, diff, {"f.txt": base}, {"f.txt": new})) == "already-applied"


GUARD = b"x\ny\nz\nOLD\nu\nv\nw\n"
GUARD_DIFF = NAMES + b"@@ -2,7 +2,7 @@\n x\n y\n z\n-OLD\n+NEW\n u\n v\n w\n"


def test_what_was_there_before_is_no_proof_that_upstream_took_it(tmp_path: Path) -> None:
    base = b"one\n" + GUARD + b"two\n" + GUARD.replace(b"OLD", b"NEW")
    new = base.replace(b"OLD", b"OTHER")
    assert one(judge(tmp_path, GUARD_DIFF, {"f.txt": base}, {"f.txt": new})) == "conflict"


def test_twins_are_taken_where_all_are_though_everything_around_them_changed(tmp_path: Path) -> None:
    diff = GUARD_DIFF + b"@@ -10,7 +10,7 @@\n x\n y\n z\n-OLD\n+NEW\n u\n v\n w\n"
    base = b"one\n" + GUARD + b"two\n" + GUARD + b"three\n"
    fixed = GUARD.replace(b"OLD", b"NEW")
    new = b"1\n" + fixed + b"2\n" + fixed + b"3\n"
    judged = judge(tmp_path, diff, {"f.txt": base}, {"f.txt": new})
    assert str(judged[0]) == "already-applied"


@pytest.mark.parametrize(
    ("region", "is_one"),
    [
        ([b"A", b"b"], True),
        ([b"b", b"A"], True),
        ([b"B", b"A"], False),
        ([b"a", b"b", b"A", b"B"], True),
        ([b"a", b"x"], False),
        ([], True),
    ],
)
def test_a_mixture_keeps_both_orders(region: list[bytes], is_one: bool) -> None:
    assert is_mixture(region, Stretch((b"a", b"b"), (b"A", b"B"), is_context=False)) == is_one


def test_places_are_found_by_the_rarest_line() -> None:
    text = Text((b"a\n", b"b\n", b"a\n", b"b\n", b"c\n"))
    assert text.places([b"a\n", b"b\n"]) == [0, 2]
    assert text.places([b"b\n", b"c\n"]) == [3]
    assert text.places([b"c\n", b"d\n"]) == []
    assert text.places([]) == []


CREATION = b"--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"
DELETION = b"--- a/gone.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n"
RENAMING = b"diff --git a/old.txt b/fresh.txt\nrename from old.txt\nrename to fresh.txt\n"
MODE = b"diff --git a/f.txt b/f.txt\nold mode 100644\nnew mode 100755\n"


@pytest.mark.parametrize(
    ("diff", "base", "new", "verdict"),
    [
        (CREATION, {"f.txt": b""}, {"f.txt": b""}, "clean"),
        (CREATION, {"f.txt": b""}, {"new.txt": b"one\ntwo\n"}, "already-applied"),
        (CREATION, {"f.txt": b""}, {"new.txt": b"else\n"}, "conflict"),
        (CREATION, {"f.txt": b""}, {"new.txt/inner": b"else\n"}, "conflict"),
        (DELETION, {"gone.txt": b"one\ntwo\n"}, {"gone.txt": b"one\ntwo\n"}, "clean"),
        (DELETION, {"gone.txt": b"one\ntwo\n"}, {"f.txt": b""}, "already-applied"),
        (DELETION, {"gone.txt": b"one\ntwo\n"}, {"gone.txt": b"one\ntwo\nthree\n"}, "conflict"),
        (RENAMING, {"old.txt": LINES}, {"old.txt": LINES}, "clean"),
        (RENAMING, {"old.txt": LINES}, {"fresh.txt": LINES}, "already-applied"),
        (RENAMING, {"old.txt": LINES}, {"f.txt": b"1\n"}, "file gone"),
        (MODE, {"f.txt": LINES}, {"f.txt": LINES}, "clean"),
    ],
)
def test_whole_files(tmp_path: Path, diff: bytes, base: dict[str, bytes], new: dict[str, bytes], verdict: str) -> None:
    assert str(judge(tmp_path, diff, base, new)[0].files[0]) == verdict


def test_a_mode_that_upstream_set_is_taken(tmp_path: Path) -> None:
    judged = judge(tmp_path, MODE, {"f.txt": LINES}, {"f.txt": LINES}, executable=("f.txt",))
    assert str(judged[0]) == "already-applied"


def test_a_file_that_may_have_gone_to_two_places_is_ambiguous(tmp_path: Path) -> None:
    judged = judge(tmp_path, EDIT, {"f.txt": LINES}, {"a/f.txt": LINES, "b/f.txt": LINES})
    assert judged[0].verdict == "ambiguous"
    assert "a/f.txt, b/f.txt" in judged[0].files[0].reason


def test_a_symbolic_link_in_the_files_place_is_a_conflict(tmp_path: Path) -> None:
    series = make_series(tmp_path / "series", {"a.patch": EDIT})
    base = make_tree(tmp_path / "base", {"f.txt": LINES})
    (tmp_path / "new").mkdir()
    (tmp_path / "new/f.txt").symlink_to("other")
    judged = judge_series(series, base, Overlay(make_tree(tmp_path / "new", {})), version=None)
    assert judged[0].verdict == "conflict"


SECOND = EDIT.replace(b"-line 10\n+ten\n", b"-ten\n+TEN\n")


def test_a_later_patch_is_judged_on_top_of_the_earlier_ones(tmp_path: Path) -> None:
    new = {"f.txt": b"first\n" + LINES}
    judged = judge(tmp_path, {"a.patch": EDIT, "b.patch": SECOND}, {"f.txt": LINES}, new)
    assert [str(item) for item in judged] == ["offset +1", "offset +1"]


def test_a_later_patch_is_judged_on_what_upstream_took(tmp_path: Path) -> None:
    new = {"f.txt": LINES.replace(b"line 10\n", b"ten\n")}
    judged = judge(tmp_path, {"a.patch": EDIT, "b.patch": SECOND}, {"f.txt": LINES}, new)
    assert [str(item) for item in judged] == ["already-applied", "clean"]


def test_a_patch_of_which_upstream_has_another_form_is_known_by_its_header(tmp_path: Path) -> None:
    header = HEADER.replace(b"Last-Update", b"Applied-Upstream: 1.2 abcdef0\nLast-Update")
    new = {"f.txt": LINES.replace(b"line 10\n", b"10\n")}
    columns = []
    for version, files in (("1.1", {"f.txt": LINES}), ("1.2", new)):
        judged = judge(tmp_path / version, EDIT, {"f.txt": LINES}, files, version=version, header=header)
        columns.append(Column(version, version, judged))
    series = make_series(tmp_path / "again", {"a.patch": EDIT}, header=header)
    (course,) = courses(series, columns)
    assert [cell(column.patches[0]) for column in columns] == ["clean", "conflict [taken 1.2]"]
    assert (course.applied_until, course.changed_in, course.taken_in) == ("1.1", "1.2", None)
    assert course.header == "Applied-Upstream: 1.2"
    assert not any(map(needs_work, columns))


def test_a_conflict_that_no_header_explains_needs_work(tmp_path: Path) -> None:
    new = {"f.txt": LINES.replace(b"line 10\n", b"10\n")}
    judged = judge(tmp_path, EDIT, {"f.txt": LINES}, new, version="9.0")
    assert needs_work(Column("9.0", "9.0", judged))


RENAMING_AND_EDIT = RENAMING + EDIT.replace(b"a/f.txt", b"a/old.txt").replace(b"b/f.txt", b"b/fresh.txt")
BELOW = b"--- /dev/null\n+++ b/lib/new.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"
DELETION_OF_LINES = b"--- a/f.txt\n+++ /dev/null\n@@ -1,20 +0,0 @@\n" + b"".join(
    b"-" + line for line in LINES.splitlines(keepends=True)
)


@pytest.mark.parametrize(
    ("diff", "base", "new", "verdict"),
    [
        (DELETION_OF_LINES, {"f.txt": LINES}, {"lib/f.txt": LINES}, "file moved to lib/f.txt"),
        (DELETION_OF_LINES, {"f.txt": LINES}, {"a/f.txt": LINES, "b/f.txt": LINES}, "ambiguous"),
        (DELETION_OF_LINES, {"f.txt": LINES}, {"lib/f.txt": b"else\n"}, "already-applied"),
        (DELETION_OF_LINES, {"f.txt": LINES}, {"f.txt": b"else\n"}, "conflict"),
        (RENAMING, {"old.txt": LINES}, {"fresh.txt": b"unrelated\n"}, "conflict"),
        (RENAMING, {"old.txt": LINES}, {"fresh.txt": LINES + b"more\n"}, "already-applied"),
        (RENAMING, {"old.txt": LINES}, {"fresh.txt": LINES + b"a\n" * 9, "lib/old.txt": LINES}, "conflict"),
        (RENAMING, {"old.txt": LINES}, {"old.txt": LINES, "fresh.txt": b"unrelated\n"}, "conflict"),
        (RENAMING, {"old.txt": LINES}, {"old.txt": LINES, "fresh.txt": LINES}, "conflict"),
        (RENAMING, {"old.txt": LINES}, {"old.txt": LINES, "fresh.txt/inner": b""}, "conflict"),
        (
            RENAMING_AND_EDIT,
            {"old.txt": LINES},
            {"fresh.txt": LINES.replace(b"line 10\n", b"ten\n")},
            "already-applied",
        ),
        (RENAMING_AND_EDIT, {"old.txt": LINES}, {"old.txt": LINES.replace(b"line 10\n", b"ten\n")}, "partly-applied"),
        (RENAMING_AND_EDIT, {"old.txt": LINES}, {"fresh.txt": b"else\n" * 40 + LINES[70:]}, "conflict"),
        (BELOW, {"f.txt": b""}, {"lib": b"a file\n"}, "conflict"),
        (BELOW, {"f.txt": b""}, {"lib/other.txt": b"a file\n"}, "clean"),
    ],
)
def test_files_that_came_went_or_stand_in_the_way(
    tmp_path: Path, diff: bytes, base: dict[str, bytes], new: dict[str, bytes], verdict: str
) -> None:
    assert str(judge(tmp_path, diff, base, new)[0].files[0]) == verdict


def test_a_link_above_a_new_file_is_a_conflict(tmp_path: Path) -> None:
    series = make_series(tmp_path / "series", {"a.patch": BELOW})
    base = make_tree(tmp_path / "base", {"f.txt": LINES})
    (tmp_path / "new").mkdir()
    (tmp_path / "new/lib").symlink_to("elsewhere")
    judged = judge_series(series, base, Overlay(make_tree(tmp_path / "new", {"f.txt": LINES})), version=None)
    assert judged[0].verdict == "conflict"


def test_what_the_patch_takes_away_is_in_nobodys_way(tmp_path: Path) -> None:
    diff = DELETION.replace(b"gone.txt", b"lib") + BELOW
    files = {"lib": b"one\ntwo\n"}
    assert judge(tmp_path, diff, files, files)[0].verdict == "clean"


NEXT = NAMES + b"@@ -9,7 +9,7 @@\n line 9\n ten\n line 11\n-line 12\n+twelve\n line 13\n line 14\n line 15\n"
THIRD = SECOND.replace(b"-ten\n+TEN\n", b"-ten\n+TEN\n+more\n").replace(b"+7,7", b"+7,8")


@pytest.mark.parametrize(
    ("second", "taken"),
    [
        (SECOND, LINES.replace(b"line 10\n", b"TEN\n")),
        (NEXT, LINES.replace(b"line 10\n", b"ten\n").replace(b"line 12\n", b"twelve\n")),
        (THIRD, b"first\n" + LINES.replace(b"line 10\n", b"TEN\nmore\n")),
    ],
)
def test_patches_of_one_file_that_upstream_took_both_are_both_taken(
    tmp_path: Path, second: bytes, taken: bytes
) -> None:
    judged = judge(tmp_path, {"a.patch": EDIT, "b.patch": second}, {"f.txt": LINES}, {"f.txt": taken})
    assert [str(item) for item in judged] == ["already-applied"] * 2


def test_a_file_that_a_later_patch_changes_further_is_created_already(tmp_path: Path) -> None:
    edit = b"--- a/new.txt\n+++ b/new.txt\n@@ -1,2 +1,3 @@\n one\n+middle\n two\n"
    diffs = {"a.patch": CREATION, "b.patch": edit}
    judged = judge(tmp_path, diffs, {"f.txt": b""}, {"new.txt": b"one\nmiddle\ntwo\n"})
    assert [str(item) for item in judged] == ["already-applied"] * 2


def test_a_later_patch_that_upstream_has_alone_proves_nothing_of_the_first(tmp_path: Path) -> None:
    """Upstream changed the first patch's line in a way of its own, and has the second's."""
    new = {"f.txt": LINES.replace(b"line 10\n", b"10\n").replace(b"line 17\n", b"seventeen\n")}
    far = (
        NAMES + b"@@ -14,7 +14,7 @@\n line 14\n line 15\n line 16\n-line 17\n+seventeen\n line 18\n line 19\n line 20\n"
    )
    judged = judge(tmp_path, {"a.patch": EDIT, "b.patch": far}, {"f.txt": LINES}, new)
    assert [str(item) for item in judged] == ["conflict", "already-applied"]


def test_a_patch_and_its_undoing_apply_where_nothing_changed(tmp_path: Path) -> None:
    undoing = EDIT.replace(b"-line 10\n+ten\n", b"-ten\n+line 10\n")
    new = {"f.txt": b"first\n" + LINES}
    judged = judge(tmp_path, {"a.patch": EDIT, "b.patch": undoing}, {"f.txt": LINES}, new)
    assert [str(item) for item in judged] == ["offset +1"] * 2
