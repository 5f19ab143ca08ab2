"""A git repository with upstream's history: its revisions' files, and its commits in order."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

from packaging.version import InvalidVersion, Version

from forkwheel.errors import FetchError, ToolchainError, UsageError
from forkwheel.fetch import FetchContext
from forkwheel.fetch.git_errors import explain
from forkwheel.fetch.git_process import check_git, remote_environment
from forkwheel.fetch.git_process import run_git as run_remote_git
from forkwheel.fetch.masking import mask
from forkwheel.fetch.mirrors import apply_mirrors, is_local
from forkwheel.patching.git import run_git
from forkwheel.patching.names import decode
from forkwheel.recipe import GitSource
from forkwheel.upstream.commit_files import CommitFiles

_COMMIT = re.compile(r"\d{7,40}")
_REVISION = re.compile(r"[^-\s:~^?*\[\\][^\s:?*\[\\]*")


def home_path(text: str) -> Path:
    """Return the path that a text names; a ``~`` that names nobody's home stays as it is."""
    return Path(os.path.expanduser(text))  # noqa: PTH111 - Path's own way raises where there is no such user


def is_version(text: str) -> bool:
    """Tell whether a text is a version as the index writes it, and not a tag or commit."""
    try:
        return str(Version(text)) == text and not _COMMIT.fullmatch(text)
    except InvalidVersion:
        return False


def _version_of(tag: str) -> Version | None:
    try:
        return Version(tag)
    except InvalidVersion:
        return None


class History:
    """A repository on this machine; ``subdirectory`` is the folder that holds the project."""

    def __init__(self, repository: Path, *, shown: str, subdirectory: str = "") -> None:
        self._repository = repository
        self._shown = shown
        self._prefix = f"{subdirectory}/" if subdirectory else ""

    def _git(self, *arguments: str) -> bytes:
        return run_git("-c", "safe.directory=*", *arguments, folder=self._repository)

    def commit(self, revision: str) -> str:
        """Return the full commit that a revision names; raise UsageError where there is none."""
        if _REVISION.fullmatch(revision):
            try:
                found = self._git("rev-parse", "--quiet", "--verify", "--end-of-options", f"{revision}^{{commit}}")
                return found.decode().strip()
            except ToolchainError:
                pass
        if self.is_shallow():
            raise UsageError(f"{self._shown} has no revision {revision!r}: its history is shallow", hint=self._complete)
        raise UsageError(
            f"{self._shown} has no revision {revision!r}",
            hint="give a version of the package index, a file, or a tag, branch or commit of the repository",
        )

    def find(self, text: str) -> str:
        """Return the full commit of a version's tag, or of another revision; raise UsageError where there is none."""
        if not is_version(text):
            return self.commit(text)
        if (tag := self.releases().get(Version(text))) is None:
            shallow = ": its history is shallow" if self.is_shallow() else ""
            raise UsageError(
                f"{self._shown} has no tag v{text} or {text}{shallow}",
                hint=self._complete if shallow else "fetch its tags, or give a commit",
            )
        return self.commit(f"refs/tags/{tag}")

    def tag(self, text: str) -> str | None:
        """Return the tag that a text names, as it is or as a version, or None."""
        tag = self.releases().get(Version(text), text) if is_version(text) else text
        return tag if tag in decode(self._git("tag", "--list")).split("\n") else None

    def releases(self) -> dict[Version, str]:
        """Map each version to its tag, which is the version itself or has a ``v`` before it; oldest first."""
        found: dict[Version, str] = {}
        for tag in decode(self._git("tag", "--list")).split("\n"):
            if (version := _version_of(tag)) is not None:
                found.setdefault(version, tag)
        return dict(sorted(found.items()))

    @property
    def _complete(self) -> str:
        return f"complete it with `git -C {self._shown} fetch --unshallow --tags`, or use a full clone"

    def is_shallow(self) -> bool:
        """Tell whether the repository lacks the older part of its history."""
        return self._git("rev-parse", "--is-shallow-repository").strip() == b"true"

    def files(self, commit: str) -> CommitFiles:
        """Give the files of a commit."""
        return CommitFiles(self._repository, commit, self._prefix)

    def between(self, first: str, last: str, paths: Iterable[str]) -> list[str]:
        """List the commits after ``first`` up to ``last``, oldest first, that change one of the paths.

        Raises UsageError where the history is shallow, or does not lead from one to the other.
        """
        if self.is_shallow():
            raise UsageError(
                f"{self._shown} has a shallow history: what it lacks cannot be searched",
                hint=self._complete,
            )
        base = self._merge_base(first, last)
        listed = [self._prefix + path for path in paths]
        output = self._git("rev-list", "--reverse", "--topo-order", "--first-parent", f"{base}..{last}", "--", *listed)
        return output.decode().split()

    def _merge_base(self, first: str, last: str) -> str:
        try:
            return self._git("merge-base", first, last).decode().strip()
        except ToolchainError as error:
            raise UsageError(
                f"{self._shown}: {first[:12]} and {last[:12]} have no commit in common",
                hint="give revisions of one history",
            ) from error

    def submodules(self, commit: str) -> dict[str, str]:
        """Map the path of each submodule, relative to the repository, to its commit."""
        found = {}
        for record in self._git("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]:
            head, _, name = record.partition(b"\t")
            if head.split()[1] == b"commit":
                found[decode(name)] = head.split()[2].decode()
        return found

    def epoch(self, commit: str) -> int:
        """Return a commit's date, in seconds since 1970."""
        return int(self._git("show", "--no-patch", "--format=%ct", commit))

    def first_release(self, commit: str) -> str | None:
        """Return the tag of the lowest final version that holds a commit, or None."""
        found: list[tuple[Version, str]] = []
        for tag in decode(self._git("tag", "--contains", commit)).split("\n"):
            version = _version_of(tag.rpartition("/")[2])
            if version is not None and not version.is_prerelease:
                found.append((version, tag))
        return min(found)[1] if found else None

    def subject(self, commit: str) -> str:
        """Return a commit's date and first line."""
        return decode(self._git("show", "--no-patch", "--format=%cs %s", commit)).strip()


def open_history(sources: Sequence[object], *, repository: str | None, context: FetchContext) -> History:
    """Open the repository of a package's git source, or the one that is given (a folder or URL).

    One that is not on this machine is fetched whole into the cache. Raises UsageError where
    the package has no git source.
    """
    check_git()
    source = next((source for source in sources if isinstance(source, GitSource)), None)
    subdirectory = source.subdirectory if source else ""
    url = repository or (apply_mirrors(source.url, context.mirrors) if source else None)
    if url is None:
        raise UsageError("the package has no git source", hint="give its repository with --repository")
    if is_local(url):
        folder = home_path(url.removeprefix("file://"))
        if not (folder / "HEAD").exists() and not (folder / ".git").exists():
            raise UsageError(f"{mask(url)} is no git repository", hint="give a clone's folder, or its URL")
        return History(folder, shown=mask(url), subdirectory=subdirectory)
    return History(fetched_history(url, context), shown=mask(url), subdirectory=subdirectory)


def fetched_history(url: str, context: FetchContext) -> Path:
    """Have the whole history of a remote in the cache, as new as the remote is now."""
    target = context.store.path("git", f"history-{sha256(url.encode()).hexdigest()[:40]}.git")
    with context.store.lock(f"history-{target.name}"):
        if context.offline:
            if not target.is_dir():
                raise FetchError(f"the history of {mask(url)} is not in the cache", hint="run without --offline")
            return target
        if not target.is_dir():
            with context.store.temporary() as folder:
                made = folder / "repository"
                run_remote_git(
                    ["init", "--quiet", "--bare", "--template=", str(made)], repository=None, context=context
                )
                context.store.publish(made, target)
        remote, environment = remote_environment(url, context)
        refs = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"]
        result = run_remote_git(
            ["fetch", "--progress", "--no-recurse-submodules", "--prune", "--", remote, *refs],
            repository=target,
            context=context,
            remote=url,
            environment=environment,
        )
        if result.status:
            raise explain(result.errors, url)
    return target
