"""Verify a wheel against its own RECORD and against what it must contain, and read its records."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from forkwheel.errors import VerificationError
from forkwheel.tree import sha256_file
from forkwheel.wheels.record import (
    Row,
    WheelName,
    check_row,
    listed_rows,
    measure_member,
    open_wheel,
    read_member,
    spelled,
)

_LARGEST_RECORDS = 1 << 27  # bytes of a .dist-info folder; larger ones are not ours, and not read into memory


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
    Members are read block by block. Raise VerificationError naming the member and both values
    at the first fault.
    """
    name = WheelName.parse(path.name)
    with open_wheel(path) as opened:
        infos = {info.filename: info for info in opened.infolist() if not info.is_dir()}
        record = f"{name.dist_info(infos)}/RECORD"
        if record not in infos:
            raise VerificationError(f"{path.name} lacks {record}", hint="build it again")
        _check_records_size([infos[record]], wheel=path.name)
        rows = listed_rows(infos, read_member(opened, infos[record]), record=record, wheel=path.name)
        for member, row in rows.items():
            _check_member(opened, infos[member], row, wanted=must_contain.get(member), wheel=path.name)
    for member in must_contain:
        if member not in infos:
            raise VerificationError(
                f"{path.name} lacks {member}, which the recipe says it must contain",
                hint="see why the build left it out, or correct the package's `must_contain`",
            )


def _check_member(opened: zipfile.ZipFile, info: zipfile.ZipInfo, row: Row, *, wanted: str | None, wheel: str) -> None:
    """Check a member against its row of RECORD, and against the SHA-256 (hex) that is wanted of it."""
    algorithms = {row.algorithm, "sha256"} if wanted is not None else {row.algorithm}
    size, digests = measure_member(opened, info, algorithms=algorithms)
    check_row(info.filename, row, size=size, digest=spelled(row.algorithm, digests[row.algorithm]), wheel=wheel)
    if wanted is not None and digests["sha256"].hex() != wanted:
        raise VerificationError(
            f"{wheel}: {info.filename} has the SHA-256 {digests['sha256'].hex()}, not {wanted}",
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
        prefix = f"{name.dist_info(opened.namelist())}/"
        infos = [info for info in opened.infolist() if info.filename.startswith(prefix) and not info.is_dir()]
        _check_records_size(infos, wheel=path.name)
        files = {info.filename.removeprefix(prefix): read_member(opened, info) for info in infos}
    return WheelRecords(path.name, name.name, str(name.version), sha256_file(path), path.stat().st_size, files)


def _check_records_size(infos: Iterable[zipfile.ZipInfo], *, wheel: str) -> None:
    total = 0
    for info in infos:
        total += info.file_size
        if total > _LARGEST_RECORDS:
            raise VerificationError(
                f"{wheel}: with {info.filename} its records have {total} bytes, more than {_LARGEST_RECORDS}",
                hint="the wheel was not made by forkwheel, or was tampered with",
            )
