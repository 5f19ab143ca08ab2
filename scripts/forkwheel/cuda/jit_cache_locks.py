"""The locks of a JIT: who holds them, and how to hold them all while its cache is cleared.

The protocol is that of JITs which compile under advisory locks (flock) on files in their
cache. A caller holds all of them while it renames what they guard out of the JIT's sight,
whole pieces at a time, and lets go before the slow deletion. A kill in between leaves whole
pieces and trash; the next run removes the trash. Lock files themselves stay: another process
may wait on one, and if it were removed two could hold "the" lock at once.

What a JIT writes before it takes a lock cannot be guarded: should its sources be cleared in
that moment, its compilation fails for want of a file, and succeeds when it is started again.
"""

from __future__ import annotations

import fcntl
import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from forkwheel.cuda.jit_cache_files import TRASH, Layout, Parts, open_folder, refusing, survey
from forkwheel.recipe import JitCache

_SPARE_DESCRIPTORS = 128


class LockHeldError(Exception):
    """A lock of the JIT is held by a process; ``path`` is its file."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path


def held_lock(folder: Path, layout: Layout) -> Path | None:
    """Return a lock file that a process holds now, or None; nothing is written for that."""
    for parts in layout.locks:
        path = folder.joinpath(*parts)
        with (
            open_folder(folder.parent, [folder.name, *parts[:-1]]) as parent,
            refusing(path),
            suppress(FileNotFoundError),
        ):
            descriptor = os.open(parts[-1], os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return path
            finally:
                os.close(descriptor)
    return None


@contextmanager
def locked(folder: Path, cache: JitCache) -> Iterator[Layout]:
    """Hold every lock of the version's JIT, and give what may be removed meanwhile.

    Raise LockHeldError, with nothing changed, as soon as one is held by another process.
    """
    taken: set[Parts] = set()
    with ExitStack() as stack:
        while True:
            layout = survey(folder, cache)
            missing = _needed(layout, cache) - taken
            if not missing:
                break
            stack.enter_context(_descriptors(len(missing)))
            existing = missing.intersection(layout.locks)
            for parts in (*sorted(existing), *sorted(missing - existing)):
                stack.callback(os.close, _take(folder, parts))
            taken |= missing
        yield layout


def _needed(layout: Layout, cache: JitCache) -> set[Parts]:
    """Name the lock files that guard the pieces, whether or not they exist already."""
    needed = set(layout.locks) if layout.pieces else set()
    for piece in layout.pieces:
        if piece.parts[-1].startswith(TRASH):
            continue
        for pattern in cache.locks:
            lock = tuple(
                piece.parts[index] if part == "*" else part.replace("{name}", piece.parts[-1])
                for index, part in enumerate(pattern.split("/"))
            )
            is_beside = piece.is_folder and piece.parts[:-1] == lock[:-2]
            if is_beside or "{name}" not in pattern:
                needed.add(lock)
    return needed


def _take(folder: Path, parts: Parts) -> int:
    """Take a lock as the JIT does, and return its descriptor, which holds it."""
    path = folder.joinpath(*parts)
    for depth in range(1, len(parts)):
        above = [folder.name, *parts[: depth - 1]]
        with open_folder(folder.parent, above) as parent, refusing(path.parent), suppress(FileExistsError):
            os.mkdir(parts[depth - 1], dir_fd=parent)
    with open_folder(folder.parent, [folder.name, *parts[:-1]]) as parent, refusing(path):
        while True:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(parts[-1], flags, 0o666, dir_fd=parent)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(descriptor).st_nlink:
                    return descriptor
            except BlockingIOError as error:
                os.close(descriptor)
                raise LockHeldError(path) from error
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)  # its holder removed the file as it let go of it


@contextmanager
def _descriptors(count: int) -> Iterator[None]:
    """Allow ``count`` more open files, as far as the hard limit goes: each lock held is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = len(list(Path("/dev/fd").iterdir())) + count + _SPARE_DESCRIPTORS
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
