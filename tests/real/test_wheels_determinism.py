"""The same inputs give the same bytes: whatever the folder, umask, locale, time zone, HOME and Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from forkwheel.fetch import FetchContext
from forkwheel.recipe import Recipe
from forkwheel.sources import source_tree
from forkwheel.store import Store
from forkwheel.toml_file import read_toml

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
PYTHONS = ("3.10", "3.12")


def runs(python: str | Path) -> bool:
    """Say whether an interpreter really runs: a version manager's stand-in may not."""
    try:
        return subprocess.run([str(python), "-c", "import venv"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def interpreter(version: str) -> Path:
    """Find a Python by its name on PATH, or among pyenv's where only its stand-in is there."""
    candidates: list[str | Path | None] = [shutil.which(f"python{version}")]
    if pyenv := shutil.which("pyenv"):
        root = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=True).stdout.strip()
        candidates += sorted(Path(root).glob(f"versions/{version}.*/bin/python"))
    for candidate in candidates:
        if candidate and runs(candidate):
            return Path(candidate)
    pytest.skip(f"Python {version} is not installed")


def with_dependencies(python: Path, store: Store) -> Path:
    """Return the python of an environment that has what forkwheel itself depends on."""
    project = read_toml(REPOSITORY / "pyproject.toml").table["project"]
    folder = store.path("test-envs", f"forkwheel-{python.parent.parent.name}-{python.name}")
    with store.lock(folder.name):
        if not (folder / "complete").exists():
            subprocess.run([str(python), "-m", "venv", "--clear", str(folder)], check=True)
            install = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-warn-script-location"]
            subprocess.run([*install, *project["dependencies"]], check=True)
            (folder / "complete").touch()
    return folder / "bin" / "python"


def build(python: Path, arguments: Sequence[str], *, umask: int, **environment: str) -> str:
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "PYTHON"))}
    path = f"{REPOSITORY / 'scripts'}:{HERE}"
    command = [str(python), str(HERE / "wheels_driver.py"), *arguments]
    run = subprocess.run(
        command,
        env={**variables, **environment, "PYTHONPATH": path},
        umask=umask,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.mark.parametrize(("name", "version"), [("flashinfer-python", "0.6.3+sm120.1"), ("sglang", "0.5.9+sm120.1")])
def test_the_bytes_depend_on_the_inputs_alone(
    name: str, version: str, recipe: Recipe, context: FetchContext, tmp_path: Path
) -> None:
    pythons = [with_dependencies(interpreter(minor), context.store) for minor in PYTHONS]
    source_tree(recipe.package(name), context=context, kind="sdist")
    other = tmp_path / "a much longer name of a folder, with späces"
    other.mkdir()
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    (other / ".gitignore").write_text("*\n")
    (other / "pyproject.toml").write_text("[tool.setuptools_scm]\nroot = 'elsewhere'\n")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".pydistutils.cfg").write_text("[bdist_wheel]\npython-tag = cp39\n")

    common = [str(recipe.file), name, version, str(context.store.root)]
    hostile = {"LC_ALL": "C", "TZ": "Asia/Kathmandu", "HOME": str(tmp_path / "home"), "PYTHONHASHSEED": "7"}
    built = [
        build(pythons[0], [*common, str(tmp_path / "plain")], umask=0o022, TZ="UTC"),
        build(pythons[1], [*common, str(other / "build")], umask=0o077, **hostile),
        build(Path(sys.executable), [*common, str(tmp_path / "again")], umask=0o002, LANG="tr_TR.UTF-8"),
    ]

    assert built[0] == built[1] == built[2]
