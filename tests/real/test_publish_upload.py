"""Uploading through twine to a real server that asks for a password."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
from publish_support import make_lock, make_set
from small import command_environment

pytest.importorskip("twine", reason="twine is not installed: the test group has it")
if find_spec("pypiserver") is None:  # importing it would install import hooks of its own
    pytest.skip("pypiserver is not installed: the test group has it", allow_module_level=True)

PASSWORD = "s3cret/pass@word"
DEMO = "demo-1.0+fork.1-py3-none-any.whl"


@dataclass(frozen=True)
class Server:
    url: str
    packages: Path


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Start a server that lets one user upload."""
    packages = tmp_path / "packages"
    packages.mkdir()
    digest = base64.b64encode(hashlib.sha1(PASSWORD.encode()).digest()).decode()
    (tmp_path / "htpasswd").write_text(f"me:{{SHA}}{digest}\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [
        "-i",
        "127.0.0.1",
        "-p",
        str(port),
        "-P",
        str(tmp_path / "htpasswd"),
        "-a",
        "update",
        "--disable-fallback",
    ]
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "pypiserver", "run", *options, str(packages)], stdout=log, stderr=log
        )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(url, process)
        yield Server(url, packages)
    finally:
        process.terminate()
        process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(200):
        assert process.poll() is None, "the server ended"
        try:
            urllib.request.urlopen(f"{url}/", timeout=5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the server did not start")


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    make_lock(tmp_path / "wheels.lock.toml", make_set(tmp_path / "dist"))
    return tmp_path / "dist"


def publish(dist: Path, repository: str, **environment: str) -> subprocess.CompletedProcess[str]:
    home = dist.parent / "me"
    home.mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TWINE_")}
    null = {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring", "HOME": str(home)}
    lock = str(dist.parent / "wheels.lock.toml")
    return subprocess.run(
        [sys.executable, "-m", "forkwheel", "publish", "--from", str(dist), "--lock", lock, "--repository", repository],
        env=kept | command_environment(dist.parent / "cache") | null | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_set_is_uploaded_with_the_persons_configuration(server: Server, dist: Path) -> None:
    home = dist.parent / "me"
    home.mkdir()
    (home / ".pypirc").write_text(
        f"[distutils]\nindex-servers = internal\n\n[internal]\nrepository = {server.url}/\nusername = me\n"
        f"password = {PASSWORD}\n"
    )
    run = publish(dist, "internal")
    assert run.returncode == 0, run.stdout + run.stderr
    assert (server.packages / DEMO).read_bytes() == (dist / DEMO).read_bytes()
    assert PASSWORD not in run.stdout + run.stderr


def test_what_was_uploaded_is_installed_by_hash(server: Server, dist: Path, tmp_path: Path) -> None:
    run = publish(dist, f"{server.url}/", TWINE_USERNAME="me", TWINE_PASSWORD=PASSWORD)
    assert run.returncode == 0, run.stdout + run.stderr
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--require-hashes", "--target", str(tmp_path / "t")]
    options = ["--index-url", f"{server.url}/simple/", "-r", str(dist / "fork.requirements.txt")]
    blank = {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    subprocess.run([*install, *options], env=kept | blank, check=True, capture_output=True)
    assert (tmp_path / "t" / "demo" / "__init__.py").read_text() == "__version__ = '1.0+fork.1'\n"


def test_a_file_that_the_server_has_is_not_replaced(server: Server, dist: Path) -> None:
    me = {"TWINE_USERNAME": "me", "TWINE_PASSWORD": PASSWORD}
    assert publish(dist, f"{server.url}/", **me).returncode == 0
    again = publish(dist, f"{server.url}/", **me)
    assert again.returncode == 8
    assert "HTTPError: 4" in again.stderr
    assert "a published file never changes" in again.stderr
    assert "\x1b" not in again.stderr


@pytest.mark.parametrize("password", ["wrong", ""])
def test_a_wrong_password_is_refused_and_not_shown(server: Server, dist: Path, password: str) -> None:
    run = publish(dist, server.url.replace("://", f"://me:{password or 'none'}@") + "/")
    assert run.returncode == 8
    assert "403" in run.stderr or "401" in run.stderr
    assert "wrong" not in run.stderr.replace("wrong password", "")
    assert list(server.packages.iterdir()) == []


def test_without_credentials_nothing_is_asked(server: Server, dist: Path) -> None:
    run = publish(dist, f"{server.url}/")
    assert run.returncode == 8
    assert "Traceback" not in run.stderr


def test_a_development_build_is_not_uploaded(server: Server, dist: Path) -> None:
    shutil.rmtree(dist)
    make_set(dist, local="fork.dev.k1234567", revision=0)
    run = publish(dist, f"{server.url}/", TWINE_USERNAME="me", TWINE_PASSWORD=PASSWORD)
    assert run.returncode == 8
    assert "is a development build" in run.stderr
    assert list(server.packages.iterdir()) == []
