"""Archives as revisions: members of every kind, and damage that is one error."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from forkwheel.errors import FetchError
from forkwheel.store import Store
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
