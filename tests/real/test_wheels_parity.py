"""The parity control: without patches, what is built here is what upstream published."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from wheels_driver import build

from forkwheel.fetch import FetchContext
from forkwheel.fetch.index import cached_archive
from forkwheel.recipe import FileSource, Recipe

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


@pytest.fixture(params=sorted(UPSTREAM))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def upstream(name: str, recipe: Recipe, context: FetchContext) -> dict[str, bytes]:
    path, _ = cached_archive(recipe.package(name), UPSTREAM[name], context=context)
    return members(path)


def test_without_patches_or_local_version_the_wheel_is_upstreams(
    name: str, upstream: dict[str, bytes], recipe: Recipe, context: FetchContext, tmp_path: Path
) -> None:
    wheel = build(recipe.file, name, version=recipe.package(name).version, context=context, folder=tmp_path)

    ours = members(wheel.path)
    assert wheel.filename == UPSTREAM[name].filename
    assert ours.keys() ^ upstream.keys() == set()
    assert differing(ours, upstream) <= UNLIKE_ITSELF | VERSION_FILES


def test_with_a_local_version_only_metadata_differs_further(
    name: str, upstream: dict[str, bytes], recipe: Recipe, context: FetchContext, tmp_path: Path
) -> None:
    version = recipe.package(name).version
    wheel = build(recipe.file, name, version=f"{version}+sm120.1", context=context, folder=tmp_path)

    ours = members(wheel.path)
    text, their_text = (found["@.dist-info/METADATA"].decode() for found in (ours, upstream))
    rewritten = their_text.replace(f"\nVersion: {version}\n", f"\nVersion: {version}+sm120.1\n", 1)
    for requirement in recipe.package(name).requires:
        pinned = requirement.partition("==")[0]
        rewritten = rewritten.replace(f"\nRequires-Dist: {requirement}\n", f"\nRequires-Dist: {pinned}==9+test\n")
    assert ours.keys() ^ upstream.keys() == {"@.dist-info/sboms/forkwheel.cdx.json"}
    assert differing(ours, upstream) <= UNLIKE_ITSELF | VERSION_FILES | {"@.dist-info/METADATA"}
    assert text == rewritten
    assert text != their_text
