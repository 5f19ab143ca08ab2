"""The files of a git commit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from forkwheel.patching.git import run_git
from forkwheel.patching.names import decode
from forkwheel.patching.overlay import File


class CommitFiles:
    """The files of one commit."""

    def __init__(self, repository: Path, commit: str, prefix: str) -> None:
        self._repository = repository
        self._commit = commit
        self._prefix = prefix
        output = run_git(*("-c", "safe.directory=*", "ls-tree", "-r", "-z", "--full-tree", commit), folder=repository)
        self._entries: dict[str, tuple[str, str]] = {}
        for record in output.split(b"\0")[:-1]:
            head, _, name = record.partition(b"\t")
            mode, kind, object_id = head.decode().split()
            path = decode(name)
            if kind == "blob" and path.startswith(prefix):
                self._entries[path.removeprefix(prefix)] = (mode, object_id)

    def __contains__(self, path: str) -> bool:
        return path in self._entries

    def is_link(self, path: str) -> bool:
        """Tell whether the path is a symbolic link."""
        return path in self._entries and self._entries[path][0] == "120000"

    def paths(self) -> Iterator[str]:
        """Give the path of every file and symbolic link."""
        return iter(self._entries)

    def read(self, path: str) -> File:
        """Return a regular file that is there."""
        mode, object_id = self._entries[path]
        content = run_git("-c", "safe.directory=*", "cat-file", "blob", object_id, folder=self._repository)
        return File(mode, content)
