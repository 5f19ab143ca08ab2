"""Write computed changes to a private copy of a tree, and verify what is there afterwards.

Every changed file is written as a new one beside its place and moved there, so that a copy
made of hard links keeps its originals. The files that no change names are not read again:
their inode, size, modification time and mode before and after must be equal, and the folder
must hold exactly the files that the result has.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from forkwheel.errors import VerificationError
from forkwheel.patching.overlay import Change, read_verified
from forkwheel.tree import EXECUTABLE, REGULAR, SYMLINK, Entry, Tree

_Stamp = tuple[int, int, int, int]
_TEMPORARY = ".forkwheel-patch"


@dataclass(frozen=True)
class PatchedTree:
    """A tree with a whole series applied, and what the series changed in it."""

    tree: Tree
    changes: tuple[Change, ...]


def write_changes(changes: Sequence[Change], tree: Tree) -> PatchedTree:
    """Write the changes that ``check_series`` computed for ``tree``, whose root is a private copy.

    Raises VerificationError where the copy is not what the tree's entries say, or does not
    come out as computed; the copy is then to be thrown away.
    """
    root = tree.root
    stamps = _stamps(root)
    _check_listing(stamps, tree.entries, root)
    for change in changes:
        if change.before is not None:
            read_verified(root / change.path, change.before)
    for change in changes:
        if change.after is None:
            _remove(root, change.path)
    for change in changes:
        if change.after is not None and change.content is not None:
            _write(root / change.path, change.content, executable=change.after.mode == EXECUTABLE)
    result = Tree(root, _patched_entries(tree, changes))
    _verify(stamps, result, changes)
    return PatchedTree(result, tuple(changes))


def _patched_entries(tree: Tree, changes: Iterable[Change]) -> tuple[Entry, ...]:
    entries = tree.by_path()
    for change in changes:
        if change.after is None:
            del entries[change.path]
        else:
            entries[change.path] = change.after
    return tuple(sorted(entries.values()))


def _stamps(root: Path) -> dict[str, _Stamp]:
    """Return inode, size, modification time (ns) and mode of every file and link under the root."""
    stamps = {}
    folders = [""]
    while folders:
        folder = folders.pop()
        with os.scandir(f"{root}/{folder}") as found:
            for item in found:
                if item.is_dir(follow_symlinks=False):
                    folders.append(f"{folder}{item.name}/")
                    continue
                status = item.stat(follow_symlinks=False)
                stamps[folder + item.name] = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode)
    return stamps


def _check_listing(stamps: dict[str, _Stamp], entries: Sequence[Entry], root: Path) -> None:
    expected = {entry.path: entry.mode for entry in entries}
    differing = sorted(stamps.keys() ^ expected.keys())
    differing += [path for path, mode in expected.items() if path in stamps and _kind(stamps[path]) != mode]
    if differing:
        raise VerificationError(
            f"{root} is not the tree that it should be: {differing[0]!r} is there, missing or of another"
            f" mode (of {len(differing)} such paths)",
            hint="something else writes to that folder; run again",
        )


def _kind(stamp: _Stamp) -> str | None:
    mode = stamp[3]
    if stat.S_ISLNK(mode):
        return SYMLINK
    if not stat.S_ISREG(mode):
        return None
    return EXECUTABLE if mode & 0o100 else REGULAR


def _remove(root: Path, path: str) -> None:
    """Remove a file, and the folders that this leaves empty."""
    (root / path).unlink()
    folder = (root / path).parent
    while folder != root and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def _write(path: Path, content: bytes, *, executable: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / _TEMPORARY
    with temporary.open("xb") as file:
        file.write(content)
    temporary.chmod(0o755 if executable else 0o644)
    temporary.replace(path)


def _verify(before: dict[str, _Stamp], result: Tree, changes: Sequence[Change]) -> None:
    after = _stamps(result.root)
    _check_listing(after, result.entries, result.root)
    written = {change.path for change in changes}
    for change in changes:
        if change.after is not None:
            read_verified(result.root / change.path, change.after)
    for path, stamp in before.items():
        if path not in written and after[path] != stamp:
            raise VerificationError(
                f"{result.root / path} changed while the patches were written, though no patch names it",
                hint="something else writes to that folder; run again",
            )
