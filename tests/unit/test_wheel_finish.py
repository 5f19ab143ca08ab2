"""Finishing: what the backend made is checked, rewritten where the recipe says so, and packed the same everywhere."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from support import PACKAGE
from wheels_support import METADATA, record_row, wheel_files, write_wheel

from forkwheel.errors import BuildError
from forkwheel.recipe import Package
from forkwheel.wheels.finish import Wheel, finish_wheel
from forkwheel.wheels.metadata import rewrite_requirements
from forkwheel.wheels.verify import verify_wheel

DEMO = replace(PACKAGE, version_file="src/demo/__init__.py")


def finish(
    raw: Path,
    dest: Path,
    *,
    package: Package = DEMO,
    version: str = "1.0",
    requires: Mapping[str, str] | None = None,
    records: Mapping[str, bytes] | None = None,
) -> Wheel:
    return finish_wheel(
        raw, package=package, version=version, requires=requires or {}, records=records or {}, dest=dest
    )


def test_a_finished_wheel_is_sound_and_described(tmp_path: Path) -> None:
    raw = write_wheel(tmp_path, wheel_files())

    wheel = finish(raw, tmp_path / "out", records={"forkwheel/key.json": b"{}"})

    verify_wheel(wheel.path, must_contain={"demo/data.txt": None, "demo-1.0.dist-info/forkwheel/key.json": None})
    content = wheel.path.read_bytes()
    assert (wheel.filename, wheel.size) == ("demo-1.0-py3-none-any.whl", len(content))


def test_members_are_ordered_with_record_last(tmp_path: Path) -> None:
    files = dict(reversed(wheel_files().items())) | {"zzz/last.py": b""}

    wheel = finish(write_wheel(tmp_path, files), tmp_path / "out", records={"sboms/a.json": b"{}"})

    names = zipfile.ZipFile(wheel.path).namelist()
    assert names == [
        "demo/__init__.py",
        "demo/data.txt",
        "demo/empty.txt",
        "zzz/last.py",
        "demo-1.0.dist-info/METADATA",
        "demo-1.0.dist-info/WHEEL",
        "demo-1.0.dist-info/sboms/a.json",
        "demo-1.0.dist-info/RECORD",
    ]


def test_the_raw_wheels_order_and_modes_do_not_matter(tmp_path: Path) -> None:
    files = wheel_files()
    (tmp_path / "other").mkdir()
    one = finish(write_wheel(tmp_path, files), tmp_path / "one")
    other = finish(write_wheel(tmp_path / "other", dict(reversed(files.items()))), tmp_path / "two")

    assert one.sha256 == other.sha256


def test_an_executable_stays_one(tmp_path: Path) -> None:
    raw = write_wheel(tmp_path, wheel_files(), executable=("demo/data.txt",))

    wheel = finish(raw, tmp_path / "out")

    modes = {info.filename: info.external_attr >> 16 for info in zipfile.ZipFile(wheel.path).infolist()}
    assert (modes["demo/data.txt"], modes["demo/__init__.py"]) == (0o100755, 0o100644)


def test_only_the_named_requirement_changes(tmp_path: Path) -> None:
    raw = write_wheel(tmp_path, wheel_files())

    wheel = finish(raw, tmp_path / "out", requires={"Base==1.0": "1.0+us.1", "base_extras==1.0": "1.0+us.1"})

    text = zipfile.ZipFile(wheel.path).read("demo-1.0.dist-info/METADATA").decode()
    wanted = METADATA.format(version="1.0").replace("Requires-Dist: base==1.0\nR", "Requires-Dist: base==1.0+us.1\nR")
    assert text == wanted.replace("base-extras[x]==1.0;", "base-extras[x]==1.0+us.1;")


@pytest.mark.parametrize(
    ("line", "rewritten"),
    [
        (b"Requires-Dist: base (==1.0)\r\n", b"Requires-Dist: base (==1.0+us.1)\r\n"),
        (b"requires-dist:base == 1.0 ; extra == '1.0'\n", b"requires-dist:base == 1.0+us.1 ; extra == '1.0'\n"),
        (b"Requires-Dist: BASE[b,a]==1.0.0\n", b"Requires-Dist: BASE[b,a]==1.0+us.1\n"),
    ],
)
def test_every_spelling_of_a_requirement_is_rewritten(line: bytes, rewritten: bytes) -> None:
    head = b"Name: demo\n"

    assert rewrite_requirements(head + line + b"\nbody", {"base==1.0": "1.0+us.1"}) == head + rewritten + b"\nbody"


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (b"Requires-Dist: base==1.1\n", "requires base==1.0 0 times, not once; it has: base==1.1"),
        (b"Requires-Dist: base>=1.0\n", "0 times, not once; it has: base>=1.0"),
        (b"Requires-Dist: base==1.*\n", r"0 times, not once; it has: base==1.\*"),
        (b"Requires-Dist: base==1.0,!=1.1\n", "0 times, not once"),
        (b"Requires-Dist: database==1.0\n", "0 times, not once; it has: no requirement on base"),
        (b"Name: a\n\nRequires-Dist: base==1.0\n", "0 times, not once"),
        (b"Requires-Dist: base==1.0\nRequires-Dist: base==1.0; extra == 'x'\n", "2 times, not once"),
        (b"Requires-Dist: base===1.0\n", "0 times, not once"),
        (b"Requires-Dist: base===any.thing-at all\n", "0 times, not once"),
    ],
)
def test_a_requirement_that_is_not_there_once_is_refused(metadata: bytes, message: str) -> None:
    with pytest.raises(BuildError, match=message):
        rewrite_requirements(metadata, {"base==1.0": "1.0+us.1"})


def test_extras_in_the_recipe_must_be_those_of_the_requirement() -> None:
    metadata = b"Requires-Dist: base[y]==1.0\n"

    with pytest.raises(BuildError, match="0 times, not once"):
        rewrite_requirements(metadata, {"base[x]==1.0": "1.0+us.1"})
    assert rewrite_requirements(metadata, {"base[y]==1.0": "2"}) == b"Requires-Dist: base[y]==2\n"


def test_another_version_than_the_plans_is_refused(tmp_path: Path) -> None:
    raw = write_wheel(tmp_path, wheel_files(version="1.1"), version="1.1")

    with pytest.raises(BuildError, match=r"the backend built demo-1.1-py3-none-any.whl, not demo 1.0"):
        finish(raw, tmp_path / "out")


def test_another_package_is_refused(tmp_path: Path) -> None:
    raw = write_wheel(tmp_path, wheel_files())

    with pytest.raises(BuildError, match=r"not other 1.0"):
        finish(raw, tmp_path / "out", package=replace(DEMO, name="other"))


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ("Name: demo\nVersion: 1.1\n", "METADATA gives the version 1.1, not 1.0"),
        ("Name: demo\n", "METADATA gives the version nothing, not 1.0"),
        ("Name: demo\nVersion: 1.0\nVersion: 1.1\n", "METADATA gives the version 1.0, 1.1, not 1.0"),
        ("Name: other\nVersion: 1.0\n", "METADATA gives the name other, not demo"),
    ],
)
def test_metadata_that_tells_otherwise_is_refused(tmp_path: Path, metadata: str, message: str) -> None:
    raw = write_wheel(tmp_path, wheel_files(metadata=metadata))

    with pytest.raises(BuildError, match=message):
        finish(raw, tmp_path / "out")


@pytest.mark.parametrize(
    "source",
    [
        b"__version__ = version = '1.0'\n",
        b"__version__: str\n__version__ = '1.0'\n",
        b"__version__: str = '1.0'\n",
        b"__version__ = '0'\n__version__ = '1.0'\n",
    ],
)
def test_the_packages_own_version_is_read_without_running_it(tmp_path: Path, source: bytes) -> None:
    raw = write_wheel(tmp_path, wheel_files() | {"demo/__init__.py": source + b"raise SystemExit\n"})

    assert finish(raw, tmp_path / "out").path.is_file()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"__version__ = '1.1'\n", "demo/__init__.py says __version__ = '1.1', not '1.0'"),
        (b"__version__ = compute()\n", "__version__ = None, not '1.0'"),
        (b"version = '1.0'\n", "__version__ = None, not '1.0'"),
        (b"__version__ = '1.0'\n__version__ = '1.1'\n", "'1.1', not '1.0'"),
        (b"def f(:\n", "demo/__init__.py cannot be parsed"),
        (b"\0", "demo/__init__.py cannot be parsed"),
    ],
)
def test_a_package_that_reports_another_version_is_refused(tmp_path: Path, source: bytes, message: str) -> None:
    raw = write_wheel(tmp_path, wheel_files() | {"demo/__init__.py": source})

    with pytest.raises(BuildError, match=message):
        finish(raw, tmp_path / "out")


def test_a_missing_version_file_is_refused(tmp_path: Path) -> None:
    raw = write_wheel(tmp_path, wheel_files())

    with pytest.raises(BuildError, match=r"lacks its `version_file` demo/_version.py"):
        finish(raw, tmp_path / "out", package=replace(DEMO, version_file="demo/_version.py"))


def test_a_wrong_record_is_refused(tmp_path: Path) -> None:
    files = wheel_files()
    rows = "\n".join(record_row(name, content) for name, content in files.items()).replace(",500", ",501")

    with pytest.raises(BuildError, match=r"demo/data.txt has 500 bytes, RECORD says 501"):
        finish(write_wheel(tmp_path, files, record=rows), tmp_path / "out")


@pytest.mark.parametrize("missing", ["METADATA", "WHEEL"])
def test_a_missing_member_of_dist_info_is_refused(tmp_path: Path, missing: str) -> None:
    files = wheel_files()
    del files[f"demo-1.0.dist-info/{missing}"]

    with pytest.raises(BuildError, match=f"lacks demo-1.0.dist-info/{missing}"):
        finish(write_wheel(tmp_path, files), tmp_path / "out")


def test_a_record_of_ours_never_replaces_a_file_of_the_wheel(tmp_path: Path) -> None:
    raw = write_wheel(tmp_path, wheel_files() | {"demo-1.0.dist-info/forkwheel/key.json": b"theirs"})

    with pytest.raises(BuildError, match=r"already has demo-1.0.dist-info/forkwheel/key.json"):
        finish(raw, tmp_path / "out", records={"forkwheel/key.json": b"ours"})


def test_a_place_that_cannot_be_written_is_a_build_error(tmp_path: Path) -> None:
    raw = write_wheel(tmp_path, wheel_files())
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(BuildError, match="the wheel of demo cannot be written to"):
        finish(raw, tmp_path / "file")


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = write_wheel(tmp_path, wheel_files())

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)

    with pytest.raises(BuildError, match="No space left on device"):
        finish(raw, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
