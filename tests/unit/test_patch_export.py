"""The exporter: one form for each content, and hunks laid out with three lines of context."""

from __future__ import annotations

from pathlib import Path

from patch_support import EDIT, HEADER, LINES, make_tree

from forkwheel.patching.compare import compare, export
from forkwheel.patching.export import Run, hunks_from, render, runs_of
from forkwheel.patching.overlay import File, Overlay
from forkwheel.patching.series import parse_patch


def exported(tmp_path: Path, diff: bytes, content: bytes = LINES) -> bytes:
    tree = make_tree(tmp_path / "tree", {"f.txt": content})
    return export(parse_patch(HEADER + diff, Path("x.patch")), Overlay(tree))[len(HEADER) :]


def compared(tmp_path: Path, before: dict[str, bytes], after: dict[str, File | None]) -> bytes:
    old = Overlay(make_tree(tmp_path / "tree", before))
    new = old.copy()
    for path, file in after.items():
        new.remove(path) if file is None else new.put(path, file)
    return render(compare(old, new, after, earlier=()))


def test_an_exported_patch_exports_to_itself(tmp_path: Path) -> None:
    assert exported(tmp_path, EDIT) == EDIT


def test_what_tools_add_is_left_out(tmp_path: Path) -> None:
    git = b"diff --git a/f.txt b/f.txt\nindex 1..2 100644\n" + EDIT.replace(b" @@\n", b" @@ def function():\n")
    gnu = EDIT.replace(b"a/f.txt", b"a/f.txt\t2026-01-01").replace(b"7,7 +7,7", b"7,07 +7,7")

    assert exported(tmp_path, git) == EDIT
    assert exported(tmp_path, gnu) == EDIT


def test_added_lines_come_after_removed_ones(tmp_path: Path) -> None:
    assert exported(tmp_path, EDIT.replace(b"-line 10\n+ten\n", b"+ten\n-line 10\n")) == EDIT


def test_close_changes_share_a_hunk_and_distant_ones_do_not() -> None:
    lines = [b"%d\n" % number for number in range(30)]
    runs = (Run(5, 6, ()), Run(12, 12, (b"new\n",)), Run(19, 20, (b"new\n",)))

    hunks = hunks_from(runs, lines)

    assert [(hunk.old_start, hunk.old_count, hunk.new_start, hunk.new_count) for hunk in hunks] == [
        (3, 13, 3, 13),
        (17, 7, 17, 7),
    ]
    assert runs_of(hunks) == runs


def test_git_headers_appear_only_where_they_are_needed(tmp_path: Path) -> None:
    after = {"new": File("100644", b"x\n"), "tool": File("100755", b"x\n"), "gone": None}

    plain = compared(tmp_path, {"gone": b"y\n"}, {"new": after["new"], "gone": None})
    full = compared(tmp_path, {"gone": b"y\n"}, after)

    assert b"diff --git" not in plain
    assert full.count(b"diff --git") == 3
    assert b"deleted file mode 100644" in full
    assert b"new file mode 100755" in full


def test_a_file_of_the_same_content_elsewhere_is_a_rename(tmp_path: Path) -> None:
    diff = compared(tmp_path, {"old": b"x\n"}, {"old": None, "d/new": File("100644", b"x\n")})

    assert diff == b"diff --git a/old b/d/new\nrename from old\nrename to d/new\n"


def test_two_candidates_for_a_rename_are_none(tmp_path: Path) -> None:
    after = {"old": None, "n1": File("100644", b"x\n"), "n2": File("100644", b"x\n")}

    assert b"rename" not in compared(tmp_path, {"old": b"x\n"}, after)


def test_a_rename_that_the_patch_had_is_kept_when_the_file_changes(tmp_path: Path) -> None:
    old = Overlay(make_tree(tmp_path / "tree", {"old": LINES}))
    new = old.copy()
    new.remove("old")
    new.put("new", File("100644", LINES + b"more\n"))
    earlier = parse_patch(HEADER + b"diff --git a/old b/new\nrename from old\nrename to new\n", Path("x.patch")).files

    assert b"rename from old\nrename to new\n--- a/old\n+++ b/new\n@@" in render(
        compare(old, new, ["old", "new"], earlier=earlier)
    )


def test_odd_names_are_quoted_as_git_does(tmp_path: Path) -> None:
    after = {"ö": File("100644", b"x\n"), "a b": File("100644", b"x\n")}

    diff = compared(tmp_path, {}, after)

    assert b'+++ "b/\\303\\266"\n' in diff
    assert b"+++ b/a b\t\n" in diff
