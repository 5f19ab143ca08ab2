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
from pathlib import Path
from typing import IO, Any, cast

from forkwheel.errors import FetchError
from forkwheel.fetch.unpack import MAX_BYTES
from forkwheel.patching.overlay import File
from forkwheel.store import Store, write_whole
from forkwheel.tree import EXECUTABLE, REGULAR, SYMLINK, sha256_file

FORMAT = 1
_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError)


def open_archive(
    path: Path, *, store: Store, wanted: Iterable[str], sha256: str | None = None
) -> WheelFiles | SdistFiles:
    """Give the files of an archive; those that are ``wanted`` are read at once.

    ``sha256`` is the archive's, where it was checked already. Raises FetchError where the archive is damaged.
    """
    try:
        if path.name.endswith((".whl", ".zip")):
            return WheelFiles(path)
        record = store.path("upstream", f"{sha256 or sha256_file(path)}.json")
        return SdistFiles(path, record=record, wanted=wanted)
    except _DAMAGE as error:
        raise FetchError(
            f"{path.name} is damaged: {error or type(error).__name__}", hint="remove it, and fetch it again"
        ) from error


class WheelFiles:
    """The files of a wheel, or of an sdist that is a zip."""

    def __init__(self, path: Path) -> None:
        self._archive = zipfile.ZipFile(path)
        top = "" if path.name.endswith(".whl") else self._archive.namelist()[0].partition("/")[0] + "/"
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
        return File(EXECUTABLE if executable else REGULAR, self._archive.read(info))


class SdistFiles:
    """The files of an sdist, without its one top-level folder."""

    def __init__(self, path: Path, *, record: Path, wanted: Iterable[str]) -> None:
        self._path = path
        self._record = record
        self._modes: dict[str, str] = {}
        self._contents: dict[str, bytes] = {}
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
        wanted = list(paths)
        if missing := {path for path in wanted if path not in self._contents}:
            self._scan(missing)
        return {path: File(self._modes[path], self._contents[path]) for path in wanted}

    def _load(self) -> bool:
        try:
            record = json.loads(self._record.read_bytes())
        except (FileNotFoundError, ValueError):
            return False
        if record.get("format") != FORMAT:
            return False
        self._modes = record["modes"]
        self._contents = {path: base64.b64decode(text) for path, text in record["contents"].items()}
        return True

    def _scan(self, wanted: set[str]) -> None:
        with self._path.open("rb") as raw:
            stream = cast("IO[bytes]", _Bounded(zlib.decompressobj(31), raw, self._path.name))
            with tarfile.open(fileobj=stream, mode="r|", encoding="utf-8") as tar:
                for member in tar:
                    self._add(tar, member, wanted)
        contents = {path: base64.b64encode(content).decode() for path, content in self._contents.items()}
        record = {"format": FORMAT, "modes": self._modes, "contents": contents}
        write_whole(self._record, json.dumps(record).encode())

    def _add(self, tar: tarfile.TarFile, member: tarfile.TarInfo, wanted: set[str]) -> None:
        path = member.name.removeprefix("./").partition("/")[2]
        if not path or member.isdir():
            return
        self._modes[path] = SYMLINK if member.issym() else EXECUTABLE if member.mode & 0o100 else REGULAR
        if path in wanted and member.isreg():
            opened = tar.extractfile(member)
            assert opened is not None
            self._contents[path] = opened.read()


class _Bounded:
    """The bytes of a gzip file as they are unpacked, up to the most that any archive may have."""

    def __init__(self, unpacker: Any, stream: IO[bytes], name: str) -> None:
        self._unpacker = unpacker
        self._stream = stream
        self._name = name
        self._left = MAX_BYTES

    def read(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size > 0 and not self._unpacker.eof:
            packed = self._unpacker.unconsumed_tail or self._stream.read(1 << 18)
            if not packed:
                raise EOFError("it breaks off")
            part = self._unpacker.decompress(packed, size)
            size -= len(part)
            parts.append(part)
        content = b"".join(parts)
        self._left -= len(content)
        if self._left < 0:
            raise FetchError(f"{self._name} unpacks to more than {MAX_BYTES >> 20} MiB", hint="do not use it")
        return content
