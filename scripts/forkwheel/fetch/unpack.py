"""Unpack an sdist or a wheel that somebody else made.

The limits are far above what real archives hold and far below what fills a disk.
"""

from __future__ import annotations

import gzip
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NoReturn, cast

from forkwheel.errors import FetchError
from forkwheel.fetch.tree_writer import HINT, TreeWriter, check_path, whole_tree

MAX_MEMBERS = 100_000
"""Files and folders in one archive. The largest sdist of the recipes has 2,300, and the
largest wheel of a GPU framework about 20,000."""

MAX_BYTES = 8 << 30
"""Unpacked bytes of one archive. The largest wheels on an index, compiled for many GPUs,
unpack to about 4 GiB."""

MAX_RATIO = 100
"""Unpacked bytes for each packed one. Source code packs 6 to 10 times smaller; deflate can
reach 1,032, which no real source does."""

RATIO_FLOOR = 64 << 20
"""Unpacked bytes up to which the ratio is not looked at: a small file of zeros is harmless."""

_CHUNK = 1 << 18
_DAMAGE = (
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    OverflowError,
    ValueError,
    lzma.LZMAError,
    struct.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


def unpack_sdist(archive: Path, dest: Path) -> Path:
    """Unpack a .tar.gz or .zip into ``dest``/tree without its one top-level folder.

    The folder's name is not looked at. Raise FetchError for anything unsafe, more than one
    top-level folder, or a damaged archive; then ``dest`` holds nothing of it.
    """
    return _unpack(archive, dest, strip=True)


def unpack_wheel(archive: Path, dest: Path) -> Path:
    """Unpack a wheel into ``dest``/tree, as strictly as an sdist."""
    return _unpack(archive, dest, strip=False)


def _unpack(archive: Path, dest: Path, *, strip: bool) -> Path:
    with whole_tree(dest, archive.name) as folder:
        unpacking = _Unpacking(archive, TreeWriter(folder, archive.name), strip=strip)
        try:
            unpacking.tar() if archive.name.endswith((".tar.gz", ".tgz")) else unpacking.zip()
        except _DAMAGE as error:
            message = f"{archive.name} is damaged: {error or type(error).__name__}"
            raise FetchError(message, hint="remove it from the cache, and fetch it again") from error
        unpacking.finish()
    return dest / "tree"


class _Unpacking:
    """One archive on its way to a tree."""

    def __init__(self, archive: Path, writer: TreeWriter, *, strip: bool) -> None:
        self._archive = archive
        self._writer = writer
        self._strip = strip
        self._top = ""
        self._names: set[str] = set()
        self._budget = _Budget(archive)

    def tar(self) -> None:
        with gzip.open(self._archive, "rb") as unzipped:
            stream = _CountedStream(cast("IO[bytes]", unzipped), self._budget)
            with tarfile.open(fileobj=cast(Any, stream), mode="r|", errorlevel=2, encoding="utf-8") as tar:
                for member in tar:
                    self._add_tar_member(tar, member)
                end = tar.offset
            stream.check_end(end)

    def zip(self) -> None:
        with zipfile.ZipFile(self._archive) as archive:
            for member in archive.infolist():
                self._add_zip_member(archive, member)

    def finish(self) -> None:
        if self._names <= {""}:
            raise FetchError(f"{self._archive.name} is empty", hint=HINT)
        self._writer.finish()

    def _add_tar_member(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        path = self._path(member.name, is_folder=member.isdir())
        executable = bool(member.mode & 0o100)
        if member.isdir():
            if path:
                self._writer.add_folder(path)
        elif member.issym():
            self._writer.add_link(path, member.linkname)
        elif member.islnk():
            content = self._budget.counted(self._writer.content_of(self._inside(member.linkname)))
            self._writer.add_file(path, content, executable=executable)
        elif member.isreg() and not member.issparse():
            opened = tar.extractfile(member)
            assert opened is not None
            self._writer.add_file(path, _chunks(opened), executable=executable)
        else:
            self._refuse(member.name, "is a device, a fifo or another special file")

    def _add_zip_member(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
        mode = member.external_attr >> 16
        kind = stat.S_IFMT(mode)
        path = self._path(member.orig_filename.removesuffix("/"), is_folder=member.is_dir())
        if member.flag_bits & 1:
            self._refuse(path, "is encrypted")
        is_special = kind not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
        if is_special or (kind == stat.S_IFDIR and not member.is_dir()):
            self._refuse(path, "is a device, a fifo or another special file")
        if member.is_dir():
            if path:
                self._writer.add_folder(path)
            return
        with archive.open(member) as content:
            if kind == stat.S_IFLNK:
                self._writer.add_link(path, content.read(1 << 16).decode("utf-8", "surrogateescape"))
            else:
                chunks = self._budget.counted(_chunks(content))
                self._writer.add_file(path, chunks, executable=bool(mode & 0o100))

    def _path(self, name: str, *, is_folder: bool) -> str:
        self._budget.add_member()
        path = self._inside(name)
        if not path and not (is_folder and self._strip):
            self._refuse(name, "lies beside the archive's one top-level folder")
        if path in self._names and not (not path and is_folder):
            self._refuse(name, "is there twice")
        self._names.add(path)
        return path

    def _inside(self, name: str) -> str:
        plain = name.removeprefix("./") if name.startswith("./") else name
        if plain in ("", "."):
            return "" if self._strip else check_path(name, self._archive.name)
        check_path(plain, self._archive.name)
        if not self._strip:
            return plain
        top, _, rest = plain.partition("/")
        self._top = self._top or top
        if top != self._top:
            self._refuse(name, f"lies outside of the archive's top-level folder {self._top!r}")
        return rest

    def _refuse(self, name: str, reason: str) -> NoReturn:
        raise FetchError(f"{self._archive.name}: {name!r} {reason}", hint=HINT)


class _Budget:
    """Counts members and bytes against the limits."""

    def __init__(self, archive: Path) -> None:
        self._name = archive.name
        self._members = 0
        self._bytes = 0
        self._most = min(MAX_BYTES, max(RATIO_FLOOR, MAX_RATIO * archive.stat().st_size))

    def add_member(self) -> None:
        self._members += 1
        if self._members > MAX_MEMBERS:
            raise FetchError(f"{self._name} holds more than {MAX_MEMBERS} files", hint=HINT)

    def add_bytes(self, count: int) -> None:
        self._bytes += count
        if self._bytes > self._most:
            raise FetchError(f"{self._name} unpacks to more than {self._most >> 20} MiB", hint=HINT)

    def counted(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.add_bytes(len(chunk))
            yield chunk


class _CountedStream:
    """The bytes of a tar file as they are unzipped, counted, with the place of the last that isn't zero.

    tarfile ends silently at a header that it cannot read; ``check_end`` tells that from a
    real end, after which there are only zeros.
    """

    def __init__(self, stream: IO[bytes], budget: _Budget) -> None:
        self._stream = stream
        self._budget = budget
        self._position = 0
        self._last_used = 0

    def read(self, size: int) -> bytes:
        data = self._stream.read(min(size, _CHUNK))
        self._budget.add_bytes(len(data))
        used = len(data.rstrip(b"\0"))
        if used:
            self._last_used = self._position + used
        self._position += len(data)
        return data

    def check_end(self, end: int) -> None:
        while self.read(_CHUNK):
            pass
        if self._last_used > end or self._position < end + tarfile.BLOCKSIZE:
            raise tarfile.ReadError(f"its list of files breaks off after {end} bytes")


def _chunks(stream: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: stream.read(_CHUNK), b"")
