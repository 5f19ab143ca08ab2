"""Patching a wheel in place: what is not touched keeps its bytes, and everything else says the new version."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from support import PACKAGE
from wheels_support import METADATA, wheel_files, write_wheel

from forkwheel.errors import BuildError
from forkwheel.recipe import FileSource, Package
from forkwheel.wheels.archive import Member
from forkwheel.wheels.finish import Wheel
from forkwheel.wheels.metadata import rewrite_version
from forkwheel.wheels.repack import fork_filename, repack_wheel, untouched_members
from forkwheel.wheels.verify import read_wheel, verify_wheel

VERSION = "1.0+us.1"
COMPILED = bytes(range(256)) * 40


def upstream(folder: Path, files: Mapping[str, bytes] | None = None, **options: object) -> Path:
    members = {**wheel_files(), "demo/fast.so": COMPILED, **(files or {})}
    folder.mkdir(parents=True, exist_ok=True)
    return write_wheel(folder, members, executable=("demo/fast.so",), **options)  # type: ignore[arg-type]


def repack(
    archive: Path, dest: Path, replaced: Mapping[str, Member | None] | None = None, *, package: Package = PACKAGE
) -> Wheel:
    return repack_wheel(
        archive,
        package=package,
        version=VERSION,
        replaced=replaced or {},
        requires={},
        records={"forkwheel/key.json": b"{}"},
        dest=dest,
    )


def contents(wheel: Wheel) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel.path) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def test_the_version_is_new_in_name_folder_metadata_and_record(tmp_path: Path) -> None:
    wheel = repack(upstream(tmp_path / "in"), tmp_path / "out")

    assert wheel.filename == "demo-1.0+us.1-py3-none-any.whl"
    read = read_wheel(wheel.path)
    assert (read.name, read.version) == ("demo", VERSION)
    assert b"\nVersion: 1.0+us.1\n" in read.files["METADATA"]
    assert not any(name.startswith("demo-1.0.dist-info") for name in contents(wheel))
    verify_wheel(wheel.path, must_contain={"demo-1.0+us.1.dist-info/forkwheel/key.json": None})


def test_untouched_members_keep_bytes_and_modes(tmp_path: Path) -> None:
    archive = upstream(tmp_path / "in")
    wheel = repack(archive, tmp_path / "out", {"demo/data.txt": Member("demo/data.txt", b"patched")})

    made = contents(wheel)
    assert made["demo/fast.so"] == COMPILED
    assert made["demo/data.txt"] == b"patched"
    expected = untouched_members(archive, replaced=["demo/data.txt"])
    assert expected["demo/fast.so"] == hashlib.sha256(COMPILED).hexdigest()
    assert set(expected) == {"demo/__init__.py", "demo/empty.txt", "demo/fast.so"}
    with zipfile.ZipFile(wheel.path) as opened:
        assert opened.getinfo("demo/fast.so").external_attr >> 16 == 0o100755


def test_members_can_be_added_and_removed(tmp_path: Path) -> None:
    changes = {"demo/new.py": Member("demo/new.py", b"new"), "demo/empty.txt": None}
    made = contents(repack(upstream(tmp_path / "in"), tmp_path / "out", changes))
    assert made["demo/new.py"] == b"new"
    assert "demo/empty.txt" not in made


def test_the_data_folder_goes_along(tmp_path: Path) -> None:
    archive = upstream(tmp_path / "in", {"demo-1.0.data/scripts/run": b"#!python\n"})
    assert contents(repack(archive, tmp_path / "out"))["demo-1.0+us.1.data/scripts/run"] == b"#!python\n"


def test_signatures_of_the_old_record_are_dropped(tmp_path: Path) -> None:
    archive = upstream(tmp_path / "in", {"demo-1.0.dist-info/RECORD.jws": b"signed"})
    assert not any(name.endswith(".jws") for name in contents(repack(archive, tmp_path / "out")))


def test_the_same_wheel_comes_out_of_another_archive_of_the_same_members(tmp_path: Path) -> None:
    first = upstream(tmp_path / "one")
    second = tmp_path / "two" / first.name
    second.parent.mkdir()
    packed = io.BytesIO()
    with zipfile.ZipFile(first) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for info in reversed(source.infolist()):
            moved = zipfile.ZipInfo(info.filename, (2001, 2, 3, 4, 5, 6))
            moved.external_attr = info.external_attr
            target.writestr(moved, source.read(info))
    second.write_bytes(packed.getvalue())
    wheels = [repack(archive, tmp_path / f"out{number}") for number, archive in enumerate((first, second))]
    assert wheels[0].sha256 == wheels[1].sha256


def test_requirements_are_rewritten(tmp_path: Path) -> None:
    wheel = repack_wheel(
        upstream(tmp_path / "in"),
        package=PACKAGE,
        version=VERSION,
        replaced={},
        requires={"base==1.0": "1.0+us.1"},
        records={},
        dest=tmp_path / "out",
    )
    assert b"Requires-Dist: base==1.0+us.1\n" in read_wheel(wheel.path).files["METADATA"]


@pytest.mark.parametrize(
    ("files", "replaced", "message"),
    [
        ({}, {"demo-1.0.dist-info/METADATA": None}, "own record"),
        ({}, {"demo/absent.py": None}, "has no demo/absent.py"),
        ({"demo-1.0.dist-info/METADATA": METADATA.format(version="1.1").encode()}, {}, "not of version 1.0"),
        ({"demo-1.0.dist-info/METADATA": b"Name: other\nVersion: 1.0\n"}, {}, "not of demo"),
    ],
)
def test_what_cannot_be_repacked_is_refused(
    tmp_path: Path, files: dict[str, bytes], replaced: dict[str, Member | None], message: str
) -> None:
    with pytest.raises(BuildError, match=message):
        repack(upstream(tmp_path / "in", files), tmp_path / "out", replaced)
    assert not list((tmp_path / "out").glob("*"))


def test_a_wheel_whose_record_lies_is_refused(tmp_path: Path) -> None:
    archive = upstream(tmp_path / "in", record="demo/__init__.py,sha256=AAAA,3\n")
    with pytest.raises(BuildError, match=r"RECORD|bytes"):
        repack(archive, tmp_path / "out")


def test_a_package_that_reports_another_version_is_refused(tmp_path: Path) -> None:
    package = replace(PACKAGE, version_file="demo/__init__.py")
    with pytest.raises(BuildError, match="__version__"):
        repack(upstream(tmp_path / "in"), tmp_path / "out", package=package)


def test_the_version_is_rewritten_in_the_headers_alone() -> None:
    text = b"Metadata-Version: 2.1\r\nversion: 1.0\r\n\r\nVersion: 1.0\r\n"
    assert rewrite_version(text, "2") == b"Metadata-Version: 2.1\r\nversion: 2\r\n\r\nVersion: 1.0\r\n"
    with pytest.raises(BuildError, match="0 versions"):
        rewrite_version(b"Name: demo\n\n", "2")


def test_a_build_tag_stays_in_the_file_name() -> None:
    assert fork_filename("demo-1.0-7-cp312-cp312-linux_x86_64.whl", "1.0+us.1") == (
        "demo-1.0+us.1-7-cp312-cp312-linux_x86_64.whl"
    )


WHEELS = tuple(FileSource("wheel", f"demo-1.0-cp3{n}-cp3{n}-linux_x86_64.whl", str(n) * 32) for n in (11, 12))
SDIST = FileSource("sdist", "demo-1.0.tar.gz", "0" * 64)


def test_a_package_is_parted_by_its_wheels_only_where_they_are_meant() -> None:
    mixed = replace(PACKAGE, sources=(SDIST, *WHEELS))
    assert [one.sources for one in replace(PACKAGE, sources=WHEELS).variants()] == [(wheel,) for wheel in WHEELS]
    assert [one.sources for one in mixed.variants()] == [(SDIST,)]
    assert [one.sources for one in mixed.variants("wheel")] == [(wheel,) for wheel in WHEELS]
    assert PACKAGE.variants() == (PACKAGE,)


def test_a_wheel_is_taken_as_it_is_where_nothing_in_it_is_to_change() -> None:
    package = replace(PACKAGE, sources=WHEELS)
    assert package.is_taken
    assert not replace(package, requires=("base==1.0",)).is_taken
    assert not replace(package, series=Path("patches")).is_taken
    assert not PACKAGE.is_taken


@pytest.mark.parametrize("new", [None, Member("demo/fast.so", b"text")])
def test_a_compiled_member_is_never_touched(tmp_path: Path, new: Member | None) -> None:
    with pytest.raises(BuildError, match=r"demo/fast\.so of demo-1\.0-py3-none-any\.whl is compiled"):
        repack(upstream(tmp_path / "in"), tmp_path / "out", {"demo/fast.so": new})
    assert not list((tmp_path / "out").glob("*"))
