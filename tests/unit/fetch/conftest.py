"""Repositories, servers and contexts that the fetch tests share."""

from __future__ import annotations

import base64
import io
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

import pytest

from forkwheel.console import Console
from forkwheel.fetch import FetchContext
from forkwheel.recipe import Package, Source
from forkwheel.store import Store

IDENTITY = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z",
    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z",
}


@pytest.fixture(autouse=True)
def plain_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the person who runs the tests, and no proxy, matters."""
    for name in list(os.environ):
        if name.startswith(("GIT_", "PIP_", "SSH_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setattr("forkwheel.fetch.http_client.BACKOFF_SECONDS", 0.0)


@dataclass
class Surroundings:
    """Makes contexts on one cache, and keeps what was logged."""

    store: Store
    stream: io.StringIO = field(default_factory=io.StringIO)

    def context(self, **options: Any) -> FetchContext:
        log = Console(stream=self.stream, error_stream=self.stream).bind("pkg")
        return FetchContext(self.store, log, **{"silence": 20.0, **options})

    @property
    def logged(self) -> str:
        return self.stream.getvalue()


@pytest.fixture
def surroundings(tmp_path: Path) -> Surroundings:
    return Surroundings(Store(tmp_path / "cache"))


@pytest.fixture
def package() -> Callable[..., Package]:
    """Return a package with sources; of the rest fetching needs nothing."""

    def make(*sources: Source, name: str = "demo-pkg") -> Package:
        return cast(Package, SimpleNamespace(name=name, version="1.0", sources=sources))

    return make


class Repository:
    """A git repository that a test fills."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        attributes = folder / ".git/info/attributes"  # outranks .gitattributes: commit the bytes as they are
        attributes.parent.mkdir(exist_ok=True)
        attributes.write_text("* -text -filter -ident\n")

    def git(self, *arguments: str, content: bytes | None = None) -> str:
        clean = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", **IDENTITY}
        completed = subprocess.run(
            ["git", "-c", "protocol.file.allow=always", "-c", "core.autocrlf=false", *arguments],
            cwd=self.folder,
            env={**os.environ, **clean},
            input=content,
            capture_output=True,
            check=False,
        )
        assert completed.returncode == 0, completed.stderr.decode()
        return completed.stdout.decode().strip()

    def write(self, files: dict[str, bytes]) -> None:
        for path, content in files.items():
            file = self.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)

    def commit(self, files: dict[str, bytes] | None = None) -> str:
        """Commit the files, as they are, and return the commit."""
        self.write(files or {})
        self.git("add", "--all", "--force")
        self.git("commit", "--quiet", "--allow-empty", "--message=change")
        return self.git("rev-parse", "HEAD")

    def gitlink(self, path: str, commit: str, url: str) -> None:
        """Add a submodule without cloning it."""
        (self.folder / path).mkdir(parents=True, exist_ok=True)
        with (self.folder / ".gitmodules").open("a") as modules:
            modules.write(f'[submodule "{path}"]\n\tpath = {path}\n\turl = {url}\n')
        self.git("add", "--force", ".gitmodules")
        self.git("update-index", "--add", "--cacheinfo", f"160000,{commit},{path}")

    def commit_index(self) -> str:
        """Commit what is in the index, without looking at the folder."""
        self.git("commit", "--quiet", "--message=change")
        return self.git("rev-parse", "HEAD")

    def commit_tree(self, entries: bytes) -> str:
        """Commit a tree of raw entries, whatever their names are."""
        tree = self.git("hash-object", "-t", "tree", "-w", "--stdin", "--literally", content=entries)
        commit = self.git("commit-tree", tree, "-m", "raw")
        self.git("update-ref", "refs/heads/main", commit)
        return commit

    def blob(self, content: bytes) -> str:
        return self.git("hash-object", "-w", "--stdin", content=content)


@pytest.fixture
def repository(tmp_path: Path) -> Callable[[str], Repository]:
    return lambda name: Repository(tmp_path / "upstream" / name)


class Handler(BaseHTTPRequestHandler):
    """Answers with what the server's ``answer`` function does."""

    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        server = cast("LocalServer", self.server)
        server.requests.append((self.command, self.path, dict(self.headers)))
        server.answer(self)

    do_GET = do_POST = do_HEAD = do_CONNECT = _answer  # noqa: N815

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def is_user(self, user: str, password: str) -> bool:
        wanted = base64.b64encode(f"{user}:{password}".encode()).decode()
        return self.headers.get("Authorization") == f"Basic {wanted}"

    def log_message(self, *_: object) -> None:
        pass


class LocalServer(ThreadingHTTPServer):
    """An HTTP server on loopback."""

    daemon_threads = True

    def __init__(self, answer: Callable[[Handler], None]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.requests: list[tuple[str, str, dict[str, str]]] = []

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def handle_error(self, *_: object) -> None:
        pass


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[Handler], None]], LocalServer]]:
    """Return a function that starts a server, which ends with the test."""
    servers: list[LocalServer] = []

    def start(answer: Callable[[Handler], None]) -> LocalServer:
        server = LocalServer(answer)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Return a port that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def git_backend(root: Path) -> Callable[[Handler], None]:
    """Answer with ``git http-backend``: git's smart HTTP protocol."""

    def answer(handler: Handler) -> None:
        parts = urlsplit(handler.path)
        length = int(handler.headers.get("Content-Length") or 0)
        body = handler.rfile.read(length)
        if handler.headers.get("Transfer-Encoding") == "chunked":
            body = b"".join(iter(lambda: _chunk(handler), b""))
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
            "GIT_PROJECT_ROOT": str(root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": handler.headers.get("Git-Protocol", ""),
            "REQUEST_METHOD": handler.command,
            "PATH_INFO": parts.path,
            "QUERY_STRING": parts.query,
            "CONTENT_TYPE": handler.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": handler.headers.get("Content-Encoding", ""),
            "REMOTE_ADDR": "127.0.0.1",
        }
        completed = subprocess.run(
            ["git", "http-backend"], env=environment, input=body, capture_output=True, check=False
        )
        head, _, content = completed.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        status = int(headers.pop("Status", "200").split()[0])
        handler.reply(status, content, **headers)

    return answer


def _chunk(handler: Handler) -> bytes:
    size = int(handler.rfile.readline(), 16)
    data = handler.rfile.read(size)
    handler.rfile.readline()
    return data


@pytest.fixture
def smart_http(tmp_path: Path) -> Callable[[Handler], None]:
    """Return the answers of a server of everything below ``upstream``."""
    return git_backend(tmp_path / "upstream")
