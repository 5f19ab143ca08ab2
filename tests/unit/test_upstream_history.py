"""Git histories: revisions as files, the commit that took a patch, and what cannot be searched."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from patch_support import EDIT, LINES, make_series, make_tree
from support import PACKAGE

from forkwheel.console import Console
from forkwheel.errors import ForkwheelError, UsageError
from forkwheel.fetch import FetchContext
from forkwheel.patching.git import run_git
from forkwheel.store import Store
from forkwheel.upstream.bisect import first_where, trace
from forkwheel.upstream.history import History, fetched_history, open_history

_WHO = {f"GIT_{role}_{key}": "someone@localhost" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}


class Upstream:
    """A small repository that is written commit by commit."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.git("init", "--quiet")

    def git(self, *arguments: str) -> str:
        return run_git(*arguments, folder=self.folder, environment=_WHO).decode().strip()

    def commit(self, content: bytes, *, tag: str = "", path: str = "python/f.txt") -> str:
        (self.folder / path).parent.mkdir(exist_ok=True)
        (self.folder / path).write_bytes(content)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", f"change {path}")
        if tag:
            self.git("tag", tag)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path / "upstream")


def history(upstream: Upstream) -> History:
    return History(upstream.folder, shown="upstream", subdirectory="python")


def test_the_commit_that_took_a_patch_is_named_with_its_first_release(upstream: Upstream, tmp_path: Path) -> None:
    first = upstream.commit(LINES, tag="v1.0")
    content = LINES
    for number in range(9):
        content = b"new %d\n" % number + content
        upstream.commit(content)
    taken = upstream.commit(content.replace(b"line 10\n", b"ten\n"))
    upstream.commit(content.replace(b"line 10\n", b"ten\n"), tag="v1.1rc1", path="python/other.txt")
    last = upstream.commit(b"more\n" + content.replace(b"line 10\n", b"ten\n"), tag="v1.1")

    series = make_series(tmp_path / "series", {"a.patch": EDIT})
    base = make_tree(tmp_path / "base", {"f.txt": LINES})
    (found,) = trace(series, base, history(upstream), first=first, last=last)

    assert found.now == "already-applied"
    assert found.taken is not None
    assert (found.taken.commit, found.taken.release) == (taken, "v1.1")
    assert found.taken == found.changed


def test_the_commit_that_broke_a_patch_is_named(upstream: Upstream, tmp_path: Path) -> None:
    first = upstream.commit(LINES)
    upstream.commit(b"new\n" + LINES)
    broken = upstream.commit(b"new\n" + LINES.replace(b"line 10\n", b"10\n"))
    last = upstream.commit(LINES.replace(b"line 10\n", b"10\n"))
    series = make_series(tmp_path / "series", {"a.patch": EDIT})
    base = make_tree(tmp_path / "base", {"f.txt": LINES})

    (found,) = trace(series, base, history(upstream), first=first, last=last)

    assert found.taken is None
    assert found.changed is not None
    assert (found.changed.commit, found.changed.verdict, found.changed.release) == (broken, "conflict", None)


def test_a_patch_that_applies_to_the_end_has_no_event(upstream: Upstream, tmp_path: Path) -> None:
    first = upstream.commit(LINES)
    last = upstream.commit(b"new\n" + LINES)
    series = make_series(tmp_path / "series", {"a.patch": EDIT})
    base = make_tree(tmp_path / "base", {"f.txt": LINES})
    (found,) = trace(series, base, history(upstream), first=first, last=last)
    assert (found.now, found.taken, found.changed) == ("offset +1", None, None)


@pytest.mark.parametrize("answer", range(9))
def test_bisection_asks_seldom_and_finds_the_first(answer: int) -> None:
    asked = []

    def holds(index: int) -> bool:
        asked.append(index)
        return index >= answer

    assert first_where(holds, 8) == answer
    assert len(asked) <= 4


def test_a_revision_that_does_not_exist_is_one_error(upstream: Upstream) -> None:
    upstream.commit(LINES)
    for revision in ("nosuch", "--all", "HEAD:python", "f" * 40, ""):
        with pytest.raises(UsageError, match="has no revision"):
            history(upstream).commit(revision)


def test_a_shallow_history_is_not_searched(upstream: Upstream, tmp_path: Path) -> None:
    upstream.commit(LINES)
    last = upstream.commit(b"new\n" + LINES)
    run_git("clone", "--quiet", "--depth", "1", f"file://{upstream.folder}", str(tmp_path / "shallow"), folder=tmp_path)
    shallow = History(tmp_path / "shallow", shown="shallow")
    with pytest.raises(UsageError, match="shallow") as caught:
        shallow.between(last, last, ["python/f.txt"])
    assert "--unshallow" in caught.value.hint
    with pytest.raises(UsageError, match="its history is shallow"):
        shallow.commit("HEAD~1")


def test_histories_without_a_common_commit_are_one_error(upstream: Upstream) -> None:
    first = upstream.commit(LINES)
    upstream.git("checkout", "--quiet", "--orphan", "other")
    last = upstream.commit(b"else\n")
    with pytest.raises(UsageError, match="no commit in common"):
        history(upstream).between(first, last, ["f.txt"])


def test_files_are_those_of_the_subdirectory(upstream: Upstream) -> None:
    upstream.commit(b"outside\n", path="f.txt")
    commit = upstream.commit(LINES)
    files = history(upstream).files(commit)
    assert list(files.paths()) == ["f.txt"]
    assert files.read("f.txt").content == LINES
    assert "python/f.txt" not in files


def context(folder: Path, *, offline: bool = False) -> FetchContext:
    return FetchContext(store=Store(folder / "cache"), log=Console(stream=io.StringIO()).bind("demo"), offline=offline)


def test_a_package_without_a_repository_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no git source"):
        open_history(PACKAGE.sources, repository=None, context=context(tmp_path))
    with pytest.raises(UsageError, match="is no git repository"):
        open_history(PACKAGE.sources, repository=str(tmp_path), context=context(tmp_path))


def test_a_remote_history_is_fetched_into_the_cache(upstream: Upstream, tmp_path: Path) -> None:
    old = upstream.commit(LINES, tag="v1.0")
    url = f"file://{upstream.folder}"
    fetched = fetched_history(url, context(tmp_path))
    new = upstream.commit(LINES + b"more\n")

    assert History(fetched, shown="cached").commit("v1.0") == old
    assert fetched_history(url, context(tmp_path, offline=True)) == fetched
    with pytest.raises(UsageError):
        History(fetched, shown="cached").commit(new)
    fetched_history(url, context(tmp_path))
    assert History(fetched, shown="cached").commit(new) == new


def test_an_unknown_remote_history_is_one_error_offline(tmp_path: Path) -> None:
    with pytest.raises(ForkwheelError, match="not in the cache"):
        open_history(PACKAGE.sources, repository="https://localhost/none.git", context=context(tmp_path, offline=True))
