"""Read commits, trees and files out of a repository, each hashed again here.

git doesn't hash what it reads out of its packs. Here every object must be what its name
says, from the pinned commit down, so a damaged cache cannot pass for the source; and no
filter, attribute or line-ending setting is between the object and the file.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forkwheel.errors import FetchError
from forkwheel.fetch.git_process import end_git, start_git
from forkwheel.fetch.tree_writer import check_path

FOLDER = "40000"
GITLINK = "160000"


class DamagedRepositoryError(FetchError):
    """A repository in the cache lacks an object, or holds another than it should."""


@dataclass(frozen=True)
class GitEntry:
    """One entry of a tree: its git mode without leading zeros, its path and its object."""

    mode: str
    path: str
    object_id: str


class Objects:
    """The objects of one bare repository."""

    def __init__(self, repository: Path, process: Any) -> None:
        self._repository = repository
        self._process = process

    def read(self, object_id: str, kind: str) -> bytes:
        """Return an object's content; raise DamagedRepositoryError unless its hash is its name."""
        try:
            self._process.stdin.write(f"{object_id}\n".encode())
            self._process.stdin.flush()
            header = self._process.stdout.readline().decode(errors="replace").split()
            if len(header) != 3:
                raise self._damaged(object_id, "is missing" if header[1:] == ["missing"] else "cannot be read")
            content: bytes = self._process.stdout.read(int(header[2]) + 1)[:-1]
        except (BrokenPipeError, ValueError) as error:
            raise self._damaged(object_id, "cannot be read") from error
        found = hashlib.sha1(f"{kind} {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()
        if found != object_id:
            raise self._damaged(object_id, f"is damaged: its content is a {header[1]} with the name {found}")
        return content

    def tree_of(self, commit: str) -> str:
        """Return the tree of a commit."""
        first = self.read(commit, "commit").split(b"\n", 1)[0].split()
        if len(first) != 2 or first[0] != b"tree":
            raise self._damaged(commit, "names no tree")
        return first[1].decode("ascii", errors="replace")

    def entries(self, tree: str, folder: str = "") -> list[GitEntry]:
        """List a tree, with paths that start with ``folder``."""
        content = self.read(tree, "tree")
        entries, position = [], 0
        while position < len(content):
            end = content.find(b"\0", position)
            mode, _, name = content[position:end].partition(b" ")
            object_id = content[end + 1 : end + 21].hex()
            path = f"{folder}/{_name(name)}" if folder else _name(name)
            entries.append(GitEntry(mode.decode("ascii", errors="replace").lstrip("0"), path, object_id))
            position = end + 21
            if end < 0 or len(object_id) != 40:
                raise self._damaged(tree, "is no tree")
        return entries

    def walk(self, tree: str, folder: str = "") -> Iterator[GitEntry]:
        """Yield every file, link and gitlink below a tree."""
        for entry in self.entries(tree, folder):
            if entry.mode == FOLDER:
                check_path(entry.path, self._repository.name)
                yield from self.walk(entry.object_id, entry.path)
            else:
                yield entry

    def find(self, tree: str, path: str) -> GitEntry | None:
        """Return the entry at a path, following no link, or None where there is none."""
        head, _, rest = path.partition("/")
        for entry in self.entries(tree):
            if entry.path != head:
                continue
            if not rest:
                return entry
            return self.find(entry.object_id, rest) if entry.mode == FOLDER else None
        return None

    def _damaged(self, object_id: str, what: str) -> DamagedRepositoryError:
        message = f"in the cached repository {self._repository.name}, object {object_id} {what}"
        return DamagedRepositoryError(message, hint=f"remove {self._repository} and run again without --offline")


@contextmanager
def open_objects(repository: Path) -> Iterator[Objects]:
    """Open a repository for reading."""
    started = start_git(["cat-file", "--batch"], repository=repository, environment={}, istream=subprocess.PIPE)
    try:
        yield Objects(repository, started.proc)
    finally:
        end_git(started)


def _name(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
