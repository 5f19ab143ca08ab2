"""What lies in a version's folder of a JIT cache, and how it is renamed and deleted.

Every file is reached by descriptors from the cache's root, one folder at a time, so that a
symbolic link, also one put there meanwhile, is never followed.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from forkwheel.errors import UsageError
from forkwheel.patterns import matches
from forkwheel.recipe import JitCache

TRASH = ".forkwheel-trash."

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

Parts = tuple[str, ...]


@dataclass(frozen=True)
class Piece:
    """A folder or file that is removed whole; ``parts`` is its path below the version's folder."""

    parts: Parts
    is_folder: bool
    files: int
    size: int


@dataclass(frozen=True)
class Layout:
    """What a version's folder holds: what may be removed, and the lock files (both sorted)."""

    pieces: tuple[Piece, ...]
    locks: tuple[Parts, ...]


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Turn the system's refusal to work on ``path`` into one error that names it."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror or error}",
            hint="check who owns it and what is mounted there, or run this as the user whose cache it is",
        ) from error


@contextmanager
def open_folder(root: Path, parts: Sequence[str]) -> Iterator[int]:
    """Open the folder ``parts`` below ``root``, following no link below ``root``."""
    path = root
    with refusing(path):
        descriptor = os.open(path, _FOLDER)
    try:
        for part in parts:
            path = path / part
            _refuse_link(path, part, descriptor)
            with refusing(path):
                child = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = child
        yield descriptor
    finally:
        os.close(descriptor)


def survey(folder: Path, cache: JitCache) -> Layout:
    """Find what ``cache`` says may be removed in the version's ``folder``, and its locks.

    Raise UsageError where a link stands in the way.
    """
    clear = [tuple(pattern.split("/")) for pattern in cache.clear]
    locks = [tuple(pattern.replace("{name}", "*").split("/")) for pattern in cache.locks]
    found: list[Piece] = []
    found_locks: list[Parts] = []

    def visit(descriptor: int, parts: Parts) -> None:
        for name in _names(descriptor, folder.joinpath(*parts)):
            child = (*parts, name)
            if name.startswith(TRASH):
                found.extend(_pieces(descriptor, child, folder))
            elif any(_matches(child, glob) for glob in locks):
                found_locks.append(child)
            elif any(_matches(child[: len(glob)], glob) for glob in clear) and not _leads(child, locks):
                found.extend(_pieces(descriptor, child, folder))
            elif _leads(child, [*clear, *locks]):
                _descend(descriptor, child, folder, visit)

    with open_folder(folder.parent, [folder.name]) as descriptor:
        visit(descriptor, ())
    return Layout(tuple(found), tuple(found_locks))


def rename_away(folder: Path, piece: Piece) -> Parts | None:
    """Rename a piece to a name that no JIT reads, beside it; None where it is gone already."""
    name = piece.parts[-1]
    if name.startswith(TRASH):
        return piece.parts
    trash = TRASH + secrets.token_hex(8)
    with (
        open_folder(folder.parent, [folder.name, *piece.parts[:-1]]) as parent,
        refusing(folder.joinpath(*piece.parts)),
    ):
        try:
            os.rename(name, trash, src_dir_fd=parent, dst_dir_fd=parent)
        except FileNotFoundError:
            return None
    return (*piece.parts[:-1], trash)


def delete(folder: Path, parts: Parts) -> None:
    """Delete the file, link or folder ``parts``; what is gone already is no fault."""
    path = folder.joinpath(*parts)
    with open_folder(folder.parent, [folder.name, *parts[:-1]]) as parent, refusing(path), suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.stat(parts[-1], dir_fd=parent, follow_symlinks=False).st_mode):
            os.unlink(parts[-1], dir_fd=parent)
            return
        for _, folders, files, descriptor in os.fwalk(parts[-1], topdown=False, onerror=_unless_gone, dir_fd=parent):
            for name in (*files, *folders):
                _remove(name, descriptor)
        os.rmdir(parts[-1], dir_fd=parent)


def _remove(name: str, descriptor: int) -> None:
    with suppress(FileNotFoundError):
        try:
            os.rmdir(name, dir_fd=descriptor)
        except NotADirectoryError:
            os.unlink(name, dir_fd=descriptor)


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _names(descriptor: int, path: Path) -> list[str]:
    with refusing(path), os.scandir(descriptor) as entries:
        return sorted(entry.name for entry in entries)


def _matches(parts: Parts, glob: Parts) -> bool:
    return len(parts) == len(glob) and all(matches(part, (piece,)) for part, piece in zip(parts, glob, strict=True))


def _leads(parts: Parts, globs: Sequence[Parts]) -> bool:
    """Tell whether something below ``parts`` could match one of the globs."""
    return any(len(glob) > len(parts) and _matches(parts, glob[: len(parts)]) for glob in globs)


def _refuse_link(path: Path, name: str, descriptor: int) -> None:
    with refusing(path), suppress(FileNotFoundError):
        if stat.S_ISLNK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
            raise UsageError(
                f"{path} is a symbolic link; a link in the JIT cache is not followed",
                hint="remove the link, or clear by hand the folder that it points at",
            )


def _descend(descriptor: int, parts: Parts, folder: Path, visit: Callable[[int, Parts], None]) -> None:
    path = folder.joinpath(*parts)
    _refuse_link(path, parts[-1], descriptor)
    with refusing(path):
        try:
            child = os.open(parts[-1], _FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
        except (NotADirectoryError, FileNotFoundError):
            return
    try:
        visit(child, parts)
    finally:
        os.close(child)


def _pieces(descriptor: int, parts: Parts, folder: Path) -> Iterator[Piece]:
    """Give the piece, with its files and links counted and their sizes added up; none if it is gone."""
    with refusing(folder.joinpath(*parts)):
        try:
            status = os.stat(parts[-1], dir_fd=descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(status.st_mode):
            yield Piece(parts, is_folder=False, files=1, size=status.st_size)
            return
        files = size = 0
        for _, _, names, inside in os.fwalk(parts[-1], onerror=_unless_gone, dir_fd=descriptor):
            for name in names:
                with suppress(FileNotFoundError):
                    size += os.stat(name, dir_fd=inside, follow_symlinks=False).st_size
                    files += 1
    yield Piece(parts, is_folder=True, files=files, size=size)
