"""The output folder: never two sets mixed, nothing of others overwritten, damage survived."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from support import PACKAGE

from forkwheel.errors import UsageError
from forkwheel.key import Key
from forkwheel.outputs import KERNEL_RECORDS, KernelOutput, write_outputs
from forkwheel.patching.series import Series
from forkwheel.plan import Plan
from forkwheel.recipe import Recipe
from forkwheel.release.inputs import PackageInputs
from forkwheel.release.manifest import Built, read_manifest
from forkwheel.sources import SourceTree
from forkwheel.tree import Tree
from forkwheel.wheels.finish import Wheel


def recipe(name: str = "demo") -> Recipe:
    return Recipe(name, "demo", 1, "any", "", (PACKAGE,), Path("recipe.toml"))


def built(folder: Path, *, version: str = "1.0+demo.1", content: bytes = b"wheel") -> Built:
    folder.mkdir(exist_ok=True)
    path = folder / f"demo-{version}-py3-none-any.whl"
    path.write_bytes(content)
    source = SourceTree(Tree(folder, ()), PACKAGE.sources[0], (("kind", "sdist"),))
    series = Series(Path(), ())
    inputs = PackageInputs("demo", (), (), ())
    plan = Plan(PACKAGE, source, series, inputs, (), Key((("format", "1"),)), version, 1, None)
    return Built(plan, Wheel(path, path.name, sha256(content).hexdigest(), len(content)), (), False, 1.0)


def write(dist: Path, item: Built, *, name: str = "demo") -> set[str]:
    write_outputs(
        dist, recipe(name), (item,), started="2026-01-01T00:00:00+00:00", finished="2026-01-01T00:00:01+00:00"
    )
    return {file.name for file in dist.iterdir()}


def test_a_new_set_replaces_the_old_one_and_leaves_others_alone(tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    write(dist, built(tmp_path / "a"))
    (dist / "mine.whl").write_text("mine")
    names = write(dist, built(tmp_path / "b", version="1.0+demo.2"))
    assert "demo-1.0+demo.2-py3-none-any.whl" in names
    assert "demo-1.0+demo.1-py3-none-any.whl" not in names
    assert (dist / "mine.whl").read_text() == "mine"
    assert "mine.whl" not in (dist / "SHA256SUMS").read_text()


def test_what_is_removed_from_the_folder_is_told(tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    write(dist, built(tmp_path / "a"))

    written = write_outputs(dist, recipe(), (built(tmp_path / "b", version="1.0+demo.2"),), started="", finished="")

    assert written.removed == ("demo-1.0+demo.1-py3-none-any.whl",)
    assert all(file.is_file() for file in written.files)


def test_every_file_but_the_observed_one_is_in_the_sums(tmp_path: Path) -> None:
    names = write(tmp_path / "dist", built(tmp_path / "a"))
    summed = {line.split("  ")[1] for line in (tmp_path / "dist" / "SHA256SUMS").read_text().splitlines()}
    assert summed == names - {"SHA256SUMS", "demo.observed.json"}


def test_the_manifest_is_the_same_however_the_run_went(tmp_path: Path) -> None:
    item = built(tmp_path / "a")
    write(tmp_path / "one", item)
    write(tmp_path / "two", replace(item, reused=True, seconds=9.0))
    for name in ("demo.manifest.json", "SHA256SUMS"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_another_recipes_wheel_of_the_same_name_is_not_overwritten(tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    write(dist, built(tmp_path / "a"))
    with pytest.raises(UsageError, match=r"demo\.manifest\.json lists demo-1\.0\+demo\.1"):
        write(dist, built(tmp_path / "b", content=b"other"), name="second")
    assert (dist / "demo-1.0+demo.1-py3-none-any.whl").read_bytes() == b"wheel"
    write(dist, built(tmp_path / "b"), name="second")


@pytest.mark.parametrize("name", ["demo-1.0+demo.1-py3-none-any.whl", "demo.manifest.json", "SHA256SUMS"])
def test_a_folder_in_a_files_place_is_one_error_before_anything_is_written(tmp_path: Path, name: str) -> None:
    dist = tmp_path / "dist"
    (dist / name).mkdir(parents=True)
    with pytest.raises(UsageError, match="is a folder"):
        write(dist, built(tmp_path / "a"))
    assert [file.name for file in dist.iterdir()] == [name]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"schema": 1}',
        '{"schema": 1, "packages": [1]}',
        '{"schema": 1, "packages": {"a": 1}}',
        '{"schema": 2, "packages": []}',
        "[" * 20000,
        json.dumps(
            {
                "schema": 1,
                "packages": [{"name": "a", "version": "1", "parts": {}, "wheel": {"filename": "..", "sha256": ""}}],
            }
        ),
    ],
)
def test_a_damaged_manifest_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    dist = tmp_path / "dist"
    dist.mkdir()
    for name in ("demo", "other"):
        (dist / f"{name}.manifest.json").write_text(text)
    assert read_manifest(dist / "demo.manifest.json") is None
    assert "demo-1.0+demo.1-py3-none-any.whl" in write(dist, built(tmp_path / "a"))


def test_an_output_folder_that_is_a_file_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "dist").touch()
    with pytest.raises(UsageError, match="cannot be used"):
        write(tmp_path / "dist", built(tmp_path / "a"))


def test_what_a_killed_run_left_half_written_is_removed(tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    dist.mkdir()
    (dist / ".x.abc.forkwheel-unfinished").touch()
    assert ".x.abc.forkwheel-unfinished" not in write(dist, built(tmp_path / "a"))


def test_kernels_come_and_go_with_their_records(tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    item = built(tmp_path / "a")
    path = tmp_path / "demo_kernels-1.0+demo.1-py3-none-any.whl"
    path.write_bytes(b"kernels")
    wheel = Wheel(path, path.name, sha256(b"kernels").hexdigest(), 7)
    entry = {"filename": wheel.filename, "sha256": wheel.sha256, "size": wheel.size}
    records = {suffix: {"wheel": entry} for suffix in KERNEL_RECORDS}
    before = write(dist, item)
    write_outputs(dist, recipe(), (item,), started="", finished="", kernels=KernelOutput(wheel, records))
    names = {file.name for file in dist.iterdir()}
    assert names - before == {wheel.filename, *(f"demo.{suffix}" for suffix in KERNEL_RECORDS)}
    assert wheel.filename in (dist / "SHA256SUMS").read_text()
    assert write(dist, item) == before
