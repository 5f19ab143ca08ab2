"""A tree as it will be after patches, in memory, before anything is written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from forkwheel.errors import VerificationError
from forkwheel.tree import SYMLINK, Entry, Tree


@dataclass(frozen=True)
class Change:
    """What a whole series does to one path; ``content`` is None where the file goes."""

    path: str
    before: Entry | None
    after: Entry | None
    content: bytes | None


@dataclass(frozen=True)
class File:
    """A regular file: its git mode and its content."""

    mode: str
    content: bytes


class Overlay:
    """The files of a tree with changes on top; files are read when they are asked for."""

    def __init__(self, tree: Tree) -> None:
        self._root = tree.root
        self._base = tree.by_path()
        self._changed: dict[str, File | None] = {}

    def copy(self) -> Overlay:
        """Return an overlay that changes independently of this one."""
        other = Overlay.__new__(Overlay)
        other._root, other._base, other._changed = self._root, self._base, dict(self._changed)
        return other

    def __contains__(self, path: str) -> bool:
        return self._changed[path] is not None if path in self._changed else path in self._base

    def is_link(self, path: str) -> bool:
        """Tell whether the path is a symbolic link, which no patch may touch."""
        return path not in self._changed and path in self._base and self._base[path].mode == SYMLINK

    def paths(self) -> Iterator[str]:
        """Yield every path that has a file now, in no order."""
        yield from (path for path in self._base if path not in self._changed)
        yield from (path for path, file in self._changed.items() if file is not None)

    def entries(self) -> dict[str, Entry]:
        """Describe every file that is there now, by path."""
        return {path: self._entry(path) for path in self.paths()}

    def _entry(self, path: str) -> Entry:
        file = self._changed.get(path)
        if file is None:
            return self._base[path]
        return Entry(path, file.mode, sha256(file.content).hexdigest())

    def read(self, path: str) -> File:
        """Return a file that is there; raise VerificationError where the disk differs from the tree's entry."""
        if (changed := self._changed.get(path)) is not None:
            return changed
        entry = self._base[path]
        return File(entry.mode, read_verified(self._root / path, entry))

    def put(self, path: str, file: File) -> None:
        """Set a file's mode and content."""
        self._changed[path] = file

    def remove(self, path: str) -> None:
        """Take a file away."""
        self._changed[path] = None

    def adopt(self, other: Overlay) -> None:
        """Take over the changes of a copy."""
        self._changed = dict(other._changed)

    def obstacle(self, path: str) -> str | None:
        """Return what stands where a new file's path needs a folder or nothing, or None."""
        if (parent := self.file_above(path)) is not None:
            return parent
        below = path + "/"
        return next((other for other in self.paths() if other == path or other.startswith(below)), None)

    def file_above(self, path: str) -> str | None:
        """Return the file or symbolic link that stands where the path has a folder, or None."""
        parts = path.split("/")
        parents = ("/".join(parts[:count]) for count in range(1, len(parts)))
        return next((parent for parent in parents if parent in self), None)

    def changes(self) -> tuple[Change, ...]:
        """Return what differs from the tree, sorted by path."""
        made = (self._change(path, self._changed[path]) for path in sorted(self._changed))
        return tuple(change for change in made if change.before != change.after)

    def _change(self, path: str, file: File | None) -> Change:
        after = None if file is None else self._entry(path)
        return Change(path, self._base.get(path), after, None if file is None else file.content)


def read_verified(path: Path, entry: Entry) -> bytes:
    """Read a regular file without following a link, and check it against its entry."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            content = file.read()
    except OSError as error:
        raise VerificationError(
            f"{path} cannot be read: {error.strerror}", hint="fetch the source again; it changed on disk"
        ) from error
    found = sha256(content).hexdigest()
    if found != entry.sha256:
        raise VerificationError(
            f"{path} has sha256 {found}, its record says {entry.sha256}",
            hint="fetch the source again; it changed on disk",
        )
    return content
