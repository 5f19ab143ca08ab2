"""What the cache holds, how large and how old it is, and the removal of what was not used for long."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from forkwheel.cache_names import entry_name
from forkwheel.store import Store, remove_tree

_KINDS = {
    "archives": ("source", "archive-"),
    "git": ("source", "git-"),
    "trees": ("source tree", ""),
    "envs": ("environment", "env-"),
    "toolkits": ("toolchain", "toolkit-"),
    "ccache": ("compile cache", ""),
    "objects": ("unfinished kernels", "kernels-"),
    "kernels": ("kernels", "kernels-"),
    "wheels": ("wheel", "wheel-"),
    "audits": ("audit", ""),
    "census": ("census", ""),
    "upstream": ("upstream's files", ""),
    "logs": ("log", ""),
}
"""A folder of the cache: what it holds, and how the locks of its entries begin."""

_OWN = ("locks", "tmp")
_WHOLE = ("ccache",)


@dataclass(frozen=True)
class CacheEntry:
    """One entry: ``size`` in bytes (of disk), ``used`` when it was last used (seconds since 1970)."""

    kind: str
    path: Path
    name: str
    size: int
    used: float

    def age(self, now: float) -> float:
        """Return for how many days it was not used."""
        return max(0.0, now - self.used) / 86400


def list_cache(store: Store) -> tuple[CacheEntry, ...]:
    """Return every entry of the cache, the largest kinds as they lie there, the longest unused first."""
    return tuple(sorted(_entries(store), key=lambda entry: (entry.kind, entry.used, entry.name)))


def _entries(store: Store) -> Iterator[CacheEntry]:
    for folder in sorted(path for path in store.root.iterdir() if path.is_dir() and path.name not in _OWN):
        kind, lock = _KINDS.get(folder.name, (folder.name, ""))
        paths = [folder] if folder.name in _WHOLE else sorted(folder.iterdir())
        for path in paths:
            if path.exists():
                yield _entry(store, kind, path, lock=lock)


def _entry(store: Store, kind: str, path: Path, *, lock: str) -> CacheEntry:
    stem = path.name.removesuffix(".git")
    used = [path.stat().st_mtime]
    held = store.root / "locks" / f"{lock}{stem}.lock"
    if lock and held.is_file():
        used.append(held.stat().st_mtime)
    return CacheEntry(kind, path, entry_name(path), disk_size(path), max(used))


def disk_size(path: Path) -> int:
    """Return the bytes that a file or folder takes on the disk; a file with several names counts once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for file in (path, *(path.rglob("*") if path.is_dir() and not path.is_symlink() else ())):
        status = os.lstat(file)
        if (status.st_dev, status.st_ino) not in seen:
            seen.add((status.st_dev, status.st_ino))
            total += status.st_blocks * 512
    return total


def prune(store: Store, *, days: float, now: float | None = None) -> tuple[CacheEntry, ...]:
    """Remove what was not used for ``days`` days and return it; raise UsageError where another run uses the cache."""
    moment = time.time() if now is None else now
    with store.alone():
        old = tuple(entry for entry in list_cache(store) if entry.age(moment) >= days)
        for entry in old:
            _remove(store, entry.path)
    return old


def _remove(store: Store, path: Path) -> None:
    """Take an entry out of its place first, so that a kill leaves it whole or gone."""
    with store.temporary() as work:
        gone = work / "entry"
        path.rename(gone)
        if gone.is_dir() and not gone.is_symlink():
            remove_tree(gone)
