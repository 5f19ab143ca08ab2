"""Wheels and projects made on the spot for the tests of building and verifying."""

from __future__ import annotations

import hashlib
import io
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path

from forkwheel.console import Console, Log

METADATA = """\
Metadata-Version: 2.1
Name: demo
Version: {version}
Requires-Dist: base==1.0
Requires-Dist: base-extras[x]==1.0; extra == "more"

Requires-Dist: base==1.0
The description, with  odd   spacing.\t
"""


def quiet_log() -> Log:
    return Console(stream=io.StringIO(), error_stream=io.StringIO()).bind("demo")


def record_row(name: str, content: bytes) -> str:
    digest = urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}"


def wheel_files(*, version: str = "1.0", metadata: str = METADATA) -> dict[str, bytes]:
    """Return the members of a sound wheel, but for RECORD."""
    return {
        "demo/__init__.py": f"__version__ = '{version}'\n".encode(),
        "demo/data.txt": b"data " * 100,
        "demo/empty.txt": b"",
        f"demo-{version}.dist-info/METADATA": metadata.format(version=version).encode(),
        f"demo-{version}.dist-info/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n",
    }


def write_wheel(
    folder: Path,
    files: Mapping[str, bytes],
    *,
    version: str = "1.0",
    name: str = "demo",
    record: str | None = None,
    executable: tuple[str, ...] = (),
) -> Path:
    """Write a wheel; ``record`` replaces the rows that RECORD has by itself."""
    rows = [record_row(member, content) for member, content in files.items()]
    rows.append(f"{name}-{version}.dist-info/RECORD,,")
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in files.items():
            info = zipfile.ZipInfo(member)
            info.external_attr = (0o100755 if member in executable else 0o100600) << 16
            archive.writestr(info, content)
        text = "\n".join(rows) + "\n" if record is None else record
        archive.writestr(f"{name}-{version}.dist-info/RECORD", text)
    return path


BACKEND = """\
import base64, hashlib, os, sys, zipfile

def get_requires_for_build_wheel(config_settings=None):
    return []

def build_wheel(folder, config_settings=None, metadata_directory=None):
    {action}
    name = "demo-{version}.dist-info"
    files = {{
        "demo/__init__.py": b"__version__ = '{version}'\\n",
        name + "/METADATA": b"Metadata-Version: 2.1\\nName: demo\\nVersion: {version}\\n",
        name + "/WHEEL": b"Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }}
    rows = ""
    with zipfile.ZipFile(os.path.join(folder, "demo-{version}-py3-none-any.whl"), "w") as archive:
        for member, content in files.items():
            archive.writestr(member, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            rows += f"{{member}},sha256={{digest}},{{len(content)}}\\n"
        archive.writestr(name + "/RECORD", rows + name + "/RECORD,,\\n")
    return "demo-{version}-py3-none-any.whl"
"""


def write_project(tree: Path, *, action: str = "pass", version: str = "1.0", requires: str = "") -> Path:
    """Write a project with a backend of its own, which runs ``action`` before it builds."""
    tree.mkdir(parents=True, exist_ok=True)
    (tree / "pyproject.toml").write_text(
        f'[build-system]\nrequires = [{requires}]\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    (tree / "backend.py").write_text(BACKEND.format(action=action, version=version))
    return tree
