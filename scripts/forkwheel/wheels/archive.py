"""Deterministic archives: the same members give the same bytes on every host.

``zipfile`` compresses with the host's zlib, and distributions ship different ones, so the
archive is written here, with members that libdeflate compressed. Nothing optional of the
format is used: no zip64, no comments, no extra fields, no data descriptors.
"""

from __future__ import annotations

import os
import struct
import time
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import deflate

from forkwheel.errors import BuildError

LEVEL = 6  # of libdeflate; another level is another build format
_BATCH = 128
_STORED = 0
_DEFLATED = 8
_UTF8 = 0x800
_NEEDS_2_0 = 20
_MADE_ON_UNIX = 3 << 8 | _NEEDS_2_0
_FILE, _EXECUTABLE = 0o100644, 0o100755
_LARGEST = 0xFFFFFFFE
_MOST_MEMBERS = 0xFFFE
_LATEST = 4354819198  # 2107-12-31T23:59:58Z, the last time that an archive can carry

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")


@dataclass(frozen=True)
class Member:
    """One file of an archive; directories have no members of their own."""

    name: str
    content: bytes
    executable: bool = False


@dataclass(frozen=True)
class _Packed:
    name: bytes
    data: bytes
    method: int
    crc: int
    size: int
    mode: int

    @property
    def flags(self) -> int:
        return 0 if self.name.isascii() else _UTF8


def archive(members: Sequence[Member], *, epoch: int) -> list[bytes]:
    """Return the blocks of an archive of ``members``, in their order.

    Every member is dated ``epoch`` (seconds since 1970, UTC; the format keeps even seconds
    only). Raise BuildError where the plain format cannot hold them.
    """
    if len(members) > _MOST_MEMBERS:
        raise BuildError(
            f"the wheel has {len(members)} files, more than the {_MOST_MEMBERS} that an archive without zip64 holds",
            hint="leave files out with the recipe's `exclude`",
        )
    moment = _moment(epoch)
    blocks: list[bytes] = []
    central: list[bytes] = []
    offset = 0
    for packed in _pack_all(members):
        sizes = (packed.crc, len(packed.data), packed.size)
        shared = (_NEEDS_2_0, packed.flags, packed.method, *moment, *sizes, len(packed.name), 0)
        central.append(
            _CENTRAL.pack(b"PK\1\2", _MADE_ON_UNIX, *shared, 0, 0, 0, packed.mode << 16, offset) + packed.name
        )
        header = _LOCAL.pack(b"PK\3\4", *shared) + packed.name
        blocks += [header, packed.data]
        offset += len(header) + len(packed.data)
        _check_size(offset)
    directory = b"".join(central)
    _check_size(offset + len(directory))
    end = _END.pack(b"PK\5\6", 0, 0, len(members), len(members), len(directory), offset, 0)
    return [*blocks, directory, end]


def _check_size(size: int) -> None:
    if size > _LARGEST:
        raise BuildError(
            f"the wheel would be larger than {_LARGEST} bytes, the most that an archive without zip64 holds",
            hint="leave files out with the recipe's `exclude`",
        )


def _moment(epoch: int) -> tuple[int, int]:
    if not 315532800 <= epoch <= _LATEST:
        raise BuildError(
            f"the epoch {epoch} is outside of 1980 to 2107, the years that an archive can carry",
            hint="correct the package's `epoch` in the recipe",
        )
    year, month, day, hour, minute, second = time.gmtime(epoch)[:6]
    return hour << 11 | minute << 5 | second // 2, (year - 1980) << 9 | month << 5 | day


def _pack_all(members: Sequence[Member]) -> list[_Packed]:
    """Compress the members on all cores; libdeflate lets go of the interpreter's lock."""
    batches = [members[start : start + _BATCH] for start in range(0, len(members), _BATCH)]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return [
            packed for batch in pool.map(lambda batch: [_pack(member) for member in batch], batches) for packed in batch
        ]


def _pack(member: Member) -> _Packed:
    size = len(member.content)
    if size > _LARGEST:
        raise BuildError(
            f"{member.name} has {size} bytes, more than an archive without zip64 holds",
            hint="leave it out with the recipe's `exclude`",
        )
    data = bytes(deflate.deflate_compress(member.content, LEVEL)) if size else b""
    stored = len(data) >= size
    return _Packed(
        name=member.name.encode(),
        data=member.content if stored else data,
        method=_STORED if stored else _DEFLATED,
        crc=zlib.crc32(member.content),
        size=size,
        mode=_EXECUTABLE if member.executable else _FILE,
    )
