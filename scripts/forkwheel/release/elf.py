"""The device code and the host code of a shared object, told apart by its ELF sections."""

from __future__ import annotations

import struct
from hashlib import sha256

_DEVICE = (".nv_fatbin", "__nv_relfatbin")
_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQ")


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


def _device_ranges(content: bytes) -> list[tuple[int, int]]:
    try:
        fields = _HEADER.unpack_from(content)
        offset, size, count, names_at = fields[5], fields[10], fields[11], fields[12]
        sections = [_SECTION.unpack_from(content, offset + size * number) for number in range(count)]
        names = content[sections[names_at][4] :][: sections[names_at][5]]
    except (struct.error, IndexError) as error:
        raise ValueError(f"its section table cannot be read: {error}") from error
    return [
        (start, start + length)
        for name, _, _, _, start, length in sections
        if names[name : names.find(b"\0", name)].decode(errors="replace") in _DEVICE
    ]
