"""The cache: content-addressed folders and files, written whole or not at all.

Layout below the root (``FORKWHEEL_CACHE``, or the platform's cache folder):

``format``    the layout's number; an older cache is emptied, a newer one is refused
``archives/`` downloaded sdists and wheels, ``SHA256/FILENAME``
``git/``      bare repositories
``trees/``    projected source trees, by what was projected
``envs/``     build environments, by the digest of their requirements
``wheels/``   finished wheels, by build key and version
``logs/``     what the last build of each wheel printed
``locks/``    one file per lock
``tmp/``      work in progress; what a killed run left is removed by the next one
``users``     held by every run that uses the cache, so that nothing is pruned under it

When an entry was last used is told by its own times and by those of its lock.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import platformdirs

from forkwheel.errors import UsageError

FORMAT = 1
UNFINISHED = ".forkwheel-unfinished"
"""Suffix of a file that is being written; what a killed run left of these may be removed."""

_FOLDERS = frozenset(
    {"archives", "audits", "ccache", "census", "envs", "git", "kernels", "locks"}
    | {"logs", "objects", "test-envs", "tmp", "toolkits", "trees", "upstream", "wheels"}
)
"""All that a cache may hold: a folder with anything else in it is not taken for one."""
_HELD = ".held"
_USERS = "users"


class Store:
    """A cache folder that several runs may use at once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._prepare()
        self._user = os.open(root / _USERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        weakref.finalize(self, os.close, self._user)
        fcntl.flock(self._user, fcntl.LOCK_SH)

    @classmethod
    def default(cls) -> Store:
        """Open the cache that ``FORKWHEEL_CACHE`` names, or the platform's."""
        named = os.environ.get("FORKWHEEL_CACHE")
        if not named:
            return cls(Path(platformdirs.user_cache_dir("forkwheel")))
        try:
            return cls(Path(named).expanduser().absolute())
        except RuntimeError as error:
            raise UsageError(f"FORKWHEEL_CACHE is {named!r}: {error}", hint="write the path in full") from error

    def path(self, *parts: str) -> Path:
        """Return a path in the cache, whose parent exists."""
        assert parts[0] in _FOLDERS, f"{parts[0]} is not listed among the cache's folders"
        path = self.root.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def discard(self, entry: Path) -> None:
        """Remove a damaged entry, so that it is made anew; what others read of it stays readable to them."""
        if entry.is_symlink() or entry.is_file():
            entry.unlink(missing_ok=True)
            return
        with self.temporary() as work, suppress(FileNotFoundError):
            entry.rename(work / "discarded")

    @contextmanager
    def lock(self, name: str, *, waiting: Callable[[], None] | None = None) -> Iterator[None]:
        """Hold the lock ``name``; call ``waiting`` once if another run holds it now."""
        file = self.path("locks", f"{name}.lock")
        with _locked(file, waiting):
            self.used(file)
            yield

    def used(self, path: Path) -> None:
        """Record that an entry of the cache is used now."""
        with suppress(OSError):  # one that is not ours to touch stays as old as it is
            os.utime(path)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the cache against every other run; raise UsageError where one uses it now."""
        try:
            fcntl.flock(self._user, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(self._user, fcntl.LOCK_SH)
            raise UsageError(
                f"the cache {self.root} is in use by another run, and nothing was removed",
                hint="wait until it has ended, and try again",
            ) from None
        try:
            yield
        finally:
            fcntl.flock(self._user, fcntl.LOCK_SH)

    @contextmanager
    def temporary(self) -> Iterator[Path]:
        """Give a fresh folder on the cache's file system, which is gone afterwards."""
        self.path("tmp", "x")
        with _locked(self.path("locks", "tmp.lock"), None):
            folder = Path(tempfile.mkdtemp(dir=self.root / "tmp"))
            held = os.open(_lock_of(folder), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(held, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            remove_tree(folder)
            _lock_of(folder).unlink(missing_ok=True)
            os.close(held)

    def publish(self, made: Path, target: Path) -> Path:
        """Move a finished file or folder to its place; what is there already stays."""
        target.parent.mkdir(parents=True, exist_ok=True)
        if made.is_dir():
            try:
                made.rename(target)
            except OSError:
                if not target.is_dir():
                    raise
        else:
            made.replace(target)
        return target

    def _prepare(self) -> None:
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with _locked(self.root / ".lock", None):
                self._check_format()
                self._sweep()
        except OSError as error:
            raise UsageError(
                f"the cache folder {self.root} cannot be used: {error.strerror or error}",
                hint="set FORKWHEEL_CACHE to a folder that you can write to",
            ) from error

    def _check_format(self) -> None:
        file = self.root / "format"
        found = _read_format(file)
        if found == FORMAT:
            return
        if found > FORMAT:
            raise UsageError(
                f"the cache {self.root} has format {found}, newer than {FORMAT}, the newest known here",
                hint="use a newer forkwheel, or another FORKWHEEL_CACHE",
            )
        entries = [path for path in self.root.iterdir() if path.name not in (".lock", "format", _USERS)]
        for path in entries:
            if path.name not in _FOLDERS or path.is_symlink() or not path.is_dir():
                raise UsageError(
                    f"{self.root} is not a forkwheel cache: it holds {path.name}",
                    hint="set FORKWHEEL_CACHE to an empty or new folder",
                )
        for path in entries:
            remove_tree(path)
        write_whole(file, f"{FORMAT}\n".encode())

    def _sweep(self) -> None:
        if not (self.root / "tmp").is_dir():
            return
        with _locked(self.path("locks", "tmp.lock"), None):
            names = {path.name.removesuffix(_HELD) for path in (self.root / "tmp").iterdir()}
            for folder in (self.root / "tmp" / name for name in names):
                if not _is_held(_lock_of(folder)):
                    _remove_left(folder)


def _read_format(file: Path) -> int:
    """Return the number of a cache's layout; 0 where there is none that can be read."""
    try:
        content = file.read_bytes().strip()
    except (FileNotFoundError, IsADirectoryError):
        return 0
    return int(content) if re.fullmatch(rb"[0-9]{1,9}", content) else 0


def _lock_of(folder: Path) -> Path:
    return folder.with_name(folder.name + _HELD)


def _remove_left(folder: Path) -> None:
    """Remove what a killed run left; where a process of that run still writes to it, the next run tries again."""
    try:
        if folder.exists():
            remove_tree(folder)
        _lock_of(folder).unlink(missing_ok=True)
    except OSError:
        return


def _is_held(file: Path) -> bool:
    if not file.exists():
        return False
    with file.open("rb") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def lock_descriptor(descriptor: int, waiting: Callable[[], None] | None) -> None:
    """Lock an open file or folder against other processes; call ``waiting`` once if another holds it now."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if waiting is not None:
            waiting()
        fcntl.flock(descriptor, fcntl.LOCK_EX)


@contextmanager
def _locked(file: Path, waiting: Callable[[], None] | None) -> Iterator[None]:
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        lock_descriptor(descriptor, waiting)
        yield
    finally:
        os.close(descriptor)


def remove_tree(folder: Path) -> None:
    """Remove a folder, also where parts of it were made read-only."""

    def unlock(function: Callable[[str], object], path: str, _: object) -> None:
        Path(path).parent.chmod(0o700)
        if not Path(path).is_symlink():
            Path(path).chmod(0o700)
        function(path)

    shutil.rmtree(folder, onerror=unlock)


def write_whole(file: Path, content: bytes) -> None:
    """Write a file so that a kill at any moment leaves the old content or the new."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.", suffix=UNFINISHED)
    try:
        with os.fdopen(descriptor, "wb") as temporary:
            temporary.write(content)
            temporary.flush()
            os.fsync(temporary.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def copy_whole(source: Path, target: Path) -> None:
    """Copy a file so that a kill at any moment leaves the old content or the new."""
    write_whole(target, source.read_bytes())
