"""Archives that somebody else made: what is unpacked, and what is refused."""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from forkwheel.errors import FetchError
from forkwheel.fetch import unpack
from forkwheel.fetch.unpack import unpack_sdist, unpack_wheel
from forkwheel.tree import walk


def member(name: str, content: bytes = b"x", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def make_tar(file: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(file, "w:gz") as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    return file


def make_zip(file: Path, *members: tuple[str, bytes, int]) -> Path:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in members:
            info = zipfile.ZipInfo(name)
            info.filename = name  # ZipInfo itself cuts a name at NUL
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return file


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, b"", type=kind, linkname=target)


def test_the_top_level_folder_is_stripped(tmp_path):
    archive = make_tar(
        tmp_path / "demo-1.tar.gz",
        member("anything at all", b"", type=tarfile.DIRTYPE, mode=0o700),
        member("anything at all/a.py", b"a"),
        member("anything at all/sub/tool", b"t", mode=0o4711),
        link("anything at all/sub/link", "../a.py"),
        link("anything at all/hard", "anything at all/a.py", tarfile.LNKTYPE),
        member("anything at all/empty", b"", type=tarfile.DIRTYPE),
    )

    root = unpack_sdist(archive, tmp_path / "out")

    assert walk(root) == ["a.py", "hard", "sub/link", "sub/tool"]
    assert (root / "empty").is_dir()
    assert (root / "hard").read_bytes() == b"a"
    assert (root / "hard").stat().st_nlink == 1
    assert stat.S_IMODE((root / "sub/tool").stat().st_mode) == 0o755
    assert stat.S_IMODE((root / "a.py").stat().st_mode) == 0o644
    assert stat.S_IMODE(root.stat().st_mode) == stat.S_IMODE((root / "sub").stat().st_mode) == 0o755


def test_names_may_start_with_a_dot_folder(tmp_path):
    archive = make_tar(tmp_path / "d-1.tar.gz", member("./", b"", type=tarfile.DIRTYPE), member("./d-1/a", b"a"))

    assert walk(unpack_sdist(archive, tmp_path / "out")) == ["a"]


@pytest.mark.parametrize("kind", ["sdist", "wheel"])
def test_zip_files_are_unpacked(tmp_path, kind):
    archive = make_zip(
        tmp_path / "demo-1.zip", ("demo/", b"", 0o40755), ("demo/a.py", b"a", 0o100600), ("demo/run", b"r", 0o100755)
    )

    root = (unpack_sdist if kind == "sdist" else unpack_wheel)(archive, tmp_path / "out")

    prefix = "" if kind == "sdist" else "demo/"
    assert walk(root) == [f"{prefix}a.py", f"{prefix}run"]
    assert stat.S_IMODE((root / f"{prefix}run").stat().st_mode) == 0o755
    assert stat.S_IMODE((root / f"{prefix}a.py").stat().st_mode) == 0o644


def refused(archive: Path, tmp_path: Path, message: str) -> None:
    out = tmp_path / "out"
    with pytest.raises(FetchError, match=message) as caught:
        unpack_sdist(archive, out)
    assert caught.value.hint
    assert not list(out.iterdir())


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([member("/etc/x")], "does not stay"),
        ([member("d/../../x")], "does not stay"),
        ([member("../x")], "does not stay"),
        ([member("d//x")], "does not stay"),
        ([member("d/./x")], "does not stay"),
        ([member("d/a\\b")], "backslash"),
        ([member("d/a\nb")], "control character"),
        ([member("d/.git/config")], r"\.git"),
        ([member("d/sub/.GIT")], r"\.git"),
        ([member("d/a"), member("d/a")], "there twice"),
        ([member("d/a"), member("d/a/b")], "there twice|cannot be written"),
        ([member("d/a"), member("e/a")], "top-level folder 'd'"),
        ([member("d"), member("d/a")], "beside"),
        ([member("a")], "beside"),
        ([member("d", b"", type=tarfile.DIRTYPE)], "is empty"),
        ([], "is empty"),
        ([link("d/l", "/etc/passwd")], "leaves the tree"),
        ([link("d/l", "../../x")], "leaves the tree"),
        ([link("d/l", "..")], "leaves the tree"),
        ([link("d/k", "."), link("d/l", "k/../../x")], "leaves the tree"),
        ([link("d/k", "."), link("d/l", "k/../x")], None),
        ([link("d/sub/k", ".."), link("d/l", "sub/k/../x")], "leaves the tree"),
        ([link("d/l", "/var"), member("d/l/x")], "leaves the tree"),
        ([link("d/l", "elsewhere"), member("d/l/x")], "there twice"),
        ([link("d/l", "a"), member("d/l")], "there twice"),
        ([link("d/h", "/etc/passwd", tarfile.LNKTYPE)], "does not stay"),
        ([link("d/h", "d/../../x", tarfile.LNKTYPE)], "does not stay"),
        ([link("d/h", "d/later", tarfile.LNKTYPE), member("d/later")], "no file precedes"),
        ([link("d/l", "a"), member("d/a"), link("d/h", "d/l", tarfile.LNKTYPE)], "no file precedes"),
        ([member("d/f", b"", type=tarfile.FIFOTYPE)], "special file"),
        ([member("d/c", b"", type=tarfile.CHRTYPE)], "special file"),
        ([member("d/b", b"", type=tarfile.BLKTYPE)], "special file"),
        ([member("d/u", b"", type=b"Z")], "special file"),
        ([member("d/" + "n" * 300)], "cannot be written"),
        ([member("d/" + "n/" * 3000 + "x")], "deeper than 100"),
    ],
)
def test_unsafe_tar_members_are_refused(tmp_path, members, message):
    archive = make_tar(tmp_path / "demo-1.tar.gz", *members)

    if message is None:
        with pytest.raises(FetchError, match="leaves the tree"):
            unpack_sdist(archive, tmp_path / "out")
    else:
        refused(archive, tmp_path, message)


def test_a_name_with_nul_in_an_extended_header_is_refused(tmp_path):
    info, content = member("d/x")
    info.pax_headers = {"path": "d/a\0b"}

    refused(make_tar(tmp_path / "demo-1.tar.gz", (info, content)), tmp_path, "control character|damaged")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("/etc/x", b"x", 0)], "does not stay"),
        ([("d/../../x", b"x", 0)], "does not stay"),
        ([("d/a\\b", b"x", 0)], "backslash"),
        ([("d/a\0b", b"x", 0)], "control character|damaged"),
        ([("d/a", b"x", 0), ("e/a", b"x", 0)], "top-level folder"),
        ([("d/l", b"/etc/passwd", 0o120777)], "leaves the tree"),
        ([("d/l", b"../x", 0o120777)], "leaves the tree"),
        ([("d/l", b"", 0o120777)], "leaves the tree"),
        ([("d/f", b"", 0o010644)], "special file"),
        ([("d/c", b"", 0o020644)], "special file"),
        ([("d/folder", b"x", 0o040755)], "special file"),
    ],
)
def test_unsafe_zip_members_are_refused(tmp_path, members, message):
    refused(make_zip(tmp_path / "demo-1.zip", *members), tmp_path, message)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicate_zip_members_are_refused(tmp_path):
    archive = make_zip(tmp_path / "demo-1.zip", ("d/a", b"1", 0), ("d/a", b"2", 0))

    refused(archive, tmp_path, "there twice")


def test_encrypted_zip_members_are_refused(tmp_path):
    archive = make_zip(tmp_path / "demo-1.zip", ("d/a", b"1", 0))
    content = bytearray(archive.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(content)

    refused(archive, tmp_path, "encrypted")


def test_a_file_of_zeros_is_a_bomb_beyond_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(unpack, "RATIO_FLOOR", 1 << 20)
    tar = make_tar(tmp_path / "demo-1.tar.gz", member("d/zeros", bytes(4 << 20)))
    archive = make_zip(tmp_path / "demo-1.zip", ("d/zeros", bytes(4 << 20), 0))

    for bomb in (tar, archive):
        refused(bomb, tmp_path, "unpacks to more than 1 MiB")


def test_an_extended_header_can_be_a_bomb_too(tmp_path, monkeypatch):
    monkeypatch.setattr(unpack, "RATIO_FLOOR", 1 << 20)
    info, content = member("d/x")
    info.pax_headers = {"comment": "z" * (4 << 20)}

    refused(make_tar(tmp_path / "demo-1.tar.gz", (info, content)), tmp_path, "unpacks to more than 1 MiB")


def test_hard_links_multiply_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(unpack, "RATIO_FLOOR", 1 << 20)
    content = os.urandom(1000) + bytes(500_000)
    links = [link(f"d/h{number}", "d/a", tarfile.LNKTYPE) for number in range(9)]

    refused(make_tar(tmp_path / "demo-1.tar.gz", member("d/a", content), *links), tmp_path, "unpacks to more")


def test_members_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(unpack, "MAX_MEMBERS", 3)
    names = [f"d/{number}" for number in range(4)]

    refused(make_tar(tmp_path / "a-1.tar.gz", *map(member, names)), tmp_path, "more than 3 files")
    refused(make_zip(tmp_path / "a-1.zip", *((name, b"x", 0) for name in names)), tmp_path, "more than 3 files")


def test_every_truncation_is_one_clear_error(tmp_path):
    contents = [member(f"d/file{number}", os.urandom(700)) for number in range(4)]
    tar = make_tar(tmp_path / "whole.tar.gz", *contents)
    archive = make_zip(tmp_path / "whole.zip", *((info.name, data, 0) for info, data in contents))

    for whole in (tar, archive):
        content = whole.read_bytes()
        for length in range(0, len(content) - 1, 101):
            cut = tmp_path / f"cut{whole.suffix}" if whole.suffix == ".zip" else tmp_path / "cut.tar.gz"
            cut.write_bytes(content[:length])
            refused(cut, tmp_path, "is damaged|is empty")


def test_a_tar_cut_inside_a_whole_gzip_is_damaged(tmp_path):
    whole = make_tar(tmp_path / "whole.tar.gz", *(member(f"d/{number}", bytes(600)) for number in range(3)))
    content = gzip.decompress(whole.read_bytes())
    end = len(content.rstrip(b"\0"))

    for length in (*range(512, end, 256), 3 * 1536):
        cut = tmp_path / "cut.tar.gz"
        cut.write_bytes(gzip.compress(content[:length]))
        refused(cut, tmp_path, "is damaged")


def test_a_broken_header_in_the_middle_does_not_end_the_list(tmp_path):
    whole = make_tar(tmp_path / "whole.tar.gz", *(member(f"d/{number}") for number in range(3)))
    content = bytearray(gzip.decompress(whole.read_bytes()))
    content[1024 + 150] ^= 0xFF  # in the second member's checksum
    broken = tmp_path / "broken.tar.gz"
    broken.write_bytes(gzip.compress(bytes(content)))

    refused(broken, tmp_path, "breaks off")


def test_any_flipped_byte_is_an_error_or_harmless(tmp_path):
    """Nothing but our own error comes out of a damaged archive, and nothing stays behind."""
    files = [(f"d/file{number}", os.urandom(50), 0o100644) for number in range(3)]
    archive = make_zip(tmp_path / "whole.zip", *files).read_bytes()
    tar = gzip.decompress(make_tar(tmp_path / "w.tar.gz", *(member(n, c) for n, c, _ in files)).read_bytes())
    for position in range(0, len(archive), 7):
        _unpack_flipped(tmp_path / "flipped.zip", archive, position, tmp_path / f"z{position}")
    for position in range(0, 4096, 31):
        _unpack_flipped(tmp_path / "flipped.tar.gz", tar, position, tmp_path / f"t{position}")


def _unpack_flipped(file: Path, content: bytes, position: int, out: Path) -> None:
    flipped = bytearray(content)
    flipped[position] ^= 0xFF
    file.write_bytes(gzip.compress(bytes(flipped), 1) if file.suffix == ".gz" else flipped)
    try:
        unpack_sdist(file, out)
    except FetchError:
        assert not list(out.iterdir())


def test_a_taken_destination_is_left_alone(tmp_path):
    archive = make_tar(tmp_path / "demo-1.tar.gz", member("d/a"))
    root = unpack_sdist(archive, tmp_path / "out")
    (root / "mine").write_text("kept")

    with pytest.raises(FetchError, match="exists already"):
        unpack_sdist(archive, tmp_path / "out")
    assert (root / "mine").read_text() == "kept"
