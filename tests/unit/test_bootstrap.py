"""The environment that the first command makes, and the bundle that it may be made of."""

from __future__ import annotations

import importlib.util
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_SPEC = importlib.util.spec_from_file_location(
    "bootstrap", Path(__file__).resolve().parents[2] / "scripts" / "bootstrap.py"
)
assert _SPEC
assert _SPEC.loader
bootstrap: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(bootstrap)

HERE = "{}.{}".format(*sys.version_info[:2])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("")
    return folder


@pytest.fixture
def commands(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, str] | None]]:
    """Record what is run instead of running it."""
    ran: list[tuple[list[str], dict[str, str] | None]] = []

    def run(command: list[str], *, env: dict[str, str] | None = None, **_: object) -> None:
        ran.append((command, env))
        (root / ".venv").mkdir(exist_ok=True)

    monkeypatch.setattr(subprocess, "run", run)
    return ran


def write_bundle(folder: Path, **record: object) -> Path:
    (folder / "files").mkdir(parents=True)
    written = {"tool_pythons": [HERE], "machine": platform.machine()} | record
    (folder / "bundle.json").write_text(json.dumps(written))
    return folder


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        (["--from-bundle", "../b", "--out", "d"], ["--from-bundle", "/caller/../b", "--out", "d"]),
        (["--from-bundle=b"], ["--from-bundle=/caller/b"]),
        (["-s", "fetch", "--", "--bundle", "b"], ["-s", "fetch", "--", "--bundle", "/caller/b"]),
        (["--from-bundle", "/b", "--from-bundle"], ["--from-bundle", "/b", "--from-bundle"]),
    ],
)
def test_a_bundle_is_found_as_the_caller_names_it(given: list[str], seen: list[str]) -> None:
    assert bootstrap.resolved(given, Path("/caller")) == seen


@pytest.mark.parametrize("form", [["--from-bundle", "{}"], ["--from-bundle={}"]])
def test_from_a_bundle_pip_reads_nothing_else(
    root: Path,
    tmp_path: Path,
    commands: list[tuple[list[str], dict[str, str] | None]],
    form: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bundle = write_bundle(tmp_path / "a bundle")
    monkeypatch.setenv("PIP_CONSTRAINT", "theirs.txt")
    monkeypatch.setenv("PIP_FIND_LINKS", "theirs")

    bootstrap.environment(root, ["-s", "build", "--", *(word.format(bundle) for word in form)])

    (command, variables) = commands[-1]
    assert "install" in command
    assert variables is not None
    assert {name: value for name, value in variables.items() if name.startswith("PIP_")} == {
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": (bundle / "files").as_uri(),
    }


def test_without_a_bundle_pip_is_the_persons_own(
    root: Path, commands: list[tuple[list[str], dict[str, str] | None]]
) -> None:
    bootstrap.environment(root, ["-s", "fetch", "--", "--bundle", "nowhere"])
    assert commands[-1][1] is None


@pytest.mark.parametrize("content", [None, "", "[]", "{}"])
def test_what_is_no_bundle_is_one_error_before_anything(
    root: Path,
    tmp_path: Path,
    commands: list[tuple[list[str], dict[str, str] | None]],
    content: str | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "b"
    if content is not None:
        folder.mkdir()
        (folder / "bundle.json").write_text(content)

    with pytest.raises(SystemExit) as exit_info:
        bootstrap.environment(root, ["--from-bundle", str(folder)])

    assert exit_info.value.code == 2
    shown = capsys.readouterr().err
    assert f"error: {folder} is no bundle" in shown
    assert "--recipe NAME --bundle DIR" in shown
    assert not commands


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"tool_pythons": ["3.9"]}, f"is for Python 3.9 on {platform.machine()}; this is Python {HERE}"),
        ({"machine": "sparc"}, f"is for Python {HERE} on sparc; this is Python {HERE}"),
        ({"tool_pythons": []}, "lacks nox and forkwheel's own needs"),
    ],
)
def test_a_bundle_for_others_says_for_whom(
    root: Path,
    tmp_path: Path,
    commands: list[tuple[list[str], dict[str, str] | None]],
    record: dict[str, object],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        bootstrap.environment(root, ["--from-bundle", str(write_bundle(tmp_path / "b", **record))])

    assert exit_info.value.code == 2
    assert message in capsys.readouterr().err
    assert not commands
