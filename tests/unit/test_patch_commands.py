"""The command ``patches``, as a person types it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from patch_support import EDIT, LINES, filled_in, make_series, make_tree

from forkwheel import cli
from forkwheel.recipe import Package
from forkwheel.tree import Tree

RECIPE = """
[recipe]
name = "demo"
local = "demo"
revision = 1
target = "sm_120a"
"""
PACKAGE = """
[[package]]
name = "{name}"
version = "1.0"
epoch = 1700000000
{series}
[[package.source]]
kind = "sdist"
filename = "{name}-1.0.tar.gz"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
"""
OTHER = EDIT.replace(b"f.txt", b"g.txt")


@dataclass(frozen=True)
class FakeSource:
    tree: Tree


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a recipe of two patched packages and one that is not."""
    make_series(tmp_path / "patches/one", {"a.patch": EDIT, "b.patch": OTHER})
    make_series(tmp_path / "patches/two", {"z.patch": EDIT})
    packages = [PACKAGE.format(name=name, series=f'series = "../../patches/{name}"') for name in ("one", "two")]
    (tmp_path / "recipes/demo").mkdir(parents=True)
    text = RECIPE + "".join(packages) + PACKAGE.format(name="three", series="")
    (tmp_path / "recipes/demo/recipe.toml").write_text(text)
    tree = make_tree(tmp_path / "tree", {"f.txt": LINES, "g.txt": LINES})
    monkeypatch.setattr("forkwheel.sources.source_tree", lambda package, **_: FakeSource(tree))
    monkeypatch.setenv("FORKWHEEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> int:
    return cli.run(["patches", "--recipe", "demo", *arguments])


def test_the_series_is_shown_in_order(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0

    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["1", "a.patch", "f.txt", "1", "clean", "no"] in rows
    assert ["2", "b.patch", "g.txt", "1", "clean", "no"] in rows
    assert ["1", "z.patch", "f.txt", "1", "clean", "no"] in rows


def test_the_document_holds_a_verdict_for_each_hunk(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two = EDIT.replace(b"line 10", b"line ten") + b"--- a/g.txt\n+++ b/g.txt\n@@ -1 +1 @@\n-x\n+y\n"
    make_series(place / "patches/one", {"a.patch": OTHER, "b.patch": two, "c.patch": EDIT})

    assert run("--package", "one", "--json") == 4

    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["recipe"]) == (1, "demo")
    (package,) = document["packages"]
    patches = package["patches"]
    assert [patch["verdict"] for patch in patches] == ["clean", "conflict", "not checked"]
    assert [file["verdict"] for file in patches[1]["files"]] == ["conflict", "not checked"]
    assert patches[0]["files"][0]["hunks"] == [{"line": 8, "old_start": 7, "verdict": "clean"}]
    assert patches[1]["files"][0]["hunks"][0]["verdict"] == "conflict"
    assert "b.patch:8: hunk 1 of 1" in patches[1]["fault"]


def test_a_source_that_has_the_series_is_said_to_have_it(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("f.txt", "g.txt"):
        (place / "tree" / name).write_bytes(LINES.replace(b"line 10", b"ten"))
    tree = make_tree(place / "tree", {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("forkwheel.sources.source_tree", lambda package, **_: FakeSource(tree))
        assert run("--package", "one") == 0

    output = capsys.readouterr().out
    assert "the source has the whole series already" in output
    assert output.count("already-applied") == 2


def test_the_check_passes_on_a_series_as_exported(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--check") == 0
    assert "[one] the patches are as exported, listed, and apply" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b" @@\n", b" @@ function\n", "a.patch:8: the patch is not as it would be exported"),
        (b"Origin: tests\n", b"", "the header lacks `Origin:`"),
        (b"Origin: tests\n", b"Origin: tests\nDrop-After: 1.0\n", "a.patch has expired"),
        (b"-line 10", b"-line ten", "does not apply at line 7 (conflict)"),
    ],
)
def test_the_check_fails_on_each_fault(
    place: Path, capsys: pytest.CaptureFixture[str], old: bytes, new: bytes, words: str
) -> None:
    file = place / "patches/one/a.patch"
    file.write_bytes(file.read_bytes().replace(old, new, 1))

    assert run("--check") == 4

    captured = capsys.readouterr()
    assert words in captured.err
    assert "[two] the patches are as exported" in captured.out


def test_the_check_fails_on_an_unlisted_patch(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "patches/two/more.patch").write_bytes(b"")

    assert run("--check", "--json") == 4

    document = json.loads(capsys.readouterr().out)
    faults = {package["package"]: package["faults"] for package in document["packages"]}
    assert faults["one"] == []
    assert "more.patch:1: the patch is not listed" in faults["two"][0]["message"]


def test_a_patch_is_edited_and_written_back(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--edit", "b") == 0
    shown = capsys.readouterr().out
    assert "b.patch is open in build/patches/one" in shown
    assert "nox -s patches -- --recipe demo --package one --refresh" in shown
    file = place / "build/patches/one/g.txt"
    file.write_bytes(file.read_bytes().replace(b"ten\n", b"TEN\n"))

    assert run("--refresh") == 0

    assert b"+TEN\n" in (place / "patches/one/b.patch").read_bytes()
    assert "b.patch is written: g.txt" in capsys.readouterr().out
    assert run("--check") == 0


def test_a_new_patch_is_started_and_filled_in(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--new", "later", "g.txt", "--package", "two", "--worktree", "my/tree") == 0
    assert "edit my/tree/g.txt" in capsys.readouterr().out
    (place / "my/tree/g.txt").write_bytes(b"short\n")
    assert run("--refresh", "--worktree", "my/tree") == 0
    assert "fill in Description, Origin, Forwarded in patches/two/later.patch" in capsys.readouterr().out
    assert run("--check", "--package", "two") == 4
    file = place / "patches/two/later.patch"
    file.write_bytes(filled_in(file.read_bytes()))

    assert run("--check", "--package", "two") == 0
    assert run("--refresh", "--worktree", "my/tree") == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--edit", "nothing"), "no series of demo has nothing.patch"),
        (("--edit", "../x"), "no plain patch name"),
        (("--new", "a", "f.txt"), "has a.patch already"),
        (("--new", "q", "f.txt"), "give --package"),
        (("--new", "q", "h.txt", "--package", "two"), "close to it: "),
        (("--refresh",), "no work tree is open"),
        (("--refresh", "--worktree", "tree"), "is no open work tree"),
        (("--package", "three"), "three has no patch series"),
        (("--package", "four"), "no package 'four'"),
    ],
)
def test_a_mistake_is_one_error_of_usage(
    place: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    assert run(*arguments) == 2
    assert words in capsys.readouterr().err


def edit(file: Path, old: bytes = b"ten\n", new: bytes = b"TEN\n") -> None:
    content = file.read_bytes()
    assert old in content
    file.write_bytes(content.replace(old, new))


def test_a_series_with_a_header_to_fill_in_is_shown_and_not_accepted(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = place / "patches/two/z.patch"
    edit(file, b"Forwarded: no", b"Forwarded: TODO")

    assert run() == 0

    shown = capsys.readouterr().out
    assert ["clean,", "header", "to", "fill", "in", "to", "fill", "in"] in [
        line.split()[-8:] for line in shown.splitlines()
    ]
    assert "fill in Forwarded in patches/two/z.patch" in shown
    assert "two 1.0: 1 patch\n" in shown
    assert run("--check") == 4
    assert "fill in Forwarded in" in capsys.readouterr().err


def test_the_only_work_tree_with_changes_is_written_back(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("--edit", "a")
    run("--edit", "z")
    edit(place / "build/patches/two/f.txt")

    assert run("--refresh") == 0

    assert "[two] patches/two/z.patch is written" in capsys.readouterr().out


def test_several_work_trees_with_changes_are_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, package in (("a", "one"), ("z", "two")):
        run("--edit", name)
        edit(place / "build/patches" / package / "f.txt")

    assert run("--refresh") == 2

    error = capsys.readouterr().err
    assert "a.patch (one, in build/patches/one), z.patch (two, in build/patches/two)" in error
    assert "`nox -s patches -- --recipe demo --refresh a.patch`" in error
    assert run("--refresh", "z") == 0
    assert run("--refresh") == 0
    assert b"+TEN\n" in (place / "patches/one/a.patch").read_bytes()


def test_work_trees_without_changes_are_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("--edit", "a")
    run("--edit", "z")

    assert run("--refresh") == 2
    assert "no work tree has changes to write back: a.patch (one" in capsys.readouterr().err
    assert run("--refresh", "--package", "two") == 0
    assert run("--refresh", "b") == 2
    assert "b.patch is open in no work tree" in capsys.readouterr().err


def conflict(place: Path) -> None:
    """Leave b.patch of one with a hunk that does not fit."""
    second = EDIT.replace(b"-line 10\n+ten", b"-ten\n+10")
    make_series(place / "patches/one", {"a.patch": EDIT, "b.patch": second})
    run("--edit", "a")
    edit(place / "build/patches/one/f.txt")
    assert run("--refresh") == 4


def test_hunks_that_are_left_end_in_a_failure_until_they_are_dealt_with(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conflict(place)
    before = (place / "patches/one/b.patch").read_bytes()

    assert run("--edit", "b") == 4
    assert "1 part of it could not be brought in; build/patches/one/LEFT.patch holds" in capsys.readouterr().out
    assert run("--refresh") == 4
    assert "LEFT.patch holds hunks of b.patch" in capsys.readouterr().err
    assert (place / "patches/one/b.patch").read_bytes() == before

    edit(place / "build/patches/one/f.txt", b"TEN\n", b"10\n")
    (place / "build/patches/one/LEFT.patch").unlink()
    assert run("--refresh") == 0
    assert b"-TEN\n+10\n" in (place / "patches/one/b.patch").read_bytes()
    assert run("--check") == 0


def test_a_work_tree_with_left_hunks_counts_as_one_to_write_back(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conflict(place)
    run("--edit", "b")
    run("--edit", "z")

    assert run("--refresh") == 4
    (place / "build/patches/one/LEFT.patch").unlink()
    assert run("--refresh") == 4

    assert "differs in nothing from the tree without the patch" in capsys.readouterr().err


def test_work_trees_are_closed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("--edit", "a")
    run("--edit", "z")
    edit(place / "build/patches/two/f.txt")

    assert run("--close") == 4
    captured = capsys.readouterr()
    assert "build/patches/two holds unsaved work on z.patch" in captured.err
    assert "`nox -s patches -- --recipe demo --package two --refresh`" in captured.err
    assert (place / "build/patches/one").exists()

    assert run("--refresh") == 0
    assert "--recipe demo --package two --close" in capsys.readouterr().out
    assert run("--close", "z") == 0
    assert run("--close") == 0
    assert list((place / "build/patches").iterdir()) == []
    assert run("--close") == 2


def test_a_work_tree_elsewhere_is_named_in_the_commands(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("--edit", "a", "--worktree", "my tree")
    assert "--package one --refresh --worktree 'my tree'" in capsys.readouterr().out
    assert run("--close", "--worktree", "my tree") == 0
    assert not (place / "my tree").exists()


@pytest.mark.parametrize(("name", "closest"), [("zebra", "z-bra.patch"), ("admit", "layer-gate-admit.patch")])
def test_the_closest_name_is_given(place: Path, capsys: pytest.CaptureFixture[str], name: str, closest: str) -> None:
    (place / "patches/two/z.patch").unlink()
    make_series(place / "patches/two", {"z-bra.patch": EDIT, "layer-gate-admit.patch": OTHER})

    assert run("--edit", name) == 2

    assert f"the closest is {closest}: `nox -s patches -- --recipe demo --edit {closest}`" in capsys.readouterr().err


def test_where_the_header_is_edited_is_said(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = "is edited in the patch file itself: patches/one/b.patch"
    for arguments in (("--edit", "b"), ("--refresh",)):
        assert run(*arguments) == 0
        assert said in capsys.readouterr().out
    assert run("--new", "c", "g.txt", "--package", "one") == 0
    assert "once --refresh has made it: patches/one/c.patch" in capsys.readouterr().out


def test_a_broken_later_patch_is_an_error_that_says_how_to_go_on(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_series(place / "patches/two", {"z.patch": EDIT, "zz.patch": EDIT.replace(b"-line 10\n+ten", b"-ten\n+x")})
    run("--edit", "z")
    file = place / "build/patches/two/f.txt"
    file.write_bytes(file.read_bytes().replace(b"ten\n", b"TEN\n"))

    assert run("--refresh") == 4

    error = capsys.readouterr().err
    assert "zz.patch:8: a hunk for f.txt no longer applies" in error
    assert "`nox -s patches -- --recipe demo --edit zz.patch`" in error


def test_a_name_that_is_not_utf8_is_shown(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    diff = EDIT.replace(b"a/f.txt", b'"a/caf\\351.txt"').replace(b"b/f.txt", b'"b/caf\\351.txt"')
    make_series(place / "patches/two", {"z.patch": diff})
    tree = make_tree(place / "tree", {name: LINES})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("forkwheel.sources.source_tree", lambda package, **_: FakeSource(tree))
        assert run("--package", "two") == 0
        assert run("--package", "two", "--check") == 0
        (place / "tree" / name).write_bytes(LINES.replace(b"line 10", b"LINE 10"))
        tree = make_tree(place / "tree", {})
        assert run("--package", "two") == 4

    assert "caf\\udce9.txt" in capsys.readouterr().out


def test_a_series_is_checked_against_every_wheel_of_a_package(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = '[[package.source]]\nkind = "wheel"\nfilename = "three-1.0-{}-none-any.whl"\nsha256 = "' + "0" * 64 + '"\n'
    text = PACKAGE.format(name="three", series='series = "../../patches/two"').partition("[[package.source]]")[0]
    (place / "recipes/demo/recipe.toml").write_text(RECIPE + text + source.format("cp311") + source.format("cp312"))
    fitting = make_tree(place / "fitting", {"f.txt": LINES})
    other = make_tree(place / "other", {"f.txt": LINES.replace(b"line 10\n", b"")})

    def source_tree(package: Package, **_: object) -> FakeSource:
        return FakeSource(other if "cp312" in package.sources[0].pin else fitting)

    monkeypatch.setattr("forkwheel.sources.source_tree", source_tree)

    assert run("--check") == 4
    error = capsys.readouterr().err
    assert "three-1.0-cp312-none-any.whl: " in error
    assert "cp311" not in error


@pytest.mark.parametrize("action", [[], ["--check"]], ids=["show", "check"])
def test_edits_that_were_not_written_back_are_a_warning(
    place: Path, capsys: pytest.CaptureFixture[str], action: list[str]
) -> None:
    assert run("--edit", "a.patch") == 0
    capsys.readouterr()
    assert run(*action) == 0
    assert "warning" not in capsys.readouterr().out

    edited = place / "build/patches/one/f.txt"
    edited.write_bytes(edited.read_bytes() + b"more\n")

    assert run(*action) == 0
    warnings = [line for line in capsys.readouterr().out.splitlines() if "warning: " in line]
    assert len(warnings) == 1
    assert "a.patch has edits in build/patches/one" in warnings[0]
    assert warnings[0].endswith("nox -s patches -- --recipe demo --package one --refresh")
