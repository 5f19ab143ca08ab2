"""Archives as revisions: members of every kind, and damage that is one error."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from forkwheel.errors import FetchError
from forkwheel.store import Store
from forkwheel.upstream import gzipped
from forkwheel.upstream.archives import open_archive


def linked(folder: Path, target: str) -> Path:
    path = folder / "demo-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        info = tarfile.TarInfo("demo-1.0/f.txt")
        info.size = 4
        tar.addfile(info, io.BytesIO(b"text"))
        link = tarfile.TarInfo("demo-1.0/g.txt")
        link.type, link.linkname = tarfile.LNKTYPE, f"demo-1.0/{target}"
        tar.addfile(link)
    return path


@pytest.fixture(params=["held", "stream"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unpack every sdist in memory, or bit by bit."""
    if request.param == "stream":
        monkeypatch.setattr(gzipped, "_MOST_HELD", 0)


@pytest.mark.parametrize("wanted", [["g.txt"], ["f.txt", "g.txt"], []])
def test_a_hard_link_has_its_targets_content(tmp_path: Path, wanted: list[str]) -> None:
    archive = linked(tmp_path, "f.txt")
    for _ in range(2):
        files = open_archive(archive, store=Store(tmp_path / "cache"), wanted=wanted)
        assert files.read("g.txt").content == b"text"


@pytest.mark.parametrize("target", ["absent.txt", "g.txt"])
def test_a_hard_link_to_nothing_is_one_error(tmp_path: Path, target: str) -> None:
    with pytest.raises(FetchError, match=r"g\.txt is no file"):
        open_archive(linked(tmp_path, target), store=Store(tmp_path / "cache"), wanted=["g.txt"])


@pytest.mark.parametrize("name", ["demo-1.0.zip", "demo-1.0-py3-none-any.whl"])
def test_an_empty_zip_is_one_error(tmp_path: Path, name: str) -> None:
    zipfile.ZipFile(tmp_path / name, "w").close()
    with pytest.raises(FetchError, match="is damaged: it is empty"):
        open_archive(tmp_path / name, store=Store(tmp_path / "cache"), wanted=[])


def test_a_member_that_is_damaged_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "demo-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("f.txt", b"the content")
    path.write_bytes(path.read_bytes().replace(b"the content", b"THE content"))
    files = open_archive(path, store=Store(tmp_path / "cache"), wanted=["f.txt"])
    with pytest.raises(FetchError, match="is damaged: Bad CRC"):
        files.read("f.txt")


def sdist(folder: Path, files: dict[str, bytes]) -> Path:
    path = folder / "demo-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(f"demo-1.0/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


FILES = {
    "a.txt": b"first",
    "large.bin": bytes(range(256)) * 5000,
    f"{'long/' * 40}name.txt": b"far away",
    "empty.txt": b"",
    "block.txt": b"x" * 512,
    "last.txt": b"last",
}


@pytest.mark.parametrize("wanted", [[], ["last.txt"], list(FILES)])
def test_every_file_is_read_as_it_was_packed(tmp_path: Path, wanted: list[str]) -> None:
    path = sdist(tmp_path, FILES)
    for _ in range(2):
        files = open_archive(path, store=Store(tmp_path / "cache"), wanted=wanted)
        assert set(files.paths()) == set(FILES)
        assert {name: files.read(name).content for name in FILES} == FILES


def test_a_file_of_two_gzip_members_is_not_read_in_part(tmp_path: Path) -> None:
    """What is held at once is unpacked by a library that stops after the first."""
    path = sdist(tmp_path, FILES)
    unpacked = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(unpacked[:5000]) + gzip.compress(unpacked[5000:]) + bytes(20))
    assert open_archive(path, store=Store(tmp_path / "cache"), wanted=[]).read("last.txt").content == b"last"


@pytest.mark.parametrize("kept", [0, 20, 1000, -1, -9])
def test_an_archive_that_breaks_off_is_one_error(tmp_path: Path, kept: int) -> None:
    path = sdist(tmp_path, {"a.txt": bytes(range(256)) * 5000, "b.txt": b"b"})
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(FetchError, match="is damaged"):
        open_archive(path, store=Store(tmp_path / "cache"), wanted=["a.txt", "b.txt"])


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gzipped, "_MOST_HELD", 0)
    monkeypatch.setattr(gzipped, "MAX_BYTES", 4000)
    with pytest.raises(FetchError, match="unpacks to more than"):
        open_archive(sdist(tmp_path, FILES), store=Store(tmp_path / "cache"), wanted=[])
