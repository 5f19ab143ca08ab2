"""RECORD: the list of a wheel's members with their digests, and wheels read against it."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from forkwheel.errors import VerificationError
from forkwheel.wheels.archive import Member

_HINT = "the wheel is damaged or was changed after it was built; build or download it again"
_UNSOUND = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, ValueError)
_UNLISTED = ("RECORD.jws", "RECORD.p7s")
_ALGORITHMS = ("sha256", "sha384", "sha512")
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_BLOCK = 1 << 20
_LONGEST = 255  # bytes of a file's name, the most that Linux's file systems take

LARGEST_WHEEL = 8 << 30
"""The most bytes that a wheel's members may have together, unpacked; far above what real wheels hold."""


@dataclass(frozen=True)
class Row:
    """One member as RECORD lists it: a digest such as ``sha256=…`` and a size in bytes."""

    digest: str
    size: str

    @property
    def algorithm(self) -> str:
        """The digest's algorithm, or whatever stands in its place."""
        return self.digest.partition("=")[0]


def digest_of(content: bytes, *, algorithm: str = "sha256") -> str:
    """Return a digest as RECORD spells it: URL-safe base64 without padding."""
    return spelled(algorithm, hashlib.new(algorithm, content).digest())


def spelled(algorithm: str, digest: bytes) -> str:
    """Spell a digest as RECORD does."""
    return f"{algorithm}={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def write_record(members: Iterable[Member], *, name: str) -> bytes:
    """Return the text of the RECORD named ``name`` that lists ``members`` and itself."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for member in members:
        writer.writerow((member.name, digest_of(member.content), len(member.content)))
    writer.writerow((name, "", ""))
    return text.getvalue().encode()


def parse_record(content: bytes, *, wheel: str) -> dict[str, Row]:
    """Read a RECORD; raise VerificationError on a malformed row or a member that is listed twice."""
    rows: dict[str, Row] = {}
    try:
        parsed = list(csv.reader(io.StringIO(content.decode(), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise VerificationError(f"{wheel}: RECORD cannot be read: {error}", hint=_HINT) from error
    for number, row in enumerate(parsed, 1):
        if len(row) != 3:
            raise VerificationError(f"{wheel}: RECORD row {number} has {len(row)} fields, not 3: {row}", hint=_HINT)
        name, digest, size = row
        if name in rows:
            raise VerificationError(f"{wheel}: RECORD lists {name} twice", hint=_HINT)
        rows[name] = Row(digest, size)
    return rows


def check_record(contents: Mapping[str, bytes], *, record: str, wheel: str) -> None:
    """Check every member against RECORD, and every row of RECORD against the members."""
    for name, row in listed_rows(contents, contents[record], record=record, wheel=wheel).items():
        found = digest_of(contents[name], algorithm=row.algorithm)
        check_row(name, row, size=len(contents[name]), digest=found, wheel=wheel)


def listed_rows(names: Iterable[str], content: bytes, *, record: str, wheel: str) -> dict[str, Row]:
    """Return the row of each member that is to be checked, from RECORD's ``content``.

    Raise VerificationError where RECORD and the members' ``names`` are not the same set.
    """
    rows = parse_record(content, wheel=wheel)
    present = dict.fromkeys(names)
    for name in rows:
        if name not in present:
            raise VerificationError(f"{wheel}: RECORD lists {name}, which is not in the archive", hint=_HINT)
    checked = [name for name in present if name != record and name not in _signatures(record)]
    for name in checked:
        if name not in rows:
            raise VerificationError(f"{wheel}: {name} is in the archive but RECORD does not list it", hint=_HINT)
        if rows[name].algorithm not in _ALGORITHMS:
            raise VerificationError(
                f"{wheel}: RECORD gives {name} the digest {rows[name].digest!r}, which is no SHA-256 or stronger",
                hint=_HINT,
            )
    return {name: rows[name] for name in checked}


def _signatures(record: str) -> tuple[str, ...]:
    folder = record.rpartition("/")[0]
    return tuple(f"{folder}/{name}" for name in _UNLISTED)


def check_row(name: str, row: Row, *, size: int, digest: str, wheel: str) -> None:
    """Check a member's size in bytes and its digest, as RECORD spells it, against its row."""
    if row.size != str(size):
        raise VerificationError(f"{wheel}: {name} has {size} bytes, RECORD says {row.size or 'nothing'}", hint=_HINT)
    if digest != row.digest:
        raise VerificationError(f"{wheel}: {name} has {digest}, RECORD says {row.digest}", hint=_HINT)


@dataclass(frozen=True)
class WheelName:
    """What a wheel's file name says; ``name`` is in its canonical spelling."""

    filename: str
    name: str
    version: Version

    @classmethod
    def parse(cls, filename: str) -> WheelName:
        """Read a file name; raise VerificationError where it is no wheel's."""
        try:
            name, version, _, _ = parse_wheel_filename(filename)
        except InvalidWheelFilename as error:
            raise VerificationError(f"{filename} is no wheel's file name: {error}", hint="name a .whl file") from error
        return cls(filename, name, version)

    def dist_info(self, names: Iterable[str]) -> str:
        """Return the one ``NAME-VERSION.dist-info`` folder among the members, which must be this wheel's own."""
        folders = {name.partition("/")[0] for name in names if "/" in name}
        found = sorted(folder for folder in folders if folder.endswith(".dist-info"))
        if len(found) != 1:
            listed = ", ".join(found) or "none"
            raise VerificationError(f"{self.filename} has not one .dist-info folder but: {listed}", hint=_HINT)
        name, _, version = found[0].removesuffix(".dist-info").rpartition("-")
        if canonicalize_name(name) != self.name or not _same_version(version, self.version):
            raise VerificationError(f"{self.filename} holds {found[0]}, which is another name or version", hint=_HINT)
        return found[0]


def _same_version(text: str, version: Version) -> bool:
    try:
        return Version(text.replace("_", "-")) == version
    except InvalidVersion:
        return False


@contextmanager
def open_wheel(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a wheel whose members' names are safe and distinct; raise VerificationError otherwise.

    Nothing but a regular file is opened, and what its members declare to have together is
    limited to LARGEST_WHEEL.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise VerificationError(f"{path}: cannot be read: it is no regular file", hint="name a .whl file")
        with zipfile.ZipFile(path) as archive:
            _check_infos(archive.infolist(), wheel=path.name)
            yield archive
    except FileNotFoundError:
        raise VerificationError(f"{path}: no such file", hint="check the path") from None
    except OSError as error:
        raise VerificationError(f"{path}: cannot be read: {error.strerror or error}", hint="check the path") from error
    except _UNSOUND as error:
        raise VerificationError(f"{path.name} is no sound archive: {error}", hint=_HINT) from error


def _check_infos(infos: Iterable[zipfile.ZipInfo], *, wheel: str) -> None:
    seen: set[str] = set()
    folders: set[str] = set()
    total = 0
    for info in infos:
        _check_info(info, seen, wheel=wheel)
        seen.add(info.filename)
        parts = info.filename.split("/")
        folders.update("/".join(parts[:index]) for index in range(1, len(parts)))
        total += info.file_size
    if both := sorted(seen & folders):
        raise VerificationError(f"{wheel}: {both[0]} is both a file and a folder", hint=_HINT)
    if total > LARGEST_WHEEL:
        raise VerificationError(
            f"{wheel}: its members have {total} bytes together, more than the limit of {LARGEST_WHEEL}", hint=_HINT
        )


def _check_info(info: zipfile.ZipInfo, seen: set[str], *, wheel: str) -> None:
    name = info.orig_filename
    parts = name.removesuffix("/").split("/")
    if any(part in ("", ".", "..") for part in parts) or "\\" in name or "\0" in name or ":" in parts[0]:
        raise VerificationError(f"{wheel}: a member is named {name!r}, which is unsafe", hint=_HINT)
    if long := next((part for part in parts if len(part.encode()) > _LONGEST), None):
        raise VerificationError(f"{wheel}: the name {long[:40]}… is longer than {_LONGEST} bytes", hint=_HINT)
    if name in seen:
        raise VerificationError(f"{wheel}: the archive holds {name} twice", hint=_HINT)
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise VerificationError(f"{wheel}: {name} is neither a file nor a folder", hint=_HINT)
    if info.compress_type not in _METHODS:
        raise VerificationError(
            f"{wheel}: {name} is compressed by method {info.compress_type}, and only deflated and stored members "
            "are read",
            hint="build or download the wheel again",
        )


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Read a member; one that unpacks to more than it declares is refused by its checksum, and not unpacked whole."""
    with archive.open(info) as stream:
        return stream.read(max(info.file_size, 1))


def measure_member(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, *, algorithms: set[str]
) -> tuple[int, dict[str, bytes]]:
    """Return a member's size in bytes and its digests by algorithm, holding no more than a block of it."""
    hashes = {name: hashlib.new(name) for name in algorithms}
    size = 0
    with archive.open(info) as stream:
        while block := stream.read(_BLOCK):
            size += len(block)
            for digest in hashes.values():
                digest.update(block)
    return size, {name: digest.digest() for name, digest in hashes.items()}


def read_members(archive: zipfile.ZipFile) -> list[Member]:
    """Read every file of an archive, in its order, with the executable bit."""
    return [
        Member(info.filename, read_member(archive, info), executable=bool(info.external_attr >> 16 & 0o100))
        for info in archive.infolist()
        if not info.is_dir()
    ]
