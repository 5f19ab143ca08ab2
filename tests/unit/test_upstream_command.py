"""The command ``upstream``: what `--to` may name, what is another project, and what is told to be done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from patch_support import EDIT, HEADER, LINES
from port_support import Project, conflicting, project, repository, upstream, with_git

from forkwheel.patching.git import run_git

__all__ = ["project"]

CREATION = b"--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    upstream(*arguments, "--json")
    return json.loads(capsys.readouterr().out)["revisions"]


def test_the_only_file_may_be_renamed(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.release("1.0", {"f.txt": LINES})
    project.release("2.0", {"lib/module.txt": LINES, "many.txt": b"", "others.txt": b""})
    project.write({"a.patch": EDIT})
    ((patch,),) = [revision["patches"] for revision in told(capsys, "--to", "2.0")]
    assert patch["files"][0]["verdict"] == "file moved to lib/module.txt"


def test_the_only_file_may_be_gone(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    same = {f"{name}.txt": b"" for name in ("x", "y", "z")}
    project.release("1.0", {"f.txt": LINES, **same})
    project.release("2.0", same)
    project.write({"a.patch": EDIT})
    ((patch,),) = [revision["patches"] for revision in told(capsys, "--to", "2.0")]
    assert patch["verdict"] == "file gone"


@pytest.mark.parametrize("diff", [EDIT, CREATION])
def test_another_project_is_told_by_all_of_its_files(
    project: Project, capsys: pytest.CaptureFixture[str], diff: bytes
) -> None:
    project.release("1.0", {"f.txt": LINES, "g.txt": b"", "h.txt": b""})
    project.release("2.0", {"setup.py": b"else\n", "src/else.txt": b"else\n"})
    project.write({"a.patch": diff})
    assert upstream("--to", "2.0") == 2
    assert "another project" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("field", "cell"), [("Applied-Upstream: 1.5", "[taken 1.5]"), ("Drop-After: 1.5", "[expired 1.5]")]
)
@pytest.mark.parametrize("changed", [False, True])
def test_a_patch_that_its_header_has_expired_is_to_be_dropped(
    project: Project, capsys: pytest.CaptureFixture[str], field: str, cell: str, changed: bool
) -> None:
    project.release("1.0", {"f.txt": LINES, "g.txt": LINES})
    project.release("2.0", {"f.txt": LINES.replace(b"line 10\n", b"10\n") if changed else LINES, "g.txt": LINES})
    header = HEADER.replace(b"Last-Update", field.encode() + b"\nLast-Update")
    project.write({"a.patch": EDIT, "b.patch": EDIT.replace(b"f.txt", b"g.txt")}, headers={"a.patch": header})

    assert upstream("--to", "2.0") == 0
    shown = capsys.readouterr().out
    assert f"expired: drop it ({field})" in shown
    assert "2.0: 1 of 2 patches apply; expired, drop: a.patch; `port` carries the series over" in shown
    assert upstream("--to", "1.0", "--to", "2.0") == 0
    shown = capsys.readouterr().out
    assert cell in shown
    assert field in shown


def test_what_is_to_be_done_is_told_patch_by_patch(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    conflicting(project)
    assert upstream("--to", "1.0") == 0
    assert "1.0: every patch applies" in capsys.readouterr().out
    assert upstream("--to", "2.0") == 4
    assert "2.0: 1 of 2 patches apply; to be reworked: b.patch; `port`" in capsys.readouterr().out


@pytest.mark.parametrize(("revisions", "words"), [(("1.0", "2.0"), "by 2.0"), (("2.0", "3.0"), "at or before 2.0")])
def test_a_change_is_dated_by_what_was_tested(
    project: Project, capsys: pytest.CaptureFixture[str], revisions: tuple[str, ...], words: str
) -> None:
    conflicting(project)
    project.release("3.0", {"f.txt": LINES, "g.txt": LINES.replace(b"line 10\n", b"10\n")})
    upstream(*(word for revision in revisions for word in ("--to", revision)))
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("b.patch"))
    assert f" {words} " in line


def test_the_reason_of_a_whole_file_is_shown(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.release("1.0", {"f.txt": LINES})
    project.release("2.0", {"f.txt": LINES, "new.txt": b"else\n"})
    project.write({"a.patch": CREATION})
    assert upstream("--to", "2.0") == 4
    assert "another file has its path" in capsys.readouterr().out


@pytest.mark.parametrize("tag", ["v3.0", "3.0"])
def test_a_version_is_judged_by_its_tag_in_the_repository_that_is_given(
    project: Project, capsys: pytest.CaptureFixture[str], tag: str
) -> None:
    conflicting(project)
    folder, _ = repository(project)
    run_git("tag", tag, folder=folder)
    project.release("3.0", {"f.txt": LINES, "g.txt": LINES})
    (revision,) = told(capsys, "--to", "3.0", "--repository", str(folder))
    assert (revision["revision"], revision["version"]) == ("3.0", "3.0")
    assert [patch["verdict"] for patch in revision["patches"]] == ["offset +1", "already-applied"]
    ranged = told(capsys, "--to", "2.0..9", "--repository", str(folder))
    assert [revision["revision"] for revision in ranged] == ["2.0", "3.0"]


def test_a_version_without_a_tag_is_one_error(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    conflicting(project)
    folder, first = repository(project)
    for version in ("1.0", "2.1"):
        assert upstream("--to", version, "--repository", str(folder)) == 2
        assert f"{folder} has no tag v{version} or {version}" in capsys.readouterr().err
    with_git(project, folder, first)
    assert upstream("--to", "2.0", "--bisect", "--json") == 0
    capsys.readouterr()
    assert upstream("--to", "7.0", "--bisect") == 2
    assert "has no tag v7.0 or 7.0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is no version and no file"),
        ("@", "'@' is no version and no file"),
        (".", "'.' is no version and no file"),
        ("~nobody-of-that-name/x", "is no version and no file"),
        ("~nobody-of-that-name/demo-2.0.tar.gz", "no such file"),
        ("x" * 5000, "is no version and no file"),
        ("2.0-RC1", "give 2.0rc1"),
        ("main", "'main' is no version and no file"),
        ("..", "'..' is no range of versions"),
        ("1.0..", "'1.0..' is no range of versions"),
        ("..2.0", "'..2.0' is no range of versions"),
        ("1.0...2.0", "'1.0...2.0' is no range of versions"),
        ("2.0..1.0", "no final release from 2.0 to 1.0"),
        ("7.0", "no demo 7.0"),
        ("demo-7.0.tar.gz", "no such file"),
    ],
)
def test_what_cannot_be_judged_is_one_error(
    project: Project, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    conflicting(project)
    assert upstream("--to", text) == 2
    assert message in capsys.readouterr().err


def test_a_file_of_another_kind_is_one_error(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    conflicting(project)
    for name in ("demo-2.0.zip", "demo-2.0-py3-none-any.whl", "demo.tar.gz", "demo-2.0.tgz"):
        Path(name).write_bytes(b"no archive")
        assert upstream("--to", name) in (2, 3)
        assert capsys.readouterr().err.startswith("error: ")
