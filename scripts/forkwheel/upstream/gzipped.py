"""A gzipped tar, read once from its start to its end."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import deflate

from forkwheel.errors import FetchError
from forkwheel.fetch.unpack import MAX_BYTES

_MOST_HELD = 128 << 20
_CHUNK = 1 << 18


@contextmanager
def opened_tar(path: Path) -> Iterator[tarfile.TarFile]:
    """Open a gzipped tar; its members can be read in their order alone."""
    with path.open("rb") as raw:
        held = _unpacked(raw)
        stream = _Held(held) if held is not None else _Bounded(raw, path.name)
        with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r:", encoding="utf-8") as tar:
            yield tar
        if isinstance(stream, _Bounded):
            stream.finish()


def _unpacked(raw: IO[bytes]) -> bytearray | None:
    """Return what a gzip file holds, or None where it is large, damaged, or not of one member alone.

    To unpack it at once is several times faster than bit by bit.
    """
    packed = raw.read(_MOST_HELD + 1)
    raw.seek(0)
    checksum, size = (int.from_bytes(packed[start:][:4], "little") for start in (-8, -4))
    if len(packed) > _MOST_HELD or not 0 < size <= _MOST_HELD:
        return None
    try:
        content = deflate.gzip_decompress(packed, size)
    except deflate.DeflateError:
        return None
    return content if (len(content), deflate.crc32(content)) == (size, checksum) else None


class _Held:
    """Bytes in memory as a file; ``io.BytesIO`` would copy them."""

    def __init__(self, content: bytearray) -> None:
        self._content = memoryview(content)
        self._position = 0

    def tell(self) -> int:
        return self._position

    def seek(self, position: int) -> None:
        self._position = position

    def read(self, size: int) -> bytes:
        found = bytes(self._content[self._position :][:size])
        self._position += len(found)
        return found


class _Bounded:
    """A gzip file's bytes as they are unpacked, up to the most that any archive may have; it goes forward alone."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._unpacker = zlib.decompressobj(31)
        self._stream = stream
        self._name = name
        self._position = 0

    def _packed(self) -> bytes:
        """Return what is to be unpacked next; after the file's last member there is nothing, or zeros."""
        if self._unpacker.eof:
            rest: bytes = (self._unpacker.unused_data or self._stream.read(_CHUNK)).lstrip(b"\0")
            self._unpacker = zlib.decompressobj(31) if rest else self._unpacker
            return rest
        packed: bytes = self._unpacker.unconsumed_tail or self._stream.read(_CHUNK)
        if not packed:
            raise EOFError("it breaks off")
        return packed

    def tell(self) -> int:
        return self._position

    def finish(self) -> None:
        """Read to the end, where the checksum is."""
        while self.read(_CHUNK):
            pass

    def seek(self, position: int) -> None:
        if position < self._position:
            raise ValueError("its members are out of order")
        while self._position < position:
            if not self.read(min(position - self._position, _CHUNK)):
                raise EOFError("it breaks off")

    def read(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size > 0 and (packed := self._packed()):
            part = self._unpacker.decompress(packed, size)
            size -= len(part)
            parts.append(part)
        content = b"".join(parts)
        self._position += len(content)
        if self._position > MAX_BYTES:
            raise FetchError(f"{self._name} unpacks to more than {MAX_BYTES >> 20} MiB", hint="do not use it")
        return content
