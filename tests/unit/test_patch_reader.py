"""The strict reader: what a patch may look like, and where it says that one does not."""

from __future__ import annotations

import pytest
from patch_support import EDIT, HEADER_LINES, read_files, refused

from forkwheel.patching.model import CREATE, DELETE, MODIFY, RENAME

GIT = b"diff --git a/f.txt b/f.txt\n"
BODY = EDIT.split(b"\n", 2)[2]
NAMES = b"--- a/f.txt\n+++ b/f.txt\n"


def test_a_plain_diff_is_read_into_files_hunks_and_lines() -> None:
    (file,) = read_files(EDIT)

    assert (file.operation, file.path, file.line) == (MODIFY, "f.txt", HEADER_LINES + 1)
    (hunk,) = file.hunks
    assert (hunk.line, hunk.old_start, hunk.old_count, hunk.new_start, hunk.new_count) == (8, 7, 7, 7, 7)
    assert [line.kind for line in hunk.lines] == [" ", " ", " ", "-", "+", " ", " ", " "]
    assert (hunk.leading, hunk.trailing) == (3, 3)


@pytest.mark.parametrize(
    ("diff", "expected"),
    [
        (GIT + b"index 1..2 100755\n" + EDIT, (MODIFY, "f.txt", "f.txt", "100755", "100755")),
        (GIT + b"old mode 100644\nnew mode 100755\n", (MODIFY, "f.txt", "f.txt", "100644", "100755")),
        (GIT + b"new file mode 100755\nindex 0..1\n", (CREATE, None, "f.txt", None, "100755")),
        (GIT + b"deleted file mode 100644\n", (DELETE, "f.txt", None, "100644", None)),
        (
            b"diff --git a/f b/g\nsimilarity index 100%\nrename from f\nrename to g\n",
            (RENAME, "f", "g", None, None),
        ),
        (b"--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n", (CREATE, None, "n", None, None)),
        (b"--- a/n\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", (DELETE, "n", None, None, None)),
    ],
)
def test_what_is_done_to_a_file_is_read(diff: bytes, expected: tuple[str | None, ...]) -> None:
    (file,) = read_files(diff)

    assert (file.operation, file.old_path, file.new_path, file.old_mode, file.new_mode) == expected


@pytest.mark.parametrize(
    ("name", "path"),
    [
        (b'"a/\\303\\266.txt"', "ö.txt"),
        (b'"a/\\377.txt"', "\udcff.txt"),
        ("a/ö.txt".encode(), "ö.txt"),
        (b"a/with space.txt\t", "with space.txt"),
        (b"a/x y\t2026-01-01 00:00:00", "x y"),
        (b'"a/say \\"hi\\".txt"', 'say "hi".txt'),
    ],
)
def test_names_are_decoded_as_git_quotes_them(name: bytes, path: str) -> None:
    other = name.replace(b"a/", b"b/", 1)
    git_names = name.split(b"\t")[0] + b" " + other.split(b"\t")[0]

    for start in (b"", b"diff --git " + git_names + b"\n"):
        (file,) = read_files(start + b"--- " + name + b"\n+++ " + other + b"\n" + BODY)
        assert file.path == path


@pytest.mark.parametrize(
    "path",
    [
        b"../f",
        b"x/../../f",
        b"/etc/passwd",
        b"x//f",
        b"./f",
        b"x/.",
        b".git/config",
        b"x/.GIT/hooks/y",
        b".git",
        b".git./x",
        b"git~1/x",
        b".g\xe2\x80\x8cit/x",
        b"x\\y",
        b"",
    ],
)
def test_paths_that_leave_the_tree_or_touch_git_are_refused(path: bytes) -> None:
    for diff in (
        b"--- a/" + path + b"\n+++ b/" + path + b"\n" + BODY,
        b"--- /dev/null\n+++ b/" + path + b"\n@@ -0,0 +1 @@\n+x\n",
        b"--- a/" + path + b"\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
        b"diff --git a/ok b/" + path + b"\nrename from ok\nrename to " + path + b"\n",
    ):
        assert "x.patch:6" in refused(diff).message


@pytest.mark.parametrize("name", [b'"a/x\\ny"', b'"a/x\\ty"', b'"a/x\\000y"', b'"a/x\\177y"'])
def test_control_characters_in_names_are_refused(name: bytes) -> None:
    error = refused(b"--- " + name + b"\n+++ " + name.replace(b"a/", b"b/") + b"\n" + BODY)

    assert "control character" in error.message


@pytest.mark.parametrize(
    ("diff", "line", "words"),
    [
        # Sections
        (b"", 6, "changes no file"),
        (b"some text\n" + EDIT, 6, "unexpected line 'some text'"),
        (b"--- a/f.txt\n", 6, "unexpected line"),
        (NAMES, 8, "a hunk (`@@`) is due"),
        (GIT, 6, "changes nothing"),
        (GIT + b"index 1..2 100644\n", 6, "changes nothing"),
        (GIT + EDIT + EDIT.replace(b"f.txt", b"g.txt"), 18, "unexpected line '--- a/g.txt'"),
        (EDIT + GIT + EDIT.replace(b"f.txt", b"g.txt"), 17, "unexpected line 'diff --git"),
        (EDIT + EDIT, 17, "second section"),
        (EDIT + b"--- a/f.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", 17, "second section"),
        (GIT + b"Binary files a/f.txt and b/f.txt differ\n", 7, "binary"),
        (GIT + b"GIT binary patch\nliteral 1\nIcmZPo000310RR91\n", 7, "binary"),
        (b"Binary files a/f.txt and b/f.txt differ\n", 6, "binary"),
        (EDIT + b"Binary files a/f and b/f differ\n", 17, "binary"),
        # Names
        (b"--- f.txt\n+++ b/f.txt\n" + BODY, 6, "does not start with 'a/'"),
        (b"--- a/f.txt\n+++ f.txt\n" + BODY, 7, "does not start with 'b/'"),
        (b"--- a/f.txt\n+++ b/g.txt\n" + BODY, 6, "the names disagree"),
        (b"diff --git a/g.txt b/g.txt\n" + EDIT, 6, "`diff --git` names"),
        (b"--- /dev/null\n+++ /dev/null\n" + BODY, 6, "at once"),
        (b'--- "a/\\9.txt"\n+++ "b/\\9.txt"\n' + BODY, 6, "malformed"),
        (b'--- "a/x\n+++ "b/x\n' + BODY, 6, "malformed"),
        (b"diff --git a/x b/y\nold mode 100644\nnew mode 100755\n", 6, "does not name one file"),
        # Operations
        (b"diff --git a/f b/f\nrename from f\nrename to f\n", 6, "renamed to itself"),
        (b"diff --git a/f b/g\nrename from f\n", 6, "lacks its `rename to`"),
        (b"diff --git a/f b/g\nrename from f\nrename to h\n", 6, "`diff --git` names"),
        (b"diff --git a/f b/g\nrename from f\nrename to g\n" + EDIT, 9, "do not name the renamed file"),
        (b"diff --git a/f b/g\nsimilarity index 90%\nrename from f\nrename to g\n", 7, "does not fit"),
        (b"diff --git a/f b/g\nsimilarity index 100%\ncopy from f\ncopy to g\n", 8, "a copy is not supported"),
        (GIT + b"new file mode 100644\ndeleted file mode 100644\n", 6, "at once"),
        (GIT + b"new file mode 100644\n" + EDIT, 8, "does not fit"),
        (GIT + b"--- /dev/null\n+++ b/f.txt\n@@ -0,0 +1 @@\n+x\n", 7, "does not fit"),
        (GIT + b"rename from f\nrename from f\n", 8, "given twice"),
        (GIT + b"unknown line\n" + EDIT, 7, "unexpected line"),
        # Modes
        (GIT + b"new file mode 120000\n", 7, "symbolic link"),
        (GIT + b"new file mode 160000\n", 7, "submodule"),
        (GIT + b"deleted file mode 120000\n", 7, "symbolic link"),
        (GIT + b"index 1..2 160000\n" + EDIT, 7, "submodule"),
        (GIT + b"index 1..2 120000\n" + EDIT, 7, "symbolic link"),
        (GIT + b"old mode 100644\nnew mode 100600\n", 8, "'100600'"),
        (GIT + b"old mode 100644\n" + EDIT, 6, "come together"),
        (GIT + b"old mode 100644\nnew mode 100644\n" + EDIT, 6, "changes nothing"),
        (GIT + b"old mode 100644\nnew mode 100755\nindex 1..2 100644\n" + EDIT, 9, "the `index` line says"),
        (GIT + b"new file mode 100755\nindex 0..2 100644\n", 8, "the `index` line says"),
        # Hunks
        (NAMES + b"@@ -1 +1 @@\n line\n", 8, "changes nothing"),
        (NAMES + b"@@ -1 +1 @@\n-line\n+line\n", 8, "changes nothing"),
        (NAMES + b"@@ -1,1 @@\n-x\n", 8, "not a hunk's header"),
        (NAMES + b"@@ -0,1 +1 @@\n-x\n+y\n", 8, "line 0"),
        (EDIT + b" line 14\n", 17, "after the declared end"),
        (EDIT + b"-line 14\n", 17, "after the declared end"),
        (EDIT + b"+more\n", 17, "after the declared end"),
        (EDIT + b"\n", 17, "after the declared end"),
        (EDIT + b"-- \n2.39.5\n", 17, "after the declared end"),
        (EDIT.replace(b"-7,7 +7,7", b"-7,8 +7,8"), 17, "wrong line count"),
        (EDIT.replace(b"-7,7 +7,7", b"-7,6 +7,6"), 16, "after the declared end"),
        (EDIT.replace(b"-7,7 +7,7", b"-7,7 +7,8"), 17, "wrong line count"),
        (EDIT.replace(b"-7,7 +7,7", b"-7,8 +7,7"), 17, "wrong line count"),
        (EDIT.replace(b" line 11\n", b"\n"), 14, "an empty line inside a hunk"),
        (EDIT.replace(b" line 11\n", b"line 11\n"), 14, "wrong line count"),
        (EDIT.replace(b"-7,7 +7,7", b"-7,7 +8,7"), 8, "new line is 8"),
        (b"--- /dev/null\n+++ b/n\n@@ -3,0 +4 @@\n+x\n", 8, "not one hunk with the whole file"),
        (EDIT.replace(b" line 7\n", b" line 6\n line 7\n").replace(b"7,7 +7,7", b"6,8 +6,8"), 8, "4 and 3 lines"),
        (EDIT + BODY, 17, "overlaps"),
        (EDIT + BODY.replace(b"-7,7 +7,7", b"-1,7 +1,7"), 17, "overlaps"),
        # Newlines at the end
        (EDIT + b"\\ No newline\n", 17, "misplaced or misspelt"),
        (EDIT + b"\\ No newline at end of file\n" * 2, 18, "misplaced or misspelt"),
        (EDIT.replace(b"-line 10\n", b"-line 10\n\\ No newline at end of file\n"), 8, "not the file's last"),
        (
            EDIT + b"\\ No newline at end of file\n" + BODY.replace(b"7,7", b"17,7").replace(b"+7,7", b"+17,7"),
            8,
            "not the file's last",
        ),
        (EDIT.replace(b" line 13", b" ") + b"\\ No newline at end of file\n", 17, "is no line"),
        # CRLF
        (EDIT.replace(b"\n", b"\r\n"), 6, "CRLF"),
        (EDIT.replace(b" @@\n", b" @@\r\n"), 8, "not a hunk's header"),
        (GIT + b"old mode 100644\r\nnew mode 100755\r\n", 7, "CRLF"),
    ],
)
def test_what_is_not_exactly_a_diff_is_refused_at_its_line(diff: bytes, line: int, words: str) -> None:
    error = refused(diff)

    assert error.message.startswith(f"x.patch:{line}: ")
    assert words in error.message
    assert error.hint


def test_bytes_that_are_not_utf8_and_lines_that_only_look_like_breaks_survive() -> None:
    strange = b"\xff\x85\x0c\x1c caf\xe9\r"
    diff = EDIT.replace(b"+ten\n", b"+" + strange + b"\n")

    (file,) = read_files(diff)

    assert strange + b"\n" in file.hunks[0].new


def test_a_removed_line_that_looks_like_a_header_is_a_removed_line() -> None:
    diff = b"--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,2 @@\n--- a comment\n+++ b comment\n select 1;\n"

    (file,) = read_files(diff)

    assert file.hunks[0].old == (b"-- a comment\n", b"select 1;\n")
    assert file.hunks[0].new == (b"++ b comment\n", b"select 1;\n")


def test_a_name_that_unidiff_reads_differently_is_refused() -> None:
    error = refused(b"diff --git a/x b/x b/x b/x\n--- a/x b/x\t\n+++ b/x b/x\t\n" + BODY)

    assert "unidiff cannot read the diff" in error.message
