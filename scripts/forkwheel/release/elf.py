"""The device code and the host code of a shared object, told apart by its ELF sections."""

from __future__ import annotations

import re
import struct
from hashlib import sha256

_DEVICE = (".nv_fatbin", "__nv_relfatbin")
_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQ")
_GCC = re.compile(r"GCC: \((.*)\) (\S+)")


def is_elf(content: bytes) -> bool:
    """Tell whether a file is a 64-bit little-endian ELF object, as every CUDA host's is."""
    return content[:6] == b"\x7fELF\x02\x01"


def code_digests(content: bytes) -> tuple[str, str]:
    """Return the SHA-256 (hex) of an object's device code and of all the rest; raise ValueError where it is damaged."""
    device = b"".join(content[start:end] for start, end in _device_ranges(content))
    rest, last = [], 0
    for start, end in sorted(_device_ranges(content)):
        rest.append(content[last:start])
        last = end
    rest.append(content[last:])
    return sha256(device).hexdigest(), sha256(b"".join(rest)).hexdigest()


def compilers(content: bytes) -> frozenset[str]:
    """Name the compilers that made an object's parts, as its ``.comment`` does: ``gcc 12.2.0 (Debian 12.2.0-14)``."""
    try:
        texts = [content[start:end] for name, start, end in _sections(content) if name == ".comment"]
    except ValueError:
        return frozenset()
    names = (text.decode("ascii", "replace") for part in texts for text in part.split(b"\0") if text)
    return frozenset(_GCC.sub(r"gcc \2 (\1)", name) for name in names)


def _device_ranges(content: bytes) -> list[tuple[int, int]]:
    return [(start, end) for name, start, end in _sections(content) if name in _DEVICE]


def _sections(content: bytes) -> list[tuple[str, int, int]]:
    """Return each section's name, and where it begins and ends in the file."""
    try:
        fields = _HEADER.unpack_from(content)
        offset, size, count, names_at = fields[5], fields[10], fields[11], fields[12]
        sections = [_SECTION.unpack_from(content, offset + size * number) for number in range(count)]
        names = content[sections[names_at][4] :][: sections[names_at][5]]
    except (struct.error, IndexError) as error:
        raise ValueError(f"its section table cannot be read: {error}") from error
    return [
        (names[name : names.find(b"\0", name)].decode(errors="replace"), start, start + length)
        for name, _, _, _, start, length in sections
    ]
