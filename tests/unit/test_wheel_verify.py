"""Verifying: every way in which a wheel can differ from its RECORD has an error that names it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from wheels_support import record_row, wheel_files, write_wheel

from forkwheel.errors import VerificationError
from forkwheel.wheels import record, verify
from forkwheel.wheels.verify import member_names, read_wheel, verify_wheel

RECORD_ROW = "demo-1.0.dist-info/RECORD,,\n"


def rows(files: dict[str, bytes]) -> list[str]:
    return [record_row(name, content) for name, content in files.items()]


def test_a_sound_wheel_passes(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, wheel_files())
    digest = hashlib.sha256(b"data " * 100).hexdigest()

    verify_wheel(wheel, must_contain={"demo/data.txt": digest, "demo/empty.txt": None})


def test_a_missing_member_is_named(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, wheel_files())

    with pytest.raises(VerificationError, match=r"lacks demo/kernel.cu, which the recipe says"):
        verify_wheel(wheel, must_contain={"demo/kernel.cu": None})


def test_another_content_is_named_with_both_digests(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, wheel_files())
    found = hashlib.sha256(b"data " * 100).hexdigest()

    with pytest.raises(VerificationError, match=f"demo/data.txt has the SHA-256 {found}, not {'0' * 64}"):
        verify_wheel(wheel, must_contain={"demo/data.txt": "0" * 64})


def edited(edit: str) -> str:
    lines = rows(wheel_files())
    data = next(line for line in lines if line.startswith("demo/data.txt"))
    changed = {
        "unlisted": [line for line in lines if line != data],
        "absent": [*lines, "demo/gone.py,sha256=x,1"],
        "twice": [*lines, data],
        "size": [line.replace(",500", ",499") for line in lines],
        "nosize": [line.replace(",500", ",") for line in lines],
        "digest": [line.replace("sha256=", "sha256=A") if line == data else line for line in lines],
        "weak": [line.replace("sha256=", "md5=") if line == data else line for line in lines],
        "nodigest": ["demo/data.txt,,500" if line == data else line for line in lines],
        "fields": [*lines, "demo/x,sha256=x"],
        "quotes": [*lines, '"demo/x" y,sha256=x,1'],
    }[edit]
    return "\n".join(changed) + "\n" + RECORD_ROW


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ("unlisted", "demo/data.txt is in the archive but RECORD does not list it"),
        ("absent", "RECORD lists demo/gone.py, which is not in the archive"),
        ("twice", "RECORD lists demo/data.txt twice"),
        ("size", "demo/data.txt has 500 bytes, RECORD says 499"),
        ("nosize", "demo/data.txt has 500 bytes, RECORD says nothing"),
        ("digest", "demo/data.txt has sha256=.*, RECORD says sha256=A"),
        ("weak", "gives demo/data.txt the digest 'md5=.*, which is no SHA-256"),
        ("nodigest", "gives demo/data.txt the digest '', which is no SHA-256"),
        ("fields", r"RECORD row \d+ has 2 fields, not 3"),
        ("quotes", "RECORD cannot be read"),
    ],
)
def test_each_difference_from_record_is_named(tmp_path: Path, edit: str, message: str) -> None:
    wheel = write_wheel(tmp_path, wheel_files(), record=edited(edit))

    with pytest.raises(VerificationError, match=message):
        verify_wheel(wheel, must_contain={})


@pytest.mark.parametrize("name", ["/etc/passwd", "../up.py", "demo/../../up.py", "demo//a.py", "demo\\a.py", "C:/a"])
def test_an_unsafe_name_is_refused(tmp_path: Path, name: str) -> None:
    wheel = write_wheel(tmp_path, wheel_files() | {name: b""})

    with pytest.raises(VerificationError, match="which is unsafe"):
        verify_wheel(wheel, must_contain={})


def test_a_member_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, wheel_files())
    with warnings.catch_warnings(), zipfile.ZipFile(wheel, "a") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("demo/data.txt", b"other")

    with pytest.raises(VerificationError, match=r"the archive holds demo/data.txt twice"):
        verify_wheel(wheel, must_contain={})


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, wheel_files())
    info = zipfile.ZipInfo("demo/link")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(info, "/etc/passwd")

    with pytest.raises(VerificationError, match="demo/link is neither a file nor a folder"):
        verify_wheel(wheel, must_contain={})


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, wheel_files())
    content = bytearray(wheel.read_bytes())
    at = content.index(b"data data")
    content[at] ^= 1
    wheel.write_bytes(content)

    with pytest.raises(VerificationError, match="is no sound archive: Bad CRC-32"):
        verify_wheel(wheel, must_contain={})


def test_a_truncated_archive_is_refused(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, wheel_files())
    wheel.write_bytes(wheel.read_bytes()[:-30])

    with pytest.raises(VerificationError, match="is no sound archive"):
        verify_wheel(wheel, must_contain={})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match=r"demo-1.0-py3-none-any.whl: no such file"):
        verify_wheel(tmp_path / "demo-1.0-py3-none-any.whl", must_contain={})


def test_a_folder_is_no_wheel(tmp_path: Path) -> None:
    (tmp_path / "demo-1.0-py3-none-any.whl").mkdir()

    with pytest.raises(VerificationError, match="cannot be read: it is no regular file"):
        verify_wheel(tmp_path / "demo-1.0-py3-none-any.whl", must_contain={})


def test_a_pipe_is_no_wheel_and_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "demo-1.0-py3-none-any.whl"
    os.mkfifo(pipe)

    for read in (read_wheel, member_names, lambda path: verify_wheel(path, must_contain={})):
        with pytest.raises(VerificationError, match="it is no regular file"):
            read(pipe)


def test_a_device_is_no_wheel(tmp_path: Path) -> None:
    (tmp_path / "demo-1.0-py3-none-any.whl").symlink_to("/dev/zero")

    with pytest.raises(VerificationError, match="it is no regular file"):
        verify_wheel(tmp_path / "demo-1.0-py3-none-any.whl", must_contain={})


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_is_neither_stored_nor_deflated_is_not_unpacked(tmp_path: Path, method: int) -> None:
    wheel = write_wheel(tmp_path, wheel_files())
    with zipfile.ZipFile(wheel, "a", method) as archive:
        archive.writestr("demo/packed.bin", b"data" * 100)
    content = bytearray(wheel.read_bytes())
    content[content.index(b"demo/packed.bin") + 20] ^= 0xFF
    wheel.write_bytes(content)

    with pytest.raises(VerificationError, match=rf"demo/packed.bin is compressed by method {method}, and only"):
        verify_wheel(wheel, must_contain={})


@pytest.mark.parametrize("name", ["demo/" + "n" * 256, "ü" * 128 + "/a.py"])
def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, name: str) -> None:
    wheel = write_wheel(tmp_path, wheel_files() | {name: b""})

    with pytest.raises(VerificationError, match="is longer than 255 bytes"):
        verify_wheel(wheel, must_contain={})


@pytest.mark.parametrize("name", ["demo/data.txt/x", "demo/data.txt/x/y", "demo/data.txt/"])
def test_a_file_that_is_also_a_folder_is_refused(tmp_path: Path, name: str) -> None:
    wheel = write_wheel(tmp_path, wheel_files() | {name: b""})

    with pytest.raises(VerificationError, match=r"demo/data.txt is both a file and a folder"):
        verify_wheel(wheel, must_contain={})


def test_members_that_are_too_large_together_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = write_wheel(tmp_path, wheel_files())
    total = sum(info.file_size for info in zipfile.ZipFile(wheel).infolist())
    monkeypatch.setattr(record, "LARGEST_WHEEL", total - 1)
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_, **__: pytest.fail("a member was read"))

    with pytest.raises(VerificationError, match=f"have {total} bytes together, more than the limit of {total - 1}"):
        verify_wheel(wheel, must_contain={})


@pytest.mark.parametrize("read", [read_wheel, lambda path: verify_wheel(path, must_contain={})])
def test_records_that_are_too_large_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], object]
) -> None:
    wheel = write_wheel(tmp_path, wheel_files())
    monkeypatch.setattr(verify, "_LARGEST_RECORDS", 10)
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_, **__: pytest.fail("a member was read"))

    with pytest.raises(VerificationError, match=r"its records have .* bytes, more than 10"):
        read(wheel)


def test_a_member_that_unpacks_to_more_than_it_declares_is_not_unpacked_whole(tmp_path: Path) -> None:
    wheel = tmp_path / "demo-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("demo-1.0.dist-info/METADATA", b"\0" * (64 << 20))
    content = wheel.read_bytes()
    wheel.write_bytes(content.replace((64 << 20).to_bytes(4, "little"), (100).to_bytes(4, "little")))

    tracemalloc.start()
    with pytest.raises(VerificationError, match="Bad CRC-32"):
        read_wheel(wheel)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 16 << 20


def test_verifying_holds_no_member_whole(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, wheel_files() | {"demo/large.bin": bytes(64 << 20)})
    digest = hashlib.sha256(bytes(64 << 20)).hexdigest()

    tracemalloc.start()
    verify_wheel(wheel, must_contain={"demo/large.bin": digest})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 16 << 20


def test_a_flipped_byte_of_the_archives_directory_is_no_crash(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, {f"demo-1.0.dist-info/{name}": name.encode() for name in ("METADATA", "WHEEL")})
    content = wheel.read_bytes()
    start = content.index(b"PK\1\2")

    for position in range(start, len(content)):
        wheel.write_bytes(content[:position] + bytes([content[position] ^ 0xFF]) + content[position + 1 :])
        with contextlib.suppress(VerificationError):  # some bytes, such as a time's, mean nothing to a wheel
            verify_wheel(wheel, must_contain={})


def test_another_file_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match=r"notes.txt is no wheel's file name"):
        verify_wheel(tmp_path / "notes.txt", must_contain={})


@pytest.mark.parametrize("folder", ["demo-1.1.dist-info", "other-1.0.dist-info", "demo-x.dist-info"])
def test_a_dist_info_of_another_wheel_is_refused(tmp_path: Path, folder: str) -> None:
    wheel = tmp_path / "demo-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{folder}/RECORD", "")

    with pytest.raises(VerificationError, match=f"holds {folder}, which is another name or version"):
        verify_wheel(wheel, must_contain={})


def test_two_dist_infos_are_refused(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, wheel_files() | {"other-1.0.dist-info/METADATA": b""})

    with pytest.raises(VerificationError, match=r"not one .dist-info folder but: demo-1.0.dist-info, other-1.0"):
        verify_wheel(wheel, must_contain={})


def test_a_wheel_without_record_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "demo-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("demo-1.0.dist-info/METADATA", "")

    with pytest.raises(VerificationError, match=r"lacks demo-1.0.dist-info/RECORD"):
        verify_wheel(wheel, must_contain={})


def test_folders_in_the_archive_are_no_members(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, wheel_files())
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.mkdir("demo/folder") if hasattr(archive, "mkdir") else archive.writestr("demo/folder/", b"")

    verify_wheel(wheel, must_contain={})
    assert "demo/folder/" not in member_names(wheel)


def test_the_records_of_a_wheel_are_read_by_their_paths(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, wheel_files())

    records = read_wheel(wheel)

    assert (records.name, records.version, records.size) == ("demo", "1.0", wheel.stat().st_size)
    assert sorted(records.files) == ["METADATA", "RECORD", "WHEEL"]
    assert records.sha256 == hashlib.sha256(wheel.read_bytes()).hexdigest()
