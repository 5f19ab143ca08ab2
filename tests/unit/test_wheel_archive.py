"""The archive: deterministic, readable by others, and clear about what it cannot hold."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Sequence

import pytest

from forkwheel.errors import BuildError
from forkwheel.wheels import archive as module
from forkwheel.wheels.archive import Member, archive

EPOCH = 1_700_000_001


def read(members: Sequence[Member], *, epoch: int = EPOCH) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(b"".join(archive(members, epoch=epoch))))


def test_others_read_what_was_written() -> None:
    members = [
        Member("a/text.txt", b"text " * 1000),
        Member("a/empty", b""),
        Member("a/random", bytes(range(256))),
        Member("a/ünï.txt", b"named in UTF-8"),
    ]

    opened = read(members)

    assert opened.testzip() is None
    assert [(name, opened.read(name)) for name in opened.namelist()] == [(m.name, m.content) for m in members]


def test_what_does_not_shrink_is_stored() -> None:
    opened = read([Member("random", bytes(range(256))), Member("empty", b""), Member("text", b"a" * 1000)])

    methods = {info.filename: info.compress_type for info in opened.infolist()}
    assert methods == {"random": zipfile.ZIP_STORED, "empty": zipfile.ZIP_STORED, "text": zipfile.ZIP_DEFLATED}


def test_times_modes_and_versions_are_fixed() -> None:
    opened = read([Member("plain", b"x"), Member("run", b"x", executable=True)])

    infos = opened.infolist()
    assert [info.date_time for info in infos] == [(2023, 11, 14, 22, 13, 20)] * 2  # even seconds, UTC
    assert [info.external_attr >> 16 for info in infos] == [0o100644, 0o100755]
    assert {(info.create_system, info.create_version, info.extract_version) for info in infos} == {(3, 20, 20)}
    assert {(info.flag_bits, info.extra, info.comment, info.internal_attr) for info in infos} == {(0, b"", b"", 0)}


def test_the_bytes_do_not_depend_on_the_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    members = [Member(f"file-{number}", f"{number} ".encode() * number) for number in range(300)]

    written = []
    for cores in (1, 2, 7):
        monkeypatch.setattr(module.os, "cpu_count", lambda cores=cores: cores)
        written.append(b"".join(archive(members, epoch=EPOCH)))

    assert written[0] == written[1] == written[2]


def test_the_compressed_bytes_are_pinned() -> None:
    """Another libdeflate, or another level, is another build format: raise its number with this value."""
    text = b"".join(f"line {number} of a text that compresses\n".encode() for number in range(2000))
    content = b"".join(archive([Member("text", text)], epoch=EPOCH))

    assert hashlib.sha256(content).hexdigest() == "9dbe121b254b7511a01609ddbc9401b6668dbbd8ef41d022a7b4f776366be36d"


@pytest.mark.parametrize("epoch", [0, 315532799, 4354819199])
def test_a_time_that_the_format_lacks_is_refused(epoch: int) -> None:
    with pytest.raises(BuildError, match=f"epoch {epoch} is outside of 1980 to 2107"):
        archive([Member("a", b"")], epoch=epoch)


def test_too_many_members_are_refused() -> None:
    with pytest.raises(BuildError, match="has 65535 files, more than"):
        archive([Member(f"{number}", b"") for number in range(65535)], epoch=EPOCH)


def test_too_large_a_member_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LARGEST", 1000)

    with pytest.raises(BuildError, match="large has 1001 bytes"):
        archive([Member("large", b"a" * 1001)], epoch=EPOCH)


def test_too_large_an_archive_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LARGEST", 1000)

    with pytest.raises(BuildError, match="the wheel would be larger than 1000 bytes"):
        archive([Member(f"{number}", bytes(range(256))) for number in range(4)], epoch=EPOCH)
