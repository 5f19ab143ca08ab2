"""Mirrors, pip's settings, masking, and the order of a package's sources."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from forkwheel.errors import FetchError, PinMismatchError, UnreachableError, UsageError
from forkwheel.fetch import fetch_package, parse_mirrors
from forkwheel.fetch.masking import mask
from forkwheel.fetch.mirrors import apply_mirrors, is_local
from forkwheel.fetch.pip_settings import parse_pip_settings, read_pip_settings
from forkwheel.recipe import FileSource, GitSource

GIT = GitSource("https://example.org/x.git", "1" * 40, None, "", ())
SDIST = FileSource("sdist", "demo_pkg-1.0.tar.gz", "a" * 64)
WHEEL = FileSource("wheel", "demo_pkg-1.0-py3-none-any.whl", "b" * 64)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("see https://me:pw@h/x and http://token@h", "see https://***@h/x and http://***@h"),
        ("https://me:p@w@h/x", "https://***@h/x"),
        ("ssh://git:pw@h/x", "ssh://git:***@h/x"),
        ("ssh://git@h/x git@h:x", "ssh://git@h/x git@h:x"),
        ("https://h/f?X-Signature=abc#sha256=1", "https://h/f"),
        ("HTTPS://me:pw@h", "HTTPS://***@h"),
        ("plain text", "plain text"),
    ],
)
def test_credentials_are_masked(text, masked):
    assert mask(text) == masked


def test_mirrors_come_from_options_and_the_environment(tmp_path, monkeypatch):
    (tmp_path / "clone").mkdir()
    monkeypatch.chdir(tmp_path)
    environment = {"FORKWHEEL_GIT_MIRRORS": "https://a/x.git=https://m/x\n  https://b/y=git@h:y.git"}

    mirrors = parse_mirrors(["https://a/x.git=clone"], environment)

    assert mirrors == (
        ("https://a/x.git", str(tmp_path / "clone")),
        ("https://a/x.git", "https://m/x"),
        ("https://b/y", "git@h:y.git"),
    )
    assert apply_mirrors("https://a/x", mirrors) == str(tmp_path / "clone")
    assert apply_mirrors("https://b/y.git/", mirrors) == "git@h:y.git"
    assert apply_mirrors("https://c/z", mirrors) == "https://c/z"


@pytest.mark.parametrize(
    "text", ["", "https://a", "=x", "https://a=", "https://a=/nowhere/at/all", "https://a=ext::sh", "-x=/", "a=--x"]
)
def test_malformed_mirrors_are_refused(text):
    with pytest.raises(UsageError, match="--mirror"):
        parse_mirrors([text], {})


def test_a_malformed_mirror_shows_no_password():
    with pytest.raises(UsageError) as caught:
        parse_mirrors(["https://me:pw@h"], {})
    assert "pw" not in caught.value.message


def test_local_remotes_are_told_from_others():
    assert is_local("/srv/x")
    assert is_local("file:///srv/x")
    assert is_local("../x")
    assert not is_local("git@host:x")
    assert not is_local("https://h/x")


def test_pips_settings_outrank_one_another():
    listing = """
:env:.extra-index-url='https://e1/s https://e2/s'
:env:.default-timeout='180'
global.timeout='20'
global.index-url='https://global/s'
download.index-url='https://download/s'
install.index-url='https://install/s'
global.find-links='\\n/wheels\\nhttps://links'
global.trusted-host="a b:80"
global.no-index='false'
global.cert='/ca.pem'
:env:.cert=''
For variant 'user', will try loading '/x'
"""
    settings = parse_pip_settings(listing, {"REQUESTS_CA_BUNDLE": "/other.pem"})

    assert settings.index_url == "https://download/s"
    assert settings.extra_index_urls == ("https://e1/s", "https://e2/s")
    assert settings.find_links == ("/wheels", "https://links")
    assert settings.trusted_hosts == ("a", "b:80")
    assert settings.cert == "/ca.pem"
    assert settings.timeout == 180
    assert not settings.no_index


def test_certificates_come_from_the_usual_variables_too():
    assert parse_pip_settings("", {"REQUESTS_CA_BUNDLE": "/ca.pem"}).cert == "/ca.pem"
    assert parse_pip_settings("", {}).cert is None


def test_a_timeout_that_is_no_number_is_said():
    with pytest.raises(FetchError, match="'soon'"):
        parse_pip_settings(":env:.timeout='soon'", {})


def test_pip_is_asked_for_files_and_variables(tmp_path, monkeypatch):
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://file/s\nquiet = 2\nproxy = http://p:1\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://env/s")
    monkeypatch.setenv("PIP_QUIET", "3")

    settings = read_pip_settings()

    assert settings.index_url == "https://file/s"
    assert settings.extra_index_urls == ("https://env/s",)
    assert settings.proxy == "http://p:1"


def test_a_broken_pip_configuration_is_one_error(tmp_path, monkeypatch):
    (tmp_path / "pip.conf").write_text("[global\nbroken\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))

    with pytest.raises(FetchError, match="pip cannot read its configuration"):
        read_pip_settings()


@pytest.fixture
def outcomes(monkeypatch):
    """Replace fetching by outcomes: by kind, an error to raise, or nothing to succeed."""
    tried: list[str] = []
    errors: dict[str, Exception] = {}

    def fetch(package, source, dest, *, context):
        tried.append(source.kind)
        if source.kind in errors:
            raise errors[source.kind]
        return source

    monkeypatch.setattr("forkwheel.fetch.fetch_source", fetch)
    return tried, errors


def test_the_next_source_is_tried_when_one_cannot_be_reached(outcomes, surroundings, package, tmp_path):
    tried, errors = outcomes
    errors["git"] = UnreachableError("example.org is gone", hint="wait")

    fetched = fetch_package(package(GIT, SDIST, WHEEL), tmp_path, context=surroundings.context())

    assert fetched == SDIST
    assert tried == ["git", "sdist"]
    assert surroundings.logged.splitlines() == ["[pkg] warning: git: example.org is gone; trying the sdist"]


@pytest.mark.parametrize("kind", [FetchError, PinMismatchError])
def test_no_other_failure_is_tried_elsewhere(outcomes, surroundings, package, tmp_path, kind):
    tried, errors = outcomes
    errors["git"] = kind("wrong", hint="stop")

    with pytest.raises(kind, match="wrong"):
        fetch_package(package(GIT, SDIST), tmp_path, context=surroundings.context())
    assert tried == ["git"]


def test_when_nothing_can_be_reached_all_are_named(outcomes, surroundings, package, tmp_path):
    _, errors = outcomes
    errors["git"] = UnreachableError("git is gone", hint="wait")
    errors["sdist"] = UnreachableError("the index is gone", hint="wait")

    with pytest.raises(UnreachableError, match="git is gone; the index is gone"):
        fetch_package(package(GIT, SDIST), tmp_path, context=surroundings.context())


def test_a_kind_is_forced(outcomes, surroundings, package, tmp_path):
    tried, _ = outcomes

    fetch_package(package(GIT, SDIST, WHEEL), tmp_path, context=surroundings.context(), kind="wheel")

    assert tried == ["wheel"]
    with pytest.raises(UsageError, match="no wheel source"):
        fetch_package(package(GIT, SDIST), tmp_path, context=surroundings.context(), kind="wheel")


def test_offline_takes_the_first_that_is_cached(outcomes, surroundings, package, tmp_path):
    tried, _ = outcomes
    context = surroundings.context(offline=True)
    archive: Path = surroundings.store.path("archives", SDIST.sha256, SDIST.filename)
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.write_bytes(b"x")

    fetch_package(package(GIT, SDIST, WHEEL), tmp_path, context=context)

    assert tried == ["sdist"]
    with pytest.raises(FetchError, match=f"it needs {GIT.url}@{GIT.commit} or {WHEEL.filename}"):
        fetch_package(package(GIT, WHEEL), tmp_path, context=context)


def test_nothing_is_imported_from_git_for_an_archive():
    """A box without git can build from sdists, and GitPython fails to be imported there."""
    import subprocess
    import sys

    code = "import sys, forkwheel.fetch.index; sys.exit('git' in sys.modules)"
    environment = {**os.environ, "PATH": "/nonexistent"}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
