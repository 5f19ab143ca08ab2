"""The files of an sdist or a wheel, read without unpacking it.

An sdist can only be read from its start to its end, so what was read of one is kept in the
cache, by the archive's SHA-256: its paths, and the files that were asked for.
"""

from __future__ import annotations

import base64
import json
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from forkwheel.errors import FetchError
from forkwheel.patching.overlay import File
from forkwheel.store import Store, write_whole
from forkwheel.tree import EXECUTABLE, REGULAR, SYMLINK, sha256_file
from forkwheel.upstream.gzipped import opened_tar

FORMAT = 2
_DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError),
    *(RuntimeError, NotImplementedError),  # a zip's members that are encrypted, or packed in an unknown way
)


def open_archive(
    path: Path, *, store: Store, wanted: Iterable[str], sha256: str | None = None
) -> WheelFiles | SdistFiles:
    """Give the files of an archive; those that are ``wanted`` are read at once.

    ``sha256`` is the archive's, where it was checked already. Raises FetchError where the archive is damaged.
    """
    with guarded(path):
        if path.name.endswith((".whl", ".zip")):
            return WheelFiles(path)
        record = store.path("upstream", f"{sha256 or sha256_file(path)}.json")
        return SdistFiles(path, record=record, wanted=wanted)


@contextmanager
def guarded(path: Path) -> Iterator[None]:
    """Say that an archive is damaged where reading it fails."""
    try:
        yield
    except _DAMAGE as error:
        raise FetchError(
            f"{path.name} is damaged: {str(error) or type(error).__name__}", hint="remove it, and fetch it again"
        ) from error


class WheelFiles:
    """The files of a wheel, or of an sdist that is a zip."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._archive = zipfile.ZipFile(path)
        if not (names := self._archive.namelist()):
            raise ValueError("it is empty")
        top = "" if path.name.endswith(".whl") else names[0].partition("/")[0] + "/"
        self._members = {
            info.filename.removeprefix(top): info
            for info in self._archive.infolist()
            if not info.is_dir() and info.filename.startswith(top)
        }

    def __contains__(self, path: str) -> bool:
        return path in self._members

    def is_link(self, path: str) -> bool:
        """Tell whether the path is a symbolic link."""
        return (self._members[path].external_attr >> 16) & 0o170000 == 0o120000

    def paths(self) -> Iterator[str]:
        """Give the path of every file."""
        return iter(self._members)

    def read(self, path: str) -> File:
        """Return a file that is there."""
        info = self._members[path]
        executable = info.external_attr >> 16 & 0o100
        with guarded(self._path):
            return File(EXECUTABLE if executable else REGULAR, self._archive.read(info))


class SdistFiles:
    """The files of an sdist, without its one top-level folder."""

    def __init__(self, path: Path, *, record: Path, wanted: Iterable[str]) -> None:
        self._path = path
        self._record = record
        self._modes: dict[str, str] = {}
        self._contents: dict[str, bytes] = {}
        self._links: dict[str, str] = {}
        if not self._load():
            self._scan(set(wanted))
        self.read_many(name for name in wanted if name in self and not self.is_link(name))

    def __contains__(self, path: str) -> bool:
        return path in self._modes

    def is_link(self, path: str) -> bool:
        """Tell whether the path is a symbolic link."""
        return self._modes.get(path) == SYMLINK

    def paths(self) -> Iterator[str]:
        """Give the path of every file and symbolic link."""
        return iter(self._modes)

    def read(self, path: str) -> File:
        """Return a regular file that is there."""
        return self.read_many([path])[path]

    def read_many(self, paths: Iterable[str]) -> dict[str, File]:
        """Return regular files that are there, by path."""
        holders = {path: self._holder(path) for path in paths}
        if missing := set(holders.values()) - set(self._contents):
            with guarded(self._path):
                self._scan(missing)
        if lost := [path for path, holder in holders.items() if holder not in self._contents]:
            raise FetchError(f"{self._path.name}: {lost[0]} is no file that can be read", hint="use another source")
        return {path: File(self._modes[path], self._contents[holder]) for path, holder in holders.items()}

    def _holder(self, path: str) -> str:
        """Follow hard links to the member that has the content; each points to an earlier one."""
        seen = {path}
        while (target := self._links.get(path)) is not None and target not in seen:
            seen.add(target)
            path = target
        return path

    def _load(self) -> bool:
        try:
            record = json.loads(self._record.read_bytes())
        except (FileNotFoundError, ValueError):
            return False
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            return False
        self._modes, self._links = record["modes"], record["links"]
        self._contents = {path: base64.b64decode(text) for path, text in record["contents"].items()}
        return True

    def _scan(self, wanted: set[str]) -> None:
        with opened_tar(self._path) as tar:
            for member in tar:
                self._add(tar, member, wanted)
        contents = {path: base64.b64encode(content).decode() for path, content in self._contents.items()}
        record = {"format": FORMAT, "modes": self._modes, "links": self._links, "contents": contents}
        write_whole(self._record, json.dumps(record).encode())

    def _add(self, tar: tarfile.TarFile, member: tarfile.TarInfo, wanted: set[str]) -> None:
        path = _below_top(member.name)
        if not path or member.isdir():
            return
        self._modes[path] = SYMLINK if member.issym() else EXECUTABLE if member.mode & 0o100 else REGULAR
        self._links.pop(path, None)
        if member.islnk():
            self._links[path] = _below_top(member.linkname)
        if path in wanted and member.isreg():
            opened = tar.extractfile(member)
            assert opened is not None
            self._contents[path] = opened.read()


def _below_top(name: str) -> str:
    return name.removeprefix("./").partition("/")[2]
