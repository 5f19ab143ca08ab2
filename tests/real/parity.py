"""Upstream's own wheels of the pinned releases, and how a wheel is compared with them."""

from __future__ import annotations

import zipfile
from pathlib import Path

from forkwheel.recipe import FileSource

UPSTREAM = {
    "flashinfer-python": FileSource(
        "wheel",
        "flashinfer_python-0.6.3-py3-none-any.whl",
        "0fe2de934a4b3690c543dafb03f38d7bb4a762431abe8ae4f7292d6fef10c65d",
    ),
    "sglang": FileSource(
        "wheel",
        "sglang-0.5.9-py3-none-any.whl",
        "8a936c4d25fea605f44254e533cff2144c73ceffbc1f8738aba393461bbb64d1",
    ),
}
VERSION_FILES = {"flashinfer/_build_meta.py", "sglang/_version.py"}
UNLIKE_ITSELF = {"@.dist-info/WHEEL", "@.dist-info/RECORD"}


def members(wheel: Path) -> dict[str, bytes]:
    """Read a wheel's members; ``@`` stands for the name and version of the .dist-info folder."""
    with zipfile.ZipFile(wheel) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    folder = next(name for name in contents if name.endswith(".dist-info/METADATA")).partition("/")[0]
    return {name.replace(folder, "@.dist-info"): content for name, content in contents.items()}


def differing(ours: dict[str, bytes], theirs: dict[str, bytes]) -> set[str]:
    return {name for name in ours.keys() & theirs.keys() if ours[name] != theirs[name]}
