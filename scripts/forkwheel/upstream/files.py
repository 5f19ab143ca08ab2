"""The files of a revision, wherever they are kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Protocol, runtime_checkable

from forkwheel.patching.overlay import File


class Files(Protocol):
    """The files of a tree, read when they are asked for. An ``Overlay`` is one."""

    def __contains__(self, path: str) -> bool:
        """Tell whether there is a file or symbolic link."""

    def is_link(self, path: str) -> bool:
        """Tell whether the path is a symbolic link."""

    def paths(self) -> Iterable[str]:
        """Give the path of every file and symbolic link."""

    def read(self, path: str) -> File:
        """Return a regular file that is there."""


@runtime_checkable
class ReadsMany(Protocol):
    """Files of which many are read at once for the price of one."""

    def read_many(self, paths: Iterable[str]) -> dict[str, File]:
        """Return regular files that are there, by path."""


def read_all(files: Files, paths: Iterable[str]) -> dict[str, File]:
    """Read several regular files that are there."""
    if isinstance(files, ReadsMany):
        return files.read_many(paths)
    return {path: files.read(path) for path in paths}


class Layer:
    """Files with changes on top, in memory."""

    def __init__(self, below: Files) -> None:
        self._below = below
        self._changed: dict[str, File | None] = {}

    def __contains__(self, path: str) -> bool:
        return self._changed[path] is not None if path in self._changed else path in self._below

    def is_link(self, path: str) -> bool:
        """Tell whether the path is a symbolic link."""
        return path not in self._changed and path in self._below and self._below.is_link(path)

    def paths(self) -> Iterator[str]:
        """Give the path of every file and symbolic link."""
        yield from (path for path in self._below.paths() if path not in self._changed)
        yield from (path for path, file in self._changed.items() if file is not None)

    def read(self, path: str) -> File:
        """Return a regular file that is there."""
        return self._changed.get(path) or self._below.read(path)

    def read_many(self, paths: Iterable[str]) -> dict[str, File]:
        """Return regular files that are there, by path."""
        wanted = set(paths)
        changed = {path: file for path, file in self._changed.items() if path in wanted and file is not None}
        return {**read_all(self._below, wanted - set(changed)), **changed}

    def obstacle(self, path: str, *, apart_from: Collection[str]) -> str | None:
        """Return what stands at a new file's path, or where it needs a folder or nothing, or None."""
        parts = path.split("/")
        places = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
        if above := next((place for place in places if place in self and place not in apart_from), None):
            return above
        below = (other for other in self.paths() if other.startswith(f"{path}/"))
        return next((other for other in below if other not in apart_from), None)

    def put(self, path: str, file: File) -> None:
        """Set a file's mode and content."""
        self._changed[path] = file

    def remove(self, path: str) -> None:
        """Take a file away."""
        self._changed[path] = None
