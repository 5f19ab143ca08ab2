"""Verify a wheel against its own RECORD and against what it must contain, and read its records."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from forkwheel.errors import VerificationError
from forkwheel.tree import sha256_file
from forkwheel.wheels.record import WheelName, check_record, open_wheel, read_members

_LARGEST_RECORD = 1 << 27  # bytes; what is larger is no record of ours and is not read into memory


@dataclass(frozen=True)
class WheelRecords:
    """A wheel and the files of its .dist-info folder, by their paths in that folder."""

    filename: str
    name: str
    version: str
    sha256: str
    size: int
    files: Mapping[str, bytes]


def verify_wheel(path: Path, *, must_contain: Mapping[str, str | None]) -> None:
    """Check a wheel's names, its RECORD row by row, and the members that it must contain.

    ``must_contain`` maps a member to its SHA-256 (hex), or to None where any content will do.
    Raise VerificationError naming the member and both values at the first fault.
    """
    name = WheelName.parse(path.name)
    with open_wheel(path) as opened:
        contents = {member.name: member.content for member in read_members(opened)}
    record = f"{name.dist_info(contents)}/RECORD"
    if record not in contents:
        raise VerificationError(f"{path.name} lacks {record}", hint="build it again")
    check_record(contents, record=record, wheel=path.name)
    for member, wanted in must_contain.items():
        if member not in contents:
            raise VerificationError(
                f"{path.name} lacks {member}, which the recipe says it must contain",
                hint="see why the build left it out, or correct the package's `must_contain`",
            )
        found = hashlib.sha256(contents[member]).hexdigest()
        if wanted is not None and found != wanted:
            raise VerificationError(
                f"{path.name}: {member} has the SHA-256 {found}, not {wanted}",
                hint="the build changed the file, or packed another one in its place",
            )


def member_names(path: Path) -> tuple[str, ...]:
    """List the files in a wheel, in the archive's order."""
    with open_wheel(path) as opened:
        return tuple(info.filename for info in opened.infolist() if not info.is_dir())


def read_wheel(path: Path) -> WheelRecords:
    """Read what a wheel says of itself; raise VerificationError where it is no sound wheel.

    Only the .dist-info folder is read, each file checked by the archive's own checksum.
    """
    name = WheelName.parse(path.name)
    with open_wheel(path) as opened:
        dist_info = name.dist_info(opened.namelist())
        files = {
            info.filename.removeprefix(f"{dist_info}/"): _read(opened, info, wheel=path.name)
            for info in opened.infolist()
            if info.filename.startswith(f"{dist_info}/") and not info.is_dir()
        }
    return WheelRecords(path.name, name.name, str(name.version), sha256_file(path), path.stat().st_size, files)


def _read(opened: zipfile.ZipFile, info: zipfile.ZipInfo, *, wheel: str) -> bytes:
    if info.file_size > _LARGEST_RECORD:
        raise VerificationError(
            f"{wheel}: {info.filename} has {info.file_size} bytes, more than {_LARGEST_RECORD}",
            hint="the wheel was not made by forkwheel, or was tampered with",
        )
    return opened.read(info)
