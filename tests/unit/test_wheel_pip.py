"""Pip's settings: the person's choice of an index is read whole, whatever else their pip is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from forkwheel.fetch.pip_settings import read_pip_settings
from forkwheel.wheels.pip import PipError, pip_environment

OTHERS = {
    "PIP_PYTHON": "/nowhere/python",
    "PIP_USER": "1",
    "PIP_SITE": "1",
    "PIP_GLOBAL": "1",
    "PIP_JSON": "1",
    "PIP_LOG": "/nowhere/log",
    "PIP_REQUIRE_VIRTUALENV": "1",
    "PIP_VERBOSE": "3",
    "PIP_ISOLATED": "1",
}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration file, beside an index that is named in the environment."""
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nproxy = http://proxy:1\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    monkeypatch.setenv("PIP_INDEX_URL", "https://index/simple")
    return file


@pytest.mark.parametrize("name", OTHERS)
def test_a_variable_that_names_no_index_does_not_matter(
    config: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, OTHERS[name])

    settings = read_pip_settings()

    assert (settings.index_url, settings.proxy) == ("https://index/simple", "http://proxy:1")
    assert name not in pip_environment()


@pytest.mark.parametrize(
    "line", ["python = /nowhere/python", "user = true", "global = yes", "quiet = 3", "verbose = 3"]
)
def test_a_line_that_names_no_index_does_not_matter(config: Path, line: str) -> None:
    config.write_text(f"{config.read_text()}{line}\n")

    settings = read_pip_settings()

    assert (settings.index_url, settings.proxy) == ("https://index/simple", "http://proxy:1")


def test_pip_is_not_told_that_it_runs_under_the_python_it_was_sent_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_PIP_RUNNING_IN_SUBPROCESS", "1")

    assert "_PIP_RUNNING_IN_SUBPROCESS" not in pip_environment()


def test_a_full_disk_is_told_from_an_index_that_is_not_reached() -> None:
    full, other = PipError("OSError: [Errno 28] No space left on device"), PipError("timed out")

    assert full.message.startswith("disk full: pip failed: ")
    assert "TMPDIR" in full.hint
    assert (other.message, "index" in other.hint) == ("pip failed: timed out", True)
