"""Porting from sdist to sdist: what is kept, dropped, in conflict, given up, and written."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from patch_support import EDIT, HEADER, LINES
from port_support import OTHER, Project, conflicting, project, repository, sdist, upstream, with_git

from forkwheel import cli
from forkwheel.console import Console
from forkwheel.fetch import FetchContext
from forkwheel.patching.git import run_git
from forkwheel.patching.series import load_series
from forkwheel.pipeline import audit_plans, open_workshop
from forkwheel.recipe import load_recipe
from forkwheel.store import Store

__all__ = ["project"]

SECOND = EDIT.replace(b"-line 10\n+ten\n", b"-ten\n+TEN\n")


def test_a_series_that_only_moved_is_ported_and_back_to_the_same_bytes(project: Project) -> None:
    project.release("1.0", {"f.txt": LINES})
    project.release("2.0", {"f.txt": b"new\n" * 3 + LINES + b"more\n"})
    project.write({"a.patch": EDIT, "b.patch": SECOND})

    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 0
    back = project.folder / "back"
    assert project.run("--to", "demo=1.0", "--name", "back", "--out", str(back), recipe="wide-2") == 0

    assert b"@@ -10,7 +10,7 @@" in (project.series("2.0") / "a.patch").read_bytes()
    for name in ("a.patch", "b.patch", "series"):
        assert (back / "patches/demo/1.0" / name).read_bytes() == (project.series("1.0") / name).read_bytes()
    assert not project.work.exists()


def test_the_new_recipe_keeps_comments_and_has_the_new_pins(project: Project) -> None:
    project.release("1.0", {"f.txt": LINES, "docs/x.txt": b"x\n"})
    archive = project.release("2.0", {"f.txt": b"new\n" + LINES})
    project.write({"a.patch": EDIT}, more='include = [\n  "f.txt",\n  "docs/**",\n]')

    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 0

    file = project.repository / "recipes/wide-2/recipe.toml"
    recipe = load_recipe(file)
    assert file.read_text().startswith("# Why this recipe is.\n")
    assert (recipe.name, recipe.revision) == ("wide-2", 1)
    (package,) = recipe.packages
    assert (package.version, package.epoch, package.include) == ("2.0", 1_700_000_000, ("f.txt",))
    assert package.series == project.series("2.0").resolve()
    assert package.sources[0].sha256 == hashlib.sha256(archive.read_bytes()).hexdigest()  # type: ignore[union-attr]


def test_two_ports_write_the_same_and_have_the_same_commits(project: Project) -> None:
    conflicting(project)
    written, commits = [], []
    for number in ("1", "2"):
        out = project.folder / number
        assert project.run("--to", "demo=2.0", "--name", "wide-2", "--out", str(out)) == 4
        commits.append(run_git("log", "--all", "--format=%H", folder=project.work / "demo"))
        assert project.run("--skip") == 0
        written.append({str(file.relative_to(out)): file.read_bytes() for file in out.rglob("*") if file.is_file()})
    assert written[0] == written[1]
    assert commits[0] == commits[1]


def test_what_upstream_took_is_dropped_with_a_note(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.release("1.0", {"f.txt": LINES, "g.txt": LINES})
    project.release("2.0", {"f.txt": LINES.replace(b"line 10\n", b"ten\n"), "g.txt": LINES})
    requires = HEADER.replace(b"Last-Update", b"Requires: a.patch\nLast-Update")
    project.write({"a.patch": EDIT, "b.patch": OTHER}, headers={"b.patch": requires})

    assert project.run("--to", "demo=2.0", "--name", "wide-2", "--json") == 0

    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert told["kept"] == ["b.patch"]
    assert "upstream has the same change" in told["dropped"]["a.patch"]
    (patch,) = load_series(project.series("2.0")).patches
    assert (patch.name, patch.header.requires) == ("b.patch", ())
    assert (project.series("2.0") / "series").read_text() == "# the order matters\nb.patch\n"


def test_what_its_header_says_that_upstream_has_is_dropped(project: Project) -> None:
    project.release("1.0", {"f.txt": LINES, "g.txt": LINES})
    project.release("2.0", {"f.txt": LINES.replace(b"line 10\n", b"10\n"), "g.txt": LINES})
    expired = HEADER.replace(b"Last-Update", b"Applied-Upstream: 1.5\nLast-Update")
    project.write({"a.patch": EDIT, "b.patch": OTHER}, headers={"a.patch": expired})
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 0
    assert [patch.name for patch in load_series(project.series("2.0")).patches] == ["b.patch"]


def test_a_file_that_moved_takes_its_patch_along(project: Project) -> None:
    project.release("1.0", {"f.txt": LINES, "other.txt": b"other\n"})
    project.release("2.0", {"lib/f.txt": b"new\n" + LINES, "other.txt": b"other\n"})
    project.write({"a.patch": EDIT})
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 0
    (patch,) = load_series(project.series("2.0")).patches
    assert [file.path for file in patch.files] == ["lib/f.txt"]


def test_a_conflict_stops_and_says_how_to_go_on(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    conflicting(project)
    before = project.snapshot()

    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 4

    told = capsys.readouterr().err
    for words in ("b.patch", str(project.work / "demo" / "g.txt"), "--continue", "--skip", "--abort"):
        assert words in told
    assert b"<<<<<<<" in (project.work / "demo/g.txt").read_bytes()
    assert project.snapshot() == before


def test_a_mended_conflict_is_gone_on_from(project: Project) -> None:
    conflicting(project)
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 4
    (project.work / "demo/g.txt").write_bytes(LINES.replace(b"line 10\n", b"ten of 10\n"))

    assert project.run("--continue") == 0

    patches = load_series(project.series("2.0")).patches
    assert [patch.name for patch in patches] == ["a.patch", "b.patch"]
    assert b"-10\n+ten of 10\n" in patches[1].content
    assert patches[1].header.text == HEADER


def test_marks_of_a_conflict_are_never_committed(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    conflicting(project)
    before = project.snapshot()
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 4
    assert project.run("--continue") == 4
    assert "still holds the marks" in capsys.readouterr().err
    assert project.snapshot() == before


def test_a_conflict_mended_to_upstreams_side_drops_the_patch(project: Project) -> None:
    conflicting(project)
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 4
    (project.work / "demo/g.txt").write_bytes(LINES.replace(b"line 10\n", b"10\n"))
    assert project.run("--continue") == 0
    assert [patch.name for patch in load_series(project.series("2.0")).patches] == ["a.patch"]


def test_a_conflict_that_a_person_committed_is_gone_on_from(project: Project) -> None:
    conflicting(project)
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 4
    folder = project.work / "demo"
    (folder / "g.txt").write_bytes(LINES.replace(b"line 10\n", b"ten of 10\n"))
    who = {f"GIT_{role}_{key}": "x@localhost" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    run_git("add", "--all", folder=folder)
    run_git("commit", "--quiet", "-m", "mended", folder=folder, environment=who)
    assert project.run("--continue") == 0
    assert [patch.name for patch in load_series(project.series("2.0")).patches] == ["a.patch", "b.patch"]


def test_commits_beside_the_patch_are_refused(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    conflicting(project)
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 4
    folder = project.work / "demo"
    who = {f"GIT_{role}_{key}": "x@localhost" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    run_git("reset", "--quiet", "--hard", folder=folder)
    for name in ("one", "two"):
        run_git("commit", "--quiet", "--allow-empty", "-m", name, folder=folder, environment=who)
    assert project.run("--continue") == 4
    assert "is not one commit after" in capsys.readouterr().err


def test_a_file_that_upstream_removed_is_decided_on_by_a_person(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.release("1.0", {"f.txt": LINES, "g.txt": LINES.replace(b"line", b"row")})
    project.release("2.0", {"f.txt": b"new\n" + LINES})
    project.write({"a.patch": EDIT, "b.patch": OTHER.replace(b"line", b"row")})
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 4
    assert project.run("--continue") == 4
    assert "removed by one side" in capsys.readouterr().err
    run_git("rm", "--quiet", "g.txt", folder=project.work / "demo")
    assert project.run("--continue") == 0
    assert [patch.name for patch in load_series(project.series("2.0")).patches] == ["a.patch"]


def test_a_patch_that_changed_meanwhile_is_not_gone_on_with(project: Project) -> None:
    conflicting(project)
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 4
    (project.series("1.0") / "a.patch").write_bytes(HEADER + EDIT.replace(b"+ten", b"+TEN"))
    assert project.run("--continue") == 2


def test_a_file_that_both_sides_made_is_mended_like_any_other(project: Project) -> None:
    creation = b"--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    project.release("1.0", {"f.txt": LINES})
    project.release("2.0", {"f.txt": LINES, "new.txt": b"one\n2\n"})
    project.write({"a.patch": creation})
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 4
    (project.work / "demo/new.txt").write_bytes(b"one\n2\nthree\n")
    assert project.run("--continue") == 0
    assert (project.series("2.0") / "a.patch").read_bytes().endswith(b"@@ -1,2 +1,3 @@\n one\n 2\n+three\n")


@pytest.mark.parametrize("action", ["--continue", "--skip"])
def test_a_work_tree_that_is_gone_is_one_error(
    project: Project, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    conflicting(project)
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 4
    shutil.rmtree(project.work / "demo")
    capsys.readouterr()
    assert project.run(action) == 2
    assert "is no git work tree any more" in capsys.readouterr().err
    assert project.run("--abort") == 0


@pytest.mark.parametrize("text", ["", "x = [", None])
def test_a_damaged_package_of_the_state_is_one_error(
    project: Project, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    conflicting(project)
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 4
    file = project.work / "demo.port.toml"
    file.unlink() if text is None else file.write_text(text)
    capsys.readouterr()
    assert project.run("--continue") == 2
    told = capsys.readouterr().err
    assert "the state of the port is damaged" in told
    assert f"remove {project.work}, and begin again" in told


def test_a_revision_of_another_project_is_refused(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    conflicting(project)
    project.release("3.0", {"else.txt": b"else\n"})
    assert project.run("--to", "demo=3.0") == 2
    assert "demo 3.0 has none of the files" in capsys.readouterr().err
    assert not project.work.exists()


def test_a_port_that_is_given_up_leaves_nothing(project: Project) -> None:
    conflicting(project)
    before = project.snapshot()
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 4
    assert project.run("--abort") == 0
    assert project.snapshot() == before
    assert not project.work.exists()


def test_one_port_at_a_time(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    conflicting(project)
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 4
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 2
    assert "not finished" in capsys.readouterr().err


def test_a_series_that_changed_meanwhile_is_not_gone_on_with(project: Project) -> None:
    conflicting(project)
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 4
    (project.series("1.0") / "series").write_text("a.patch\n")
    (project.series("1.0") / "b.patch").unlink()
    assert project.run("--continue") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "demo=9.9"], "no demo 9.9"),
        (["--to", "demo"], "'demo' is not PACKAGE=VERSION[@REVISION]"),
        (["--to", "demo="], "'demo=' is not PACKAGE=VERSION[@REVISION]"),
        (["--to", "=2.0"], "'=2.0' is not PACKAGE=VERSION[@REVISION]"),
        (["--to", "@"], "'@' is not PACKAGE=VERSION[@REVISION]"),
        (["--to", ""], "'' is not PACKAGE=VERSION[@REVISION]"),
        (["--to", "demo=2.0@"], "no revision follows the `@`"),
        (["--to", "demo=@main"], "'' is no version of demo"),
        (["--to", "demo=2.0+us.1"], "'2.0+us.1' is no version of demo"),
        (["--to", "demo=2.0", "--repository", "demo="], "'demo=' is not PACKAGE=FOLDER-or-URL"),
        (["--to", "demo=2.0", "--repository", "other=."], "has no package 'other'"),
        (["--to", "other=2.0"], "has no package 'other'"),
        (["--to", "demo=2.0", "--to", "demo=1.0"], "--to names demo twice"),
        (["--to", "demo=new"], "no version of demo"),
        (["--to", "demo=2.0@main"], "no git source"),
        (["--to", "demo=1.0"], "exists already"),
        (["--to", "demo=2.0", "--name", "wide"], "cannot be the new recipe's name"),
        (["--to", "demo=2.0", "--name", ""], "cannot be the new recipe's name"),
        (["--to", "demo=2.0", "--name", ".."], "cannot be the new recipe's name"),
        (["--to", "demo=2.0", "--name=-x"], "cannot be the new recipe's name"),
        (["--to", "demo=2.0", "--name", "a/b"], "cannot be the new recipe's name"),
        (["--to", "demo=2.0", "--out", "recipes/wide/recipe.toml"], "recipe.toml is no folder"),
        (["--to", "demo=2.0", "--out", "../work/out"], "lies in the work folder"),
        (["--continue"], "no port is open"),
        (["--abort"], "no port is open"),
    ],
)
def test_what_cannot_be_ported_is_one_error(
    project: Project, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    conflicting(project)
    before = project.snapshot()
    assert project.run(*arguments) in (2, 3)
    assert message in capsys.readouterr().err
    assert project.snapshot() == before
    assert not project.work.exists()


def test_verdicts_are_shown_and_are_the_exit_status(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    conflicting(project)
    assert upstream("--to", "1.0") == 0
    assert upstream("--to", "2.0") == 4
    assert "conflict" in capsys.readouterr().out
    assert upstream("--to", "1.0..2.0", "--json") == 4
    told = json.loads(capsys.readouterr().out)
    rows = {course["name"]: course for course in told["patches"]}
    assert (rows["b.patch"]["applied_until"], rows["b.patch"]["changed_in"]) == ("1.0", "2.0")
    assert rows["a.patch"]["changed_in"] is None
    assert [revision["revision"] for revision in told["revisions"]] == ["1.0", "2.0"]


def test_a_file_is_judged_as_its_version_is(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    conflicting(project)
    assert upstream("--to", str(project.links / "demo-2.0.tar.gz"), "--json") == 4
    assert json.loads(capsys.readouterr().out)["revisions"][0]["version"] == "2.0"


@pytest.mark.parametrize(
    ("files", "text", "message"),
    [
        ({"h.txt": b"else\n"}, "demo-3.0.tar.gz", "another project"),
        (None, "other-3.0.tar.gz", "is of other"),
        (None, "absent-3.0.tar.gz", "no such file"),
    ],
)
def test_a_series_of_another_project_is_one_error(
    project: Project, capsys: pytest.CaptureFixture[str], files: dict[str, bytes] | None, text: str, message: str
) -> None:
    conflicting(project)
    if files is not None:
        project.release("3.0", files)
    elif text.startswith("other"):
        sdist(project.links, "3.0", {"f.txt": LINES}, name="other")
    assert upstream("--to", str(project.links / text)) == 2
    assert message in capsys.readouterr().err


def test_a_damaged_file_is_one_error(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    conflicting(project)
    archive = project.release("3.0", {"f.txt": LINES})
    archive.write_bytes(archive.read_bytes()[:-40])
    assert upstream("--to", str(archive)) == 3
    assert "is damaged" in capsys.readouterr().err


def test_a_build_past_the_release_that_took_a_patch_names_the_patch(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.release("1.0", {"f.txt": LINES})
    expired = HEADER.replace(b"Last-Update", b"Drop-After: 0.9\nLast-Update")
    project.write({"a.patch": EDIT}, headers={"a.patch": expired})
    assert cli.run(["build", "--recipe", "wide", "--out", str(project.folder / "dist")]) == 4
    assert "drop a.patch" in capsys.readouterr().err


@pytest.mark.parametrize(("target", "gates"), [("sm_120a", False), ("any", False), ("sm_120a", True)])
def test_a_series_for_a_gpu_without_gates_is_told_to_be_unaudited(
    project: Project,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    gates: bool,
) -> None:
    project.release("1.0", {"f.txt": LINES})
    project.write({"a.patch": EDIT})
    file = project.repository / "recipes/wide/recipe.toml"
    file.write_text(file.read_text().replace("sm_120a", target))
    if gates:
        file.with_name("gates.toml").write_text('references = ["9.0"]\n')
    monkeypatch.setattr("forkwheel.gates.check.check_plans", lambda *_, **__: None)
    monkeypatch.setattr("forkwheel.pipeline.check_plan", lambda _: ())
    recipe, console = load_recipe(file), Console()
    shop = open_workshop(recipe, context=FetchContext(Store.default(), console.bind("wide")), console=console)
    plan: Any = SimpleNamespace(
        series=load_series(recipe.packages[0].series), source=None, key=SimpleNamespace(digest="k")
    )
    audit_plans(shop, (plan,))
    told = "the gates are not audited" in capsys.readouterr().out
    assert told == (target != "any" and not gates)


def test_a_release_that_was_yanked_is_refused_and_left_out_of_a_range(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    conflicting(project)
    assert upstream("--to", "2.0") == 4  # so that the cache has it
    project.release("3.0", {"f.txt": LINES, "g.txt": LINES})
    rows = []
    for version, yanked in (("1.0", ""), ("2.0", ' data-yanked="wrong files"'), ("3.0", "")):
        file = project.links / f"demo-{version}.tar.gz"
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        rows.append(f'<a href="{file.as_uri()}#sha256={digest}"{yanked}>{file.name}</a>')
    page = project.folder / "page.html"
    page.write_text("<!DOCTYPE html><html><body>" + "\n".join(rows) + "</body></html>")
    monkeypatch.setenv("PIP_FIND_LINKS", str(page))

    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 3
    assert "demo 2.0 was yanked by its authors: wrong files" in capsys.readouterr().err
    monkeypatch.setenv("FORKWHEEL_CACHE", str(project.folder / "another cache"))
    assert upstream("--to", "2.0") == 3
    assert "demo 2.0 was yanked by its authors: wrong files" in capsys.readouterr().err
    assert upstream("--to", "1.0..3.0", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [revision["revision"] for revision in told["revisions"]] == ["1.0", "3.0"]


def test_git_revisions_are_judged_and_searched(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    conflicting(project)
    folder, first = repository(project)
    assert upstream("--to", "v2.0", "--repository", str(folder), "--json") == 0
    (revision,) = json.loads(capsys.readouterr().out)["revisions"]
    assert [patch["verdict"] for patch in revision["patches"]] == ["offset +1", "already-applied"]

    with_git(project, folder, first)
    assert upstream("--to", "HEAD", "--bisect", "--json") == 0
    traced = {item["patch"]: item for item in json.loads(capsys.readouterr().out)["patches"]}
    assert traced["a.patch"]["taken"] is None
    assert traced["b.patch"]["taken"]["release"] == "v2.0"
    assert upstream("--to", "nosuch") == 2
    assert "no revision 'nosuch'" in capsys.readouterr().err


def test_a_series_is_ported_to_a_git_revision(project: Project) -> None:
    conflicting(project)
    folder, first = repository(project)
    with_git(project, folder, first)
    assert project.run("--to", "demo=2.0@v2.0", "--name", "wide-2") == 0
    (package,) = load_recipe(project.repository / "recipes/wide-2/recipe.toml").packages
    (source,) = package.sources
    commit = run_git("rev-parse", "v2.0", folder=folder).decode().strip()
    assert (source.kind, source.commit, source.tag) == ("git", commit, "v2.0")  # type: ignore[union-attr]
    assert [patch.name for patch in load_series(project.series("2.0")).patches] == ["a.patch"]


@pytest.mark.parametrize("text", ["[]", "1", '{"format": 2, "packages": [[]]}', '{"format": 2, "packages": 3}'])
def test_a_damaged_state_is_one_error(project: Project, capsys: pytest.CaptureFixture[str], text: str) -> None:
    conflicting(project)
    project.work.mkdir()
    (project.work / "port.json").write_text(text)
    assert project.run("--continue") == 2
    assert "is damaged" in capsys.readouterr().err


def by_hand(folder: Path, *arguments: str) -> None:
    """Run git as a person does in the work tree."""
    who = {f"GIT_{role}_{key}": "x@localhost" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    run_git(*arguments, folder=folder, environment=who)


MENDED = LINES.replace(b"line 10\n", b"ten of 10\n")


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("left", ["whole", "<<<<<<< HEAD", "=======", ">>>>>>> 0123456 (b.patch)"])
def test_marks_that_were_added_or_committed_are_refused_by_line(
    project: Project, capsys: pytest.CaptureFixture[str], left: str, committed: bool
) -> None:
    conflicting(project)
    before = project.snapshot()
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 4
    folder = project.work / "demo"
    if left != "whole":
        (folder / "g.txt").write_bytes(MENDED.replace(b"line 10\n", b"ten\n") + left.encode() + b"\n")
    by_hand(folder, "add", "g.txt")
    if committed:
        by_hand(folder, "commit", "--quiet", "-m", "mended")
    assert project.run("--continue") == 4
    line = 10 if left == "whole" else 21
    assert f"g.txt:{line} still holds the marks" in capsys.readouterr().err
    assert project.snapshot() == before


def test_what_looks_like_marks_and_is_the_sources_own_stays(project: Project) -> None:
    text = b"Heading\n=======\n"
    project.release("1.0", {"f.txt": LINES, "g.txt": LINES + text})
    project.release("2.0", {"f.txt": LINES, "g.txt": LINES.replace(b"line 10\n", b"10\n") + text})
    project.write({"b.patch": OTHER})
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 4
    (project.work / "demo/g.txt").write_bytes(MENDED + text)
    assert project.run("--continue") == 0


@pytest.mark.parametrize("path", ["f.txt", "g.txt"])
def test_edits_after_a_persons_commit_are_not_lost(
    project: Project, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    conflicting(project)
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 4
    folder = project.work / "demo"
    (folder / "g.txt").write_bytes(MENDED)
    by_hand(folder, "commit", "--quiet", "--all", "-m", "mended")
    content = (folder / path).read_bytes() + b"a later edit\n"
    (folder / path).write_bytes(content)

    assert project.run("--continue") == 4
    assert f"not committed: {path}" in capsys.readouterr().err
    assert (folder / path).read_bytes() == content
    by_hand(folder, "commit", "--quiet", "--all", "--amend", "--no-edit")
    assert project.run("--continue") == 0
    assert b"+a later edit\n" in (project.series("2.0") / "b.patch").read_bytes()


def test_edits_beside_the_conflict_are_taken_along(project: Project) -> None:
    conflicting(project)
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 4
    folder = project.work / "demo"
    (folder / "g.txt").write_bytes(MENDED)
    (folder / "f.txt").write_bytes((folder / "f.txt").read_bytes() + b"another edit\n")
    assert project.run("--continue") == 0
    assert b"+another edit\n" in (project.series("2.0") / "b.patch").read_bytes()


def test_edits_without_a_conflict_are_not_lost(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    conflicting(project)
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 4
    folder = project.work / "demo"
    by_hand(folder, "reset", "--quiet", "--hard")
    (folder / "g.txt").write_bytes(MENDED)
    assert project.run("--continue") == 4
    assert "not committed: g.txt" in capsys.readouterr().err
    assert (folder / "g.txt").read_bytes() == MENDED


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("path", ["g.txt.orig", "__pycache__/x.pyc", "notes"])
def test_stray_files_are_refused_by_name(
    project: Project, capsys: pytest.CaptureFixture[str], path: str, committed: bool
) -> None:
    conflicting(project)
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 4
    folder = project.work / "demo"
    (folder / "g.txt").write_bytes(MENDED)
    if committed:
        by_hand(folder, "commit", "--quiet", "--all", "-m", "mended")
    (folder / path).parent.mkdir(exist_ok=True)
    (folder / path).write_bytes(b"stray\n")

    assert project.run("--continue") == 4
    assert f"not part of the patch: {path}" in capsys.readouterr().err
    (folder / path).unlink()
    assert project.run("--continue") == 0
    patches = load_series(project.series("2.0")).patches
    assert [[file.path for file in patch.files] for patch in patches] == [["f.txt"], ["g.txt"]]


def test_a_new_file_that_a_person_added_belongs_to_the_patch(project: Project) -> None:
    conflicting(project)
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 4
    folder = project.work / "demo"
    (folder / "g.txt").write_bytes(MENDED)
    (folder / "h.txt").write_bytes(b"new\n")
    by_hand(folder, "add", "h.txt")
    assert project.run("--continue") == 0
    (_, patch) = load_series(project.series("2.0")).patches
    assert sorted(file.path for file in patch.files) == ["g.txt", "h.txt"]


@pytest.mark.parametrize("arguments", [("reset", "--quiet", "--hard"), ("commit", "--quiet", "--all", "-m", "mended")])
def test_nothing_is_skipped_where_nothing_is_in_conflict(
    project: Project, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    conflicting(project)
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 4
    folder = project.work / "demo"
    (folder / "g.txt").write_bytes(MENDED)
    by_hand(folder, *arguments)
    state = (project.work / "port.json").read_bytes()
    assert project.run("--skip") == 2
    assert "none to skip" in capsys.readouterr().err
    assert (project.work / "port.json").read_bytes() == state


@pytest.mark.parametrize("committed", [False, True])
def test_edits_after_the_last_patch_are_not_lost(
    project: Project, capsys: pytest.CaptureFixture[str], committed: bool
) -> None:
    conflicting(project)
    assert project.run("--to", "demo=2.0", "--name", "wide-2") == 4
    folder = project.work / "demo"
    (folder / "g.txt").write_bytes(MENDED)
    project.series("2.0").mkdir()
    (project.series("2.0") / "series").write_text("another\n")
    assert project.run("--continue") == 2
    (project.series("2.0") / "series").unlink()
    project.series("2.0").rmdir()

    (folder / "g.txt").write_bytes(MENDED + b"late\n")
    if committed:
        by_hand(folder, "commit", "--quiet", "--all", "-m", "late")
    capsys.readouterr()
    assert project.run("--continue") == 4
    assert ("no patch of demo waits" if committed else "not committed: g.txt") in capsys.readouterr().err
    assert (folder / "g.txt").read_bytes() == MENDED + b"late\n"


@pytest.mark.parametrize("kept", [0, 100])
def test_a_damaged_release_is_one_error(project: Project, capsys: pytest.CaptureFixture[str], kept: int) -> None:
    conflicting(project)
    archive = project.release("3.0", {"f.txt": LINES})
    archive.write_bytes(archive.read_bytes()[:kept])
    assert project.run("--to", "demo=3.0", "--name", "wide-3") == 3
    assert "is damaged" in capsys.readouterr().err
    assert not project.work.exists()
