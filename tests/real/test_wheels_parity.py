"""The parity control: without patches, what is built here is what upstream published."""

from __future__ import annotations

from pathlib import Path

import pytest
from parity import UNLIKE_ITSELF, UPSTREAM, VERSION_FILES, differing, members
from wheels_driver import build

from forkwheel.fetch import FetchContext
from forkwheel.fetch.index import cached_archive
from forkwheel.recipe import Recipe


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
