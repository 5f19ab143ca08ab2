"""How a repository is handed to twine: nothing secret among the arguments."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from publish_support import make_set

from forkwheel.errors import PublishError, UsageError
from forkwheel.release.upload import twine_variables, upload_set


def test_a_name_is_left_to_the_persons_configuration() -> None:
    assert twine_variables("internal") == {"TWINE_REPOSITORY": "internal"}


def test_credentials_leave_the_url() -> None:
    assert twine_variables("https://me:p%40ss@host.example:8443/up/") == {
        "TWINE_REPOSITORY_URL": "https://host.example:8443/up/",
        "TWINE_USERNAME": "me",
        "TWINE_PASSWORD": "p@ss",
    }


@pytest.mark.parametrize("url", ["ftp://host/", "https://", "https://host:port/"])
def test_what_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        twine_variables(url)


def test_no_secret_is_in_arguments_or_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def fail(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        seen.append(command)
        assert options["env"]["TWINE_PASSWORD"] == "hunter2"
        said = "ERROR HTTPError: 403 from https://me:hunter2@host.example/ with hunter2\n"
        return subprocess.CompletedProcess(command, 1, said, "")

    monkeypatch.setattr(subprocess, "run", fail)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    with pytest.raises(PublishError) as error:
        upload_set("https://me:hunter2@host.example/", make_set(tmp_path / "dist"))
    assert "hunter2" not in f"{seen}{error.value.message}{error.value.hint}"
    assert "403" in error.value.message


def test_wheels_go_out_after_those_that_they_require(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def succeed(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        seen.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", succeed)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    upload_set("internal", make_set(tmp_path / "dist"))
    assert [Path(argument).name.split("-")[0] for argument in seen[0][-2:]] == ["base", "demo"]
    assert seen[0][0] == sys.executable


def test_without_twine_the_hint_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(PublishError) as error:
        upload_set("internal", make_set(tmp_path / "dist"))
    assert error.value.hint == "pip install 'forkwheel[publish]'"
