"""Mirrors whose folder cannot be looked up."""

from __future__ import annotations

import pytest

from forkwheel.errors import UsageError
from forkwheel.fetch.mirrors import parse_mirrors


@pytest.mark.parametrize(
    ("folder", "reason"),
    [
        ("~nosuchuser/x", "names a user that this machine lacks"),
        ("x" * 300, "too long"),
        ("/" + "a/" * 3000, "too long"),
        ("a\0b", "cannot be used"),
    ],
)
@pytest.mark.parametrize("from_environment", [False, True])
def test_a_folder_that_cannot_be_looked_up_is_one_error(folder: str, reason: str, from_environment: bool) -> None:
    pair = f"https://a={folder}"
    options, environment = ([], {"FORKWHEEL_GIT_MIRRORS": pair}) if from_environment else ([pair], {})
    with pytest.raises(UsageError, match=reason) as caught:
        parse_mirrors(options, environment)
    assert len(caught.value.message) < 250


def test_a_long_remote_is_no_folder() -> None:
    remote = "git@host:" + "x" * 300
    assert parse_mirrors([f"https://a={remote}"], {}) == (("https://a", remote),)
