"""Source trees: what is in one, and the digest that names its content."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

REGULAR = "100644"
EXECUTABLE = "100755"
SYMLINK = "120000"


@dataclass(frozen=True, order=True)
class Entry:
    """One file: its POSIX path in the tree, its git mode and the SHA-256 of its content.

    The content of a symbolic link is its target.
    """

    path: str
    mode: str
    sha256: str


@dataclass(frozen=True)
class Tree:
    """A folder of files whose content is known; ``entries`` are sorted by path."""

    root: Path
    entries: tuple[Entry, ...]

    @property
    def digest(self) -> str:
        """Name the content: the SHA-256 over the sorted modes, digests and paths."""
        return digest_of(self.entries)

    def by_path(self) -> dict[str, Entry]:
        """Index the entries by path."""
        return {entry.path: entry for entry in self.entries}


def digest_of(entries: Iterable[Entry]) -> str:
    """Return the SHA-256 (hex) over ``mode sha256 path`` lines, sorted by path."""
    digest = hashlib.sha256()
    for entry in sorted(entries):
        digest.update(f"{entry.mode} {entry.sha256} {entry.path}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def sha256_file(path: Path) -> str:
    """Return the SHA-256 (hex) of a file's bytes."""
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def read_entry(path: Path, name: str) -> Entry:
    """Describe the file or symbolic link at ``path`` under its name in the tree."""
    if path.is_symlink():
        return Entry(name, SYMLINK, hashlib.sha256(os.fsencode(os.readlink(path))).hexdigest())
    mode = EXECUTABLE if path.stat().st_mode & 0o100 else REGULAR
    return Entry(name, mode, sha256_file(path))


def walk(root: Path) -> list[str]:
    """List the POSIX paths of every file and symbolic link under ``root``, sorted."""
    names = []
    for folder, folders, files in os.walk(root):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        relative = os.path.relpath(folder, root).replace(os.sep, "/")
        prefix = "" if relative == "." else f"{relative}/"
        names += [prefix + name for name in [*files, *links]]
    return sorted(names)


def scan(root: Path) -> Tree:
    """Read the whole of ``root`` into a Tree."""
    return Tree(root, tuple(read_entry(root / name, name) for name in walk(root)))
