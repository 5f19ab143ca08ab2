"""pip and uv prefer a revision to any development build of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import PACKAGE

from forkwheel.key import Key, development_version, released_version
from forkwheel.wheels.archive import Member, archive
from forkwheel.wheels.record import write_record


def add_wheel(folder: Path, version: str) -> None:
    """Write an empty wheel of the project ``demo``."""
    info = f"demo-{version}.dist-info"
    members = [
        Member(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: demo\nVersion: {version}\n".encode()),
        Member(f"{info}/WHEEL", b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
    ]
    members.append(Member(f"{info}/RECORD", write_record(members, name=f"{info}/RECORD")))
    (folder / f"demo-{version}-py3-none-any.whl").write_bytes(b"".join(archive(members, epoch=PACKAGE.epoch)))


@pytest.fixture
def index(tmp_path: Path) -> Path:
    for digit in "0f9":
        key = Key((("part", digit),))
        add_wheel(tmp_path, development_version(PACKAGE, local="demo", key=key))
    for revision in (1, 2, 10):
        add_wheel(tmp_path, released_version(PACKAGE, local="demo", revision=revision))
    return tmp_path


def installed(client: str, index: Path, target: Path) -> list[str]:
    """Install ``demo`` from the folder ``index`` alone and return what came."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent))
    command = {
        "pip": [sys.executable, "-m", "pip", "install", "--no-input"],
        "uv": [str(uv), "pip", "install", "--python", sys.executable],
    }[client]
    arguments = ["--no-index", "--find-links", str(index), "--target", str(target), "demo"]
    subprocess.run([*command, *arguments], check=True, capture_output=True, cwd=index)
    return [folder.name for folder in target.glob("*.dist-info")]


@pytest.mark.parametrize("client", ["pip", "uv"])
def test_the_newest_revision_is_installed(client: str, index: Path, tmp_path: Path) -> None:
    assert installed(client, index, tmp_path / "target") == ["demo-1.0+demo.10.dist-info"]


@pytest.mark.parametrize("client", ["pip", "uv"])
def test_the_first_revision_is_preferred_to_every_development_build(client: str, index: Path, tmp_path: Path) -> None:
    for revision in (2, 10):
        (index / f"demo-1.0+demo.{revision}-py3-none-any.whl").unlink()
    assert installed(client, index, tmp_path / "target") == ["demo-1.0+demo.1.dist-info"]
