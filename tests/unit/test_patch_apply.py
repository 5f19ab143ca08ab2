"""Exact application: what is applied, and how everything else is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from patch_support import EDIT, LINES, make_series, make_tree

from forkwheel.errors import VerificationError
from forkwheel.patching.apply import DoesNotApply, check_series, is_applied, write_changes
from forkwheel.tree import Tree, scan

NO_NEWLINE = b"\\ No newline at end of file\n"
BODY = EDIT.split(b"\n", 2)[2]


def outcome(tmp_path: Path, tree: Tree, *diffs: bytes) -> dict[str, bytes | None]:
    series = make_series(tmp_path / "series", {f"p{number}.patch": diff for number, diff in enumerate(diffs)})
    return {change.path: change.content for change in check_series(series, tree)}


def refusal(tmp_path: Path, tree: Tree, *diffs: bytes) -> DoesNotApply:
    with pytest.raises(DoesNotApply) as caught:
        outcome(tmp_path, tree, *diffs)
    return caught.value


def test_patches_apply_on_top_of_one_another(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", {"f.txt": LINES})
    second = EDIT.replace(b"-line 10\n+ten", b"-ten\n+TEN")

    changed = outcome(tmp_path, tree, EDIT, second)

    assert changed == {"f.txt": LINES.replace(b"line 10\n", b"TEN\n")}
    assert scan(tree.root) == tree


@pytest.mark.parametrize(
    ("before", "after", "body"),
    [
        (b"a\nb", b"a\nc", b"@@ -1,2 +1,2 @@\n a\n-b\n" + NO_NEWLINE + b"+c\n" + NO_NEWLINE),
        (b"a\nb", b"a\nb\n", b"@@ -1,2 +1,2 @@\n a\n-b\n" + NO_NEWLINE + b"+b\n"),
        (b"a\nb\n", b"a\nb", b"@@ -1,2 +1,2 @@\n a\n-b\n+b\n" + NO_NEWLINE),
        (b"a\nb", b"c\nb", b"@@ -1,2 +1,2 @@\n-a\n+c\n b\n" + NO_NEWLINE),
        (b"a\nb\n", b"a\nc\n", b"@@ -1,2 +1,2 @@\n a\n-b\n+c\n"),
        (b"", b"x", b"@@ -0,0 +1 @@\n+x\n" + NO_NEWLINE),
        (b"x", b"", b"@@ -1 +0,0 @@\n-x\n" + NO_NEWLINE),
    ],
)
def test_the_newline_at_the_end_is_kept_added_and_removed(
    tmp_path: Path, before: bytes, after: bytes, body: bytes
) -> None:
    tree = make_tree(tmp_path / "tree", {"f": before})

    assert outcome(tmp_path, tree, b"--- a/f\n+++ b/f\n" + body) == {"f": after}


@pytest.mark.parametrize(
    ("content", "body"),
    [
        (b"a\nb\n", b"@@ -1,2 +1,2 @@\n a\n-b\n" + NO_NEWLINE + b"+c\n"),
        (b"a\nb", b"@@ -1,2 +1,2 @@\n a\n-b\n+c\n"),
        (b"a\nb", b"@@ -1,2 +1,2 @@\n-a\n+c\n b\n"),
        (b"a\nb\n", b"@@ -1,2 +1,2 @@\n-a\n+c\n b\n" + NO_NEWLINE),
    ],
)
def test_another_newline_at_the_end_is_a_conflict(tmp_path: Path, content: bytes, body: bytes) -> None:
    tree = make_tree(tmp_path / "tree", {"f": content})

    error = refusal(tmp_path, tree, b"--- a/f\n+++ b/f\n" + body)

    assert "the newline at the file's end differs" in error.message
    assert "(no newline)" in error.message


def test_a_newline_is_not_taken_from_the_middle_of_a_file(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", {"f": b"a\nb\nc\nd\n"})

    error = refusal(tmp_path, tree, b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+x\n" + NO_NEWLINE)

    assert error.verdict.verdict == "conflict"


def test_less_context_than_the_file_has_is_refused(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", {"f.txt": LINES})
    short = EDIT.replace(b" line 13\n", b"").replace(b"-7,7 +7,7", b"-7,6 +7,6")

    error = refusal(tmp_path, tree, short)

    assert "2 lines of context after its last change, where the file has 3" in error.message


def test_an_offset_is_refused_with_where_it_would_fit(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", {"f.txt": b"new\nnew\n" + LINES})

    error = refusal(tmp_path, tree, EDIT)

    assert (error.verdict.verdict, error.verdict.offsets, str(error.verdict)) == ("offset", (2,), "offset +2")
    assert f"{tmp_path}/series/p0.patch:8: hunk 1 of 1 for f.txt" in error.message
    assert "line 9 (offset +2)" in error.message
    assert "\n" not in error.message
    assert "`patches --edit p0.patch`" in error.hint


@pytest.mark.parametrize(
    ("start", "words"),
    [(5, "its lines stand elsewhere: line 1 (offset -4)"), (25, "its lines stand elsewhere: line 1 (offset -24)")],
)
def test_a_hunk_at_the_files_start_with_wrong_numbers_is_told_its_place(tmp_path: Path, start: int, words: str) -> None:
    tree = make_tree(tmp_path / "tree", {"f.txt": LINES})
    numbers = b"@@ -%d,3 +%d,4 @@\n" % (start, start)

    error = refusal(tmp_path, tree, b"--- a/f.txt\n+++ b/f.txt\n" + numbers + b"+new\n line 1\n line 2\n line 3\n")

    assert error.verdict.verdict == "offset"
    assert words in error.message
    assert "context" not in error.message


def test_less_context_before_the_change_than_the_file_has_is_refused(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", {"f.txt": LINES})
    short = EDIT.replace(b" line 7\n", b"").replace(b"7,7 +7,7", b"8,6 +8,6")

    error = refusal(tmp_path, tree, short)

    assert "2 lines of context before its first change, where the file has 3" in error.message
    assert "3 lines of context" in error.hint


def test_an_insertion_without_any_context_is_refused(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", {"f.txt": LINES})

    error = refusal(tmp_path, tree, b"--- a/f.txt\n+++ b/f.txt\n@@ -5,0 +6 @@\n+new\n")

    assert "0 lines of context before its first change, where the file has 3" in error.message


def test_several_places_are_ambiguous(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", {"f.txt": b"new\n" + LINES + LINES})

    error = refusal(tmp_path, tree, EDIT)

    assert (error.verdict.verdict, error.verdict.offsets) == ("ambiguous", (1, 21))


def test_a_hunk_that_is_there_already_is_refused(tmp_path: Path) -> None:
    other = EDIT.replace(b"f.txt", b"g.txt")
    tree = make_tree(tmp_path / "tree", {"f.txt": LINES.replace(b"line 10\n", b"ten\n"), "g.txt": LINES})

    error = refusal(tmp_path, tree, EDIT, other)

    assert error.verdict.verdict == "already-applied"


@pytest.mark.parametrize(
    ("patch_ends_in_crlf", "words"),
    [(True, "the patch's lines end in CRLF"), (False, "the file's lines end in CRLF")],
)
def test_crlf_damage_is_named(tmp_path: Path, patch_ends_in_crlf: bool, words: str) -> None:
    names, body = EDIT[: -len(BODY)], BODY
    header, lines = body.split(b"\n", 1)
    content = LINES
    if patch_ends_in_crlf:
        lines = lines.replace(b"\n", b"\r\n")
    else:
        content = content.replace(b"\n", b"\r\n")
    tree = make_tree(tmp_path / "tree", {"f.txt": content})

    error = refusal(tmp_path, tree, names + header + b"\n" + lines)

    assert words in error.message
    assert "\\r" in error.message


def test_a_crlf_file_is_patched_by_a_patch_that_says_so(tmp_path: Path) -> None:
    header, lines = BODY.split(b"\n", 1)
    tree = make_tree(tmp_path / "tree", {"f.txt": LINES.replace(b"\n", b"\r\n")})
    diff = b"--- a/f.txt\n+++ b/f.txt\n" + header + b"\n" + lines.replace(b"\n", b"\r\n")

    changed = outcome(tmp_path, tree, diff)

    assert changed == {"f.txt": LINES.replace(b"line 10\n", b"ten\n").replace(b"\n", b"\r\n")}


def test_a_failed_hunk_is_shown_beside_what_was_found(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", {"f.txt": LINES.replace(b"line 9\n", b"line 9 \n").replace(b"12", b"twelve")})

    rows = refusal(tmp_path, tree, EDIT).message.splitlines()[1:]

    assert rows[0].split() == ["|", "expected", "|", "found"]
    assert rows[1].split() == ["7", "|", "line", "7", "|", "line", "7"]
    assert rows[3].split() == ["!", "9", "|", "line", "9", "|", "line", "9\\s"]
    assert [row.split()[0] == "!" for row in rows[1:]] == [False, False, True, False, False, True, False]


def marks(error: DoesNotApply) -> list[str]:
    """Return the rows of the table that are marked, without their spaces."""
    return [" ".join(row.split()) for row in error.message.splitlines()[2:] if row.split()[0] == "!"]


@pytest.mark.parametrize(
    ("old", "new", "marked"),
    [
        (b"line 8\n", b"line 8\nadded\n", "! 9 | (no line) | added"),
        (b"line 8\n", b"", "! | line 8 | (no line)"),
        (b"line 13\n", b"other\n", "! 13 | line 13 | other"),
        (b"line 7\n", b"LINE 7\n", "! 7 | line 7 | LINE 7"),
    ],
)
def test_only_lines_that_differ_are_marked(tmp_path: Path, old: bytes, new: bytes, marked: str) -> None:
    tree = make_tree(tmp_path / "tree", {"f.txt": LINES.replace(old, new)})

    assert marks(refusal(tmp_path, tree, EDIT)) == [marked]


def test_a_hunk_that_moved_and_differs_is_shown_at_its_new_place(tmp_path: Path) -> None:
    moved = b"".join(b"other %d\n" % number for number in range(40)) + LINES.replace(b"line 9\n", b"LINE 9\n")
    tree = make_tree(tmp_path / "tree", {"f.txt": moved})

    error = refusal(tmp_path, tree, EDIT)

    assert "the closest are at line 47 (offset +40)" in error.message
    assert marks(error) == ["! 49 | line 9 | LINE 9"]


CREATED = b"--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n+x\n"
DELETED = b"--- a/%s\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
RENAMED = b"diff --git a/%s b/%s\nrename from %s\nrename to %s\n"


def test_files_are_created_deleted_renamed_and_change_their_mode(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", {"gone/x": b"x\n", "old": b"y\n", "tool": b"z\n"}, executable=("old",))
    diffs = (
        CREATED % b"new/deep/x",
        DELETED % b"gone/x",
        RENAMED % (b"old", b"moved", b"old", b"moved"),
        b"diff --git a/tool b/tool\nold mode 100644\nnew mode 100755\n",
        b"diff --git a/empty b/empty\nnew file mode 100755\n",
    )
    series = make_series(tmp_path / "series", {f"p{number}.patch": diff for number, diff in enumerate(diffs)})

    patched = write_changes(check_series(series, tree), tree)

    found = {entry.path: entry.mode for entry in scan(tree.root).entries}
    assert found == {"new/deep/x": "100644", "moved": "100755", "tool": "100755", "empty": "100755"}
    assert scan(tree.root) == patched.tree
    assert not (tree.root / "gone").exists()


def test_a_rename_may_change_the_file_and_its_mode(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", {"f.txt": LINES})
    head = b"diff --git a/f.txt b/g.txt\nold mode 100644\nnew mode 100755\nsimilarity index 90%\n"
    names = b"rename from f.txt\nrename to g.txt\n--- a/f.txt\n+++ b/g.txt\n"

    assert outcome(tmp_path, tree, head + names + BODY) == {
        "f.txt": None,
        "g.txt": LINES.replace(b"line 10\n", b"ten\n"),
    }


def test_a_file_may_make_way_for_a_folder_within_one_patch(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", {"a": b"x\n"})

    changed = outcome(tmp_path, tree, DELETED % b"a" + CREATED % b"a/b")

    assert changed == {"a": None, "a/b": b"x\n"}


@pytest.mark.parametrize(
    ("diff", "words"),
    [
        (CREATED % b"f", "the tree has a file f"),
        (CREATED % b"d", "the tree has a file d/g"),
        (CREATED % b"f/below", "the tree has a file f"),
        (CREATED % b"link", "the tree has a symbolic link link"),
        (CREATED % b"folder-link/new", "the tree has a symbolic link folder-link"),
        (DELETED % b"missing", "the tree has no file missing"),
        (DELETED % b"f", "does not apply"),
        (b"diff --git a/f b/f\ndeleted file mode 100644\n", "leaves lines"),
        (b"diff --git a/f b/f\ndeleted file mode 100755\n", "mode is 100644, the patch says 100755"),
        (RENAMED % (b"missing", b"n", b"missing", b"n"), "the tree has no file missing"),
        (RENAMED % (b"f", b"d/g", b"f", b"d/g"), "the tree has a file d/g"),
        (RENAMED % (b"f", b"d", b"f", b"d"), "the tree has a file d/g"),
        (RENAMED % (b"link", b"n", b"link", b"n"), "is a symbolic link in the tree"),
        (b"--- a/missing\n+++ b/missing\n@@ -1 +1 @@\n-x\n+y\n", "the tree has no file missing"),
        (b"--- a/link\n+++ b/link\n@@ -1 +1 @@\n-x\n+y\n", "is a symbolic link in the tree"),
        (b"--- a/folder-link/g\n+++ b/folder-link/g\n@@ -1 +1 @@\n-x\n+y\n", "through the symbolic link folder-link"),
        (b"--- a/f/g\n+++ b/f/g\n@@ -1 +1 @@\n-x\n+y\n", "through the file f"),
        (b"diff --git a/f b/f\nold mode 100755\nnew mode 100644\n", "mode is 100644, the patch says 100755"),
        (b"diff --git a/f b/f\nindex 1..2 100755\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+y\n", "mode is 100644"),
        (b"--- a/d/g\n+++ b/d/g\n@@ -0,0 +1 @@\n+y\n", "0 lines of context after"),
    ],
)
def test_what_the_tree_has_not_or_has_already_is_refused(tmp_path: Path, diff: bytes, words: str) -> None:
    make_tree(tmp_path / "tree", {"f": b"one\n", "d/g": b"x\n"})
    (tmp_path / "tree/link").symlink_to("f")
    (tmp_path / "tree/folder-link").symlink_to("d")
    tree = scan(tmp_path / "tree")

    error = refusal(tmp_path, tree, diff, CREATED % b"unrelated")

    assert words in error.message
    assert error.verdict.verdict in ("conflict", "already-applied")


def test_nothing_of_a_patch_is_applied_if_a_part_is_refused(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", {"f.txt": LINES, "g.txt": b"other\n"})

    refusal(tmp_path, tree, EDIT + EDIT.replace(b"f.txt", b"g.txt"))

    assert scan(tree.root) == tree


def test_a_tree_that_has_the_whole_series_is_left_alone(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", {"f.txt": LINES, "x": b"x\n"})
    diffs = {"one.patch": EDIT, "two.patch": DELETED % b"x" + CREATED % b"y"}
    series = make_series(tmp_path / "series", diffs)

    patched = write_changes(check_series(series, tree), tree).tree

    assert is_applied(series, patched)
    assert check_series(series, patched) == ()


def test_deletions_alone_never_count_as_applied(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", {"f.txt": LINES})

    assert "the tree has no file misspelt" in refusal(tmp_path, tree, DELETED % b"misspelt").message


@pytest.mark.parametrize("spoilt", ["f.txt", "y"])
def test_a_tree_that_has_nearly_the_whole_series_is_refused(tmp_path: Path, spoilt: str) -> None:
    tree = make_tree(tmp_path / "tree", {"f.txt": LINES, "x": b"x\n"})
    series = make_series(tmp_path / "series", {"one.patch": EDIT, "two.patch": DELETED % b"x" + CREATED % b"y"})
    write_changes(check_series(series, tree), tree)
    content = (tree.root / spoilt).read_bytes()
    (tree.root / spoilt).write_bytes(content.replace(b"line 9", b"LINE 9").replace(b"x", b"z"))

    with pytest.raises(DoesNotApply):
        check_series(series, scan(tree.root))


def test_a_file_that_is_not_what_the_tree_says_is_refused(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", {"f.txt": LINES})
    series = make_series(tmp_path / "series", {"one.patch": EDIT})
    (tree.root / "f.txt").write_bytes(LINES + b"more\n")

    with pytest.raises(VerificationError, match=r"f\.txt has sha256"):
        check_series(series, tree)
