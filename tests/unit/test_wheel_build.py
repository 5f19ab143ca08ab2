"""Building: the backend runs in an environment that is the same everywhere, and its failures are shown."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from support import PACKAGE
from wheels_support import quiet_log, write_project

from forkwheel.errors import BuildError
from forkwheel.recipe import Package, Substitution
from forkwheel.release.resolution import build_system_requires
from forkwheel.wheels.build import build_requires, build_wheel

REPORT = (
    "import json; mask = os.umask(0); os.umask(mask); "
    "json.dump([dict(os.environ), mask, os.getcwd(), sys.stdin.read()], open('report.json', 'w'))"
)

PATH = b"[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = [%b]\n"


def build(tree: Path, dest: Path, *, package: Package = PACKAGE, version: str = "1.0") -> Path:
    return build_wheel(tree, package, version=version, python=Path(sys.executable), dest=dest, log=quiet_log())


def reported(tree: Path) -> tuple[Mapping[str, str], int, str, str]:
    environment, mask, folder, typed = json.loads((tree / "report.json").read_text())
    return environment, mask, folder, typed


def test_the_backends_wheel_is_returned(tmp_path: Path) -> None:
    wheel = build(write_project(tmp_path / "tree"), tmp_path / "out")

    assert wheel == tmp_path / "out" / "demo-1.0-py3-none-any.whl"
    assert wheel.is_file()


def test_nothing_of_the_persons_environment_reaches_the_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = {"PYTHONPATH": "/x", "GIT_DIR": "/x", "LANG": "tr_TR", "TZ": "Asia/Tokyo", "HOME": "/x", "PIP_USER": "1"}
    for name, value in hostile.items():
        monkeypatch.setenv(name, value)
    tree = write_project(tmp_path / "tree", action=REPORT)

    old = os.umask(0o077)
    try:
        build(tree, tmp_path / "out")
    finally:
        os.umask(old)

    environment, mask, folder, typed = reported(tree)
    inherited = {name for name in environment if not name.startswith(("PEP517_", "_PYPROJECT_HOOKS_", "LC_CTYPE"))}
    assert inherited == {
        "HOME",
        "LC_ALL",
        "PATH",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONHASHSEED",
        "PYTHONNOUSERSITE",
        "PYTHONUTF8",
        "SOURCE_DATE_EPOCH",
        "TMPDIR",
        "TZ",
    }
    assert (environment["TZ"], environment["LC_ALL"], environment["PYTHONHASHSEED"]) == ("UTC", "C.UTF-8", "0")
    assert environment["SOURCE_DATE_EPOCH"] == str(PACKAGE.epoch)
    assert environment["HOME"].startswith(str(tmp_path / "out"))
    assert not Path(environment["HOME"]).exists()
    assert (mask, folder, typed) == (0o022, str(tree), "")


def test_the_recipes_environment_and_settings_reach_the_backend(tmp_path: Path) -> None:
    action = "json = __import__('json'); json.dump([dict(os.environ), config_settings], open('report.json', 'w'))"
    tree = write_project(tmp_path / "tree", action=action)
    package = replace(
        PACKAGE,
        environment=(("SETUPTOOLS_SCM_PRETEND_VERSION_FOR_DEMO", "{version}"),),
        config_settings=(("--build-option", "--compression=stored"), ("version", "{version}")),
    )

    build(tree, tmp_path / "out", package=package, version="1.0+us.1")

    environment, settings = json.loads((tree / "report.json").read_text())
    assert environment["SETUPTOOLS_SCM_PRETEND_VERSION_FOR_DEMO"] == "1.0+us.1"
    assert settings == {"--build-option": "--compression=stored", "version": "1.0+us.1"}


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_checkout_above_the_tree_is_not_seen(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    action = (
        "import subprocess\n"
        "    git = ['git', 'rev-parse', '--show-toplevel']\n"
        "    try: found = subprocess.run(git, capture_output=True).stdout.decode()\n"
        "    except FileNotFoundError: found = 'no git'\n"
        "    open('report.json', 'w').write(found)"
    )
    tree = write_project(tmp_path / "tree", action=action)

    build(tree, tmp_path / "out")

    assert (tree / "report.json").read_text() == "no git"


def test_the_folder_that_the_person_is_in_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    for module in ("json", "zipfile", "hashlib", "backend", "build"):
        (hostile / f"{module}.py").write_text("raise SystemExit('imported from the working folder')")
    monkeypatch.chdir(hostile)

    assert build(write_project(tmp_path / "tree"), tmp_path / "out").is_file()


def test_a_failing_backend_shows_its_last_lines_and_its_log(tmp_path: Path) -> None:
    action = "[print('line', number) for number in range(100)]; raise RuntimeError('the backend gave up')"
    tree = write_project(tmp_path / "tree", action=action)

    with pytest.raises(BuildError, match="RuntimeError: the backend gave up") as caught:
        build(tree, tmp_path / "out")

    log = tmp_path / "out" / "demo.build.log"
    assert len(caught.value.message.splitlines()) <= 22
    assert str(log) in caught.value.hint
    assert "line 0\n" in log.read_text()


def test_a_backend_that_dies_silently_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="the build backend of demo failed"):
        build(write_project(tmp_path / "tree", action="os.kill(os.getpid(), 9)"), tmp_path / "out")


def test_a_missing_backend_is_an_error(tmp_path: Path) -> None:
    tree = write_project(tmp_path / "tree")
    (tree / "backend.py").unlink()

    with pytest.raises(BuildError, match=r"demo failed(.|\n)*backend"):
        build(tree, tmp_path / "out")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[build-system", "Failed to parse pyproject.toml: "),
        (b"[build-system]\nbuild-backend = 'backend'\n", ".*`requires` is a required property"),
        (PATH % b'"../.."', "pyproject.toml: paths must be inside source tree"),
        (PATH % b'"./../tree/.."', "pyproject.toml: paths must be inside source tree"),
        (PATH % b'"gone"', ".*`backend-path` entry 'gone' does not exist"),
        (PATH % b'"/usr"', "pyproject.toml: paths must be relative"),
        (PATH % b'"\\u0000"', ".*`backend-path` entry"),
        (b"a = " + b"[" * 20_000, "pyproject.toml is nested too deeply"),
        (b"a = " + b"{b = " * 20_000, "pyproject.toml is nested too deeply"),
        (b"a = '\xff'", "pyproject.toml: 'utf-8' codec can't decode"),
        (b"build-system = 5", ".*`build-system` must be a table"),
    ],
)
def test_an_unsound_pyproject_names_the_package_and_what_changes_the_file(
    tmp_path: Path, text: bytes, message: str
) -> None:
    tree = write_project(tmp_path / "tree")
    (tree / "pyproject.toml").write_bytes(text)
    package = replace(
        PACKAGE, series=tmp_path / "patches", substitutions=(Substitution("pyproject.toml", "1.0", "{version}"),)
    )

    for read in (lambda: build(tree, tmp_path / "out", package=package), lambda: build_system_requires(tree, package)):
        with pytest.raises(BuildError, match=f"demo cannot be built: {message}") as caught:
            read()
        assert str(tree) not in caught.value.message
        assert f"the patches on it in {tmp_path / 'patches'}" in caught.value.hint
        assert "the recipe's `substitute` of it" in caught.value.hint


def test_without_a_package_the_folder_is_not_named_either(tmp_path: Path) -> None:
    tree = write_project(tmp_path / "tree")
    (tree / "pyproject.toml").write_bytes(b"[build-system")

    with pytest.raises(BuildError, match=r"the project cannot be built: Failed to parse pyproject\.toml: ") as caught:
        build_system_requires(tree)
    assert "patches" in caught.value.hint


@pytest.mark.parametrize(
    "returned", ["None", "5", "['a']", "''", "'../demo-1.0-py3-none-any.whl'", "'gone.whl'", "'.'"]
)
def test_a_backend_that_names_no_wheel_is_an_error(tmp_path: Path, returned: str) -> None:
    tree = write_project(tmp_path / "tree", action=f"return {returned}")
    (tmp_path / "demo-1.0-py3-none-any.whl").write_bytes(b"")

    with pytest.raises(BuildError, match=r"the build backend of demo (named no wheel|says that it built)"):
        build(tree, tmp_path / "out")


@pytest.mark.parametrize("returned", ["[1]", "[None]", "[['a']]"])
def test_a_backend_that_requires_what_is_no_text_is_an_error(tmp_path: Path, returned: str) -> None:
    tree = write_project(tmp_path / "tree")
    (tree / "backend.py").write_text(f"def get_requires_for_build_wheel(settings=None):\n    return {returned}\n")

    with pytest.raises(BuildError, match="demo"):
        build_requires(tree, PACKAGE, version="1.0", python=Path(sys.executable), dest=tmp_path)


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(BuildError, match="the wheel of demo cannot be built in"):
        build(write_project(tmp_path / "tree"), tmp_path / "file")


def test_an_interpreter_that_is_gone_is_an_error(tmp_path: Path) -> None:
    tree = write_project(tmp_path / "tree")

    with pytest.raises(BuildError, match="No such file"):
        build_wheel(tree, PACKAGE, version="1.0", python=tmp_path / "python", dest=tmp_path / "out", log=quiet_log())


def test_a_backends_warnings_stay_off_the_terminal(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    build(write_project(tmp_path / "tree", action="import warnings; warnings.warn('deprecated')"), tmp_path / "out")

    assert [str(warning.message) for warning in recwarn] == []


def test_the_backends_own_requirements_are_asked_for(tmp_path: Path) -> None:
    tree = write_project(tmp_path / "tree")
    (tree / "backend.py").write_text(
        "def get_requires_for_build_wheel(config_settings=None):\n    return ['more>=1']\n"
    )

    found = build_requires(tree, PACKAGE, version="1.0", python=Path(sys.executable), dest=tmp_path)

    assert found == {"more>=1"}
