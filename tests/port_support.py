"""A recipe for one small package, its releases, and ports of it."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from patch_support import EDIT, HEADER, LINES

from forkwheel import cli
from forkwheel.patching.git import run_git

OTHER = EDIT.replace(b"f.txt", b"g.txt").replace(b"+ten", b"+ten of g")


def sdist(folder: Path, version: str, files: Mapping[str, bytes], *, name: str = "demo") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for member, content in files.items():
            info = tarfile.TarInfo(f"{name}-{version}/{member}")
            info.size, info.mtime = len(content), 1_700_000_000
            tar.addfile(info, io.BytesIO(content))
    return path


class Project:
    """A recipe for one small package in a repository of its own, and the package's releases."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.links = folder / "links"
        self.repository = folder / "repository"
        self.work = folder / "work"

    def release(self, version: str, files: Mapping[str, bytes]) -> Path:
        return sdist(self.links, version, {"pyproject.toml": b"", **files})

    def write(self, diffs: Mapping[str, bytes], *, headers: Mapping[str, bytes] | None = None, more: str = "") -> None:
        """Write a recipe that patches release 1.0."""
        patches = self.repository / "patches" / "demo" / "1.0"
        patches.mkdir(parents=True)
        for name, diff in diffs.items():
            (patches / name).write_bytes((headers or {}).get(name, HEADER) + diff)
        (patches / "series").write_text("# the order matters\n" + "".join(f"{name}\n" for name in diffs))
        digest = hashlib.sha256((self.links / "demo-1.0.tar.gz").read_bytes()).hexdigest()
        recipe = self.repository / "recipes" / "wide" / "recipe.toml"
        recipe.parent.mkdir(parents=True)
        recipe.write_text(
            '# Why this recipe is.\n[recipe]\nname = "wide"\nlocal = "us"\nrevision = 7\ntarget = "sm_120a"\n\n'
            '[[package]]\nname = "demo"\nversion = "1.0"\nepoch = 1600000000  # the date of 1.0\n'
            'series = "../../patches/demo/1.0"\n'
            f"{more}\n[[package.source]]\n"
            f'kind = "sdist"\nfilename = "demo-1.0.tar.gz"\nsha256 = "{digest}"\n'
        )

    def run(self, *arguments: str, recipe: str = "wide") -> int:
        return cli.run(["port", "--recipe", recipe, "--work", str(self.work), *arguments])

    def series(self, version: str) -> Path:
        return self.repository / "patches" / "demo" / version

    def snapshot(self) -> dict[str, bytes]:
        files = (path for path in self.repository.rglob("*") if path.is_file())
        return {str(path.relative_to(self.repository)): path.read_bytes() for path in files}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = Project(tmp_path)
    made.repository.mkdir()
    made.links.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(made.links))
    monkeypatch.setenv("FORKWHEEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(cli._COMMANDS, "port", "forkwheel.upstream.port_commands")
    monkeypatch.setitem(cli._COMMANDS, "upstream", "forkwheel.upstream.commands")
    monkeypatch.chdir(made.repository)
    return made


def conflicting(project: Project) -> None:
    """Make a port of two patches stop at the second."""
    project.release("1.0", {"f.txt": LINES, "g.txt": LINES})
    project.release("2.0", {"f.txt": b"new\n" + LINES, "g.txt": LINES.replace(b"line 10\n", b"10\n")})
    project.write({"a.patch": EDIT, "b.patch": OTHER})


def upstream(*arguments: str) -> int:
    return cli.run(["upstream", "--recipe", "wide", *arguments])


def repository(project: Project) -> tuple[Path, str]:
    """Make a git history of the two releases, the second with a tag; return it and its first commit."""
    folder = project.folder / "history"
    folder.mkdir()
    who = {f"GIT_{role}_{key}": "x@localhost" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    run_git("init", "--quiet", folder=folder)
    commits = []
    for number, content in enumerate((LINES, LINES.replace(b"line 10\n", b"ten of g\n"))):
        (folder / "f.txt").write_bytes(b"new\n" * number + LINES)
        (folder / "g.txt").write_bytes(content)
        run_git("add", "--all", folder=folder)
        run_git("commit", "--quiet", "-m", f"release {number + 1}", folder=folder, environment=who)
        commits.append(run_git("rev-parse", "HEAD", folder=folder).decode().strip())
    run_git("tag", "v2.0", folder=folder)
    return folder, commits[0]


def with_git(project: Project, folder: Path, commit: str) -> None:
    """Give the recipe a git source."""
    file = project.repository / "recipes/wide/recipe.toml"
    source = f'\n[[package.source]]\nkind = "git"\nurl = "{folder.as_uri()}"\ncommit = "{commit}"\ntag = "v1.0"\n'
    file.write_text(file.read_text() + source)
