from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from forkwheel.cuda.outranking import Outranking, outranking
from forkwheel.errors import UsageError
from forkwheel.recipe import JitCache

FORK = "0.6.3+sm120.1"
CACHE = JitCache(
    variable="JIT_BASE",
    path=".cache/jit",
    clear=("*/ops/*",),
    locks=(),
    distributions=("Some_jit.cache",),
    prebuilt=("project/data/aot/*/*.so",),
)


@pytest.fixture(autouse=True)
def _bare_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONPATH", "PYTHONNOUSERSITE", "PYTHONHOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path / "user"))


@pytest.fixture
def python(tmp_path: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    return tmp_path / "env" / "bin" / "python"


def site_packages(python: Path) -> Path:
    return next((python.parents[1] / "lib").glob("python3.*/site-packages"))


def user_site(tmp_path: Path) -> Path:
    return tmp_path / "user" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def install(folder: Path, version: str, *, name: str = "some_jit_cache") -> None:
    (folder / f"{name}-{version}.dist-info").mkdir(parents=True)
    metadata = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
    (folder / f"{name}-{version}.dist-info" / "METADATA").write_text(metadata)
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text("raise SystemExit('imported')\n")


def add_objects(folder: Path, *names: str) -> Path:
    aot = folder / "project" / "data" / "aot"
    for name in names:
        (aot / name).mkdir(parents=True)
        (aot / name / f"{name}.so").touch()
    return aot


def test_a_bare_environment_has_nothing(python: Path) -> None:
    install(site_packages(python), "1.0", name="unrelated")

    assert outranking(CACHE, python=python, version=FORK) == ()


@pytest.mark.parametrize(
    ("version", "is_of_fork"),
    [
        (FORK, True),
        ("0.6.3+sm120.1.cu130", True),
        ("0.6.3+cu130", False),
        ("0.6.3+sm120.10", False),
        ("0.6.30", False),
    ],
)
def test_an_installed_distribution_is_found_and_not_imported(version: str, is_of_fork: bool, python: Path) -> None:
    install(site_packages(python), version)

    found = outranking(CACHE, python=python, version=FORK)

    location = site_packages(python).resolve()
    assert found == (Outranking("distribution", "some-jit-cache", version, is_of_fork, location, 0),)
    assert ("not the fork's own" in found[0].describe()) is not is_of_fork


def test_prebuilt_objects_are_counted_by_folder(python: Path) -> None:
    aot = add_objects(site_packages(python), "comm", "norm")

    found = outranking(CACHE, python=python, version=FORK)

    assert found == (Outranking("prebuilt", "", "", is_of_fork=False, path=aot.resolve(), files=2),)
    assert "2 prebuilt objects" in found[0].describe()


def test_a_folder_added_by_a_pth_file_counts(python: Path, tmp_path: Path) -> None:
    (site_packages(python) / "added.pth").write_text(f"{tmp_path / 'added'}\n")
    install(tmp_path / "added", "0.6.3")

    assert [item.version for item in outranking(CACHE, python=python, version=FORK)] == ["0.6.3"]


def test_a_folder_of_pythonpath_comes_first(python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(site_packages(python), "0.6.3")
    install(tmp_path / "path", "0.6.4")
    monkeypatch.setenv("PYTHONPATH", f"{os.pathsep}{tmp_path / 'path'}")

    assert [item.version for item in outranking(CACHE, python=python, version=FORK)] == ["0.6.4"]


@pytest.mark.parametrize(("is_open", "no_user_site", "count"), [(False, "", 0), (True, "", 1), (True, "1", 0)])
def test_the_user_site_counts_only_where_the_interpreter_sees_it(
    is_open: bool, no_user_site: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    option = ["--system-site-packages"] if is_open else []
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", *option, str(tmp_path / "env")], check=True)
    add_objects(user_site(tmp_path), "comm")
    monkeypatch.setenv("PYTHONNOUSERSITE", no_user_site)

    assert len(outranking(CACHE, python=tmp_path / "env" / "bin" / "python", version=FORK)) == count


def test_the_working_folder_does_not_count(python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "0.6.3")
    (tmp_path / "json.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.chdir(tmp_path)

    assert outranking(CACHE, python=python, version=FORK) == ()


def test_broken_metadata_is_passed_over(python: Path) -> None:
    (site_packages(python) / "broken-1.0.dist-info").mkdir()
    (site_packages(python) / "worse-1.0.dist-info").mkdir()
    (site_packages(python) / "worse-1.0.dist-info" / "METADATA").write_bytes(b"\xff\xfe")
    install(site_packages(python), "0.6.3")

    assert len(outranking(CACHE, python=python, version=FORK)) == 1


def test_a_start_up_hook_that_prints_does_no_harm(python: Path) -> None:
    (site_packages(python) / "hook.pth").write_text("import sys; print('hello')\n")
    install(site_packages(python), "0.6.3")

    assert len(outranking(CACHE, python=python, version=FORK)) == 1


def test_names_with_pattern_characters_are_taken_literally(tmp_path: Path) -> None:
    environment = tmp_path / "[e]nv*"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    add_objects(site_packages(environment / "bin" / "python"), "comm")

    assert len(outranking(CACHE, python=environment / "bin" / "python", version=FORK)) == 1


def test_a_missing_interpreter_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be run: No such file"):
        outranking(CACHE, python=tmp_path / "python", version=FORK)


def test_a_folder_in_place_of_an_interpreter_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be run: Permission denied"):
        outranking(CACHE, python=tmp_path, version=FORK)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo first >&2; echo last >&2; exit 3", "ended with code 3: last"),
        ("exit 1", "ended with code 1: no output"),
        ("echo hello", "is no Python: it answered 'hello"),
        ("echo 7", "is no Python: it answered '7"),
        ("printf '\\377'", "its answer is no text"),
    ],
)
def test_what_is_no_python_is_an_error(script: str, message: str, tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)

    with pytest.raises(UsageError, match=message):
        outranking(CACHE, python=fake, version=FORK)
