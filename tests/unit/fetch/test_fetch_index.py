"""Sdists and wheels through the person's index: found, downloaded, checked, cached."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from forkwheel.errors import FetchError, PinMismatchError, UnreachableError
from forkwheel.fetch import fetch_source
from forkwheel.fetch.http_client import TRIES
from forkwheel.fetch.pip_settings import parse_pip_settings
from forkwheel.recipe import FileSource
from forkwheel.tree import walk

NAME = "demo_pkg-1.0.tar.gz"


def make_sdist(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        info = tarfile.TarInfo("demo_pkg-1.0/file")
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


SDIST = make_sdist(os.urandom(300_000))
SHA256 = hashlib.sha256(SDIST).hexdigest()
SOURCE = FileSource("sdist", NAME, SHA256)


class Index:
    """The answers of a package index; tests replace what answers for the file."""

    def __init__(self, *, announce: str = SHA256, content: bytes = SDIST) -> None:
        self.page = f'<html><body><a href="../../files/{NAME}#sha256={announce}">{NAME}</a></body></html>'.encode()
        self.page_type = "text/html"
        self.content = content
        self.ranges: list[str | None] = []

    def __call__(self, handler) -> None:
        if handler.path.startswith("/simple/demo-pkg/"):
            handler.reply(200, self.page, Content_Type=self.page_type)
        elif handler.path == f"/files/{NAME}":
            self.ranges.append(handler.headers.get("Range"))
            self.answer_file(handler)
        else:
            handler.reply(404)

    def answer_file(self, handler) -> None:
        handler.reply(200, self.content)

    def reply_range(self, handler, *, breaks_after: int | None = None) -> None:
        """Serve from the offset asked for; break off after some bytes."""
        wanted = handler.headers.get("Range")
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        handler.send_response(206 if wanted else 200)
        if wanted:
            handler.send_header("Content-Range", f"bytes {start}-{len(self.content) - 1}/{len(self.content)}")
        handler.send_header("Content-Length", str(len(self.content) - start))
        handler.end_headers()
        end = len(self.content) if breaks_after is None else start + breaks_after
        handler.wfile.write(self.content[start:end])
        handler.close_connection = True


@pytest.fixture(autouse=True)
def settings_without_pip(request, monkeypatch):
    """Read pip's variables here, because pip itself takes half a second, except where ``real_pip`` is asked for."""
    if "real_pip" in request.fixturenames:
        return

    def read():
        given = {name[4:].lower().replace("_", "-"): text for name, text in os.environ.items() if name[:4] == "PIP_"}
        return parse_pip_settings("\n".join(f":env:.{key}={text!r}" for key, text in given.items()), os.environ)

    monkeypatch.setattr("forkwheel.fetch.index.read_pip_settings", read)


@pytest.fixture
def real_pip() -> None:
    """Ask pip itself for its settings."""


@pytest.fixture
def use(monkeypatch):
    """Return a function that names a server as pip's index."""

    def name(server, path: str = "/simple/", user: str = "") -> None:
        monkeypatch.setenv("PIP_INDEX_URL", f"http://{user}{server.host}{path}")

    return name


def archive_in(surroundings, source: FileSource = SOURCE) -> Path:
    return surroundings.store.root / "archives" / source.sha256 / source.filename


def test_the_pinned_file_is_fetched_and_the_second_time_cached(surroundings, package, tmp_path, serve, use):
    server = serve(Index())
    use(server)

    first = fetch_source(package(), SOURCE, tmp_path / "first", context=surroundings.context())
    asked = len(server.requests)
    second = fetch_source(package(), SOURCE, tmp_path / "second", context=surroundings.context(offline=True))

    assert walk(first.root) == walk(second.root) == ["file"]
    assert first.observed == (("kind", "sdist"), ("from", f"{server.url}/files/{NAME}"), ("cached", "no"))
    assert second.observed == (("kind", "sdist"), ("from", "cache"), ("cached", "yes"))
    assert len(server.requests) == asked
    assert not archive_in(surroundings).with_name(NAME + ".part").exists()


@pytest.mark.parametrize("yanked", [False, "broken", ""])
def test_json_pages_and_yanked_and_foreign_files_are_found(surroundings, package, tmp_path, serve, use, yanked):
    index = Index()
    index.page_type = "application/vnd.pypi.simple.v1+json"
    entry = {
        "filename": NAME,
        "url": f"../../files/{NAME}",
        "hashes": {"sha256": SHA256},
        "yanked": yanked,
        "requires-python": ">=4",
    }
    index.page = json.dumps({"meta": {"api-version": "1.0"}, "name": "demo-pkg", "files": [entry]}).encode()
    use(serve(index))

    assert walk(fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context()).root) == ["file"]


def test_wheels_of_other_platforms_are_found(surroundings, package, tmp_path, serve, use):
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("demo_pkg/__init__.py", "")
    wheel = "demo_pkg-1.0-cp27-cp27m-win32.whl"
    source = FileSource("wheel", wheel, hashlib.sha256(buffer.getvalue()).hexdigest())
    page = f'<a href="/w/{wheel}" data-yanked="">w</a>'.encode()

    def answer(handler) -> None:
        if handler.path == "/simple/demo-pkg/":
            handler.reply(200, page, Content_Type="text/html")
        else:
            handler.reply(200, buffer.getvalue())

    use(serve(answer))

    fetched = fetch_source(package(), source, tmp_path / "out", context=surroundings.context())

    assert walk(fetched.root) == ["demo_pkg/__init__.py"]


def test_a_dropped_connection_is_resumed(surroundings, package, tmp_path, serve, use):
    index = Index()
    index.answer_file = lambda handler: index.reply_range(
        handler, breaks_after=None if len(index.ranges) == 3 else 100_000
    )
    use(serve(index))

    fetched = fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context())

    assert walk(fetched.root) == ["file"]
    assert index.ranges[0] is None
    assert index.ranges[1].startswith("bytes=")
    assert len(index.ranges) == 3


def test_a_later_run_resumes_what_an_earlier_one_left(surroundings, package, tmp_path, serve, use):
    index = Index()
    index.answer_file = index.reply_range
    use(serve(index))
    part = archive_in(surroundings).with_name(NAME + ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(SDIST[:1234])

    fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context())

    assert index.ranges == ["bytes=1234-"]


@pytest.mark.parametrize("left", [SDIST, SDIST + b"more", b""])
def test_a_whole_or_overlong_part_does_no_harm(surroundings, package, tmp_path, serve, use, left):
    index = Index()

    def answer(handler) -> None:
        handler.reply(416) if handler.headers.get("Range") else handler.reply(200, SDIST)

    index.answer_file = answer
    use(serve(index))
    part = archive_in(surroundings).with_name(NAME + ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(left)

    assert walk(fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context()).root) == ["file"]


def test_a_server_without_ranges_starts_over(surroundings, package, tmp_path, serve, use):
    index = Index()

    def answer(handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(SDIST)))
        handler.end_headers()
        handler.wfile.write(SDIST if len(index.ranges) > 1 else SDIST[:1000])
        handler.close_connection = True

    index.answer_file = answer
    use(serve(index))

    assert walk(fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context()).root) == ["file"]


@pytest.mark.parametrize("answered", ["bytes 0-9/10", "bytes x", "bytes 0-299999/300000"])
def test_a_wrong_range_starts_over(surroundings, package, tmp_path, serve, use, answered):
    index = Index()

    def answer(handler) -> None:
        if handler.headers.get("Range"):
            handler.reply(206, SDIST[:10], Content_Range=answered)
        else:
            handler.reply(200, SDIST)

    index.answer_file = answer
    use(serve(index))
    part = archive_in(surroundings).with_name(NAME + ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(SDIST[:1234])

    assert walk(fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context()).root) == ["file"]


def test_a_server_that_always_breaks_off_ends_in_an_error(surroundings, package, tmp_path, serve, use):
    index = Index()
    index.answer_file = lambda handler: index.reply_range(handler, breaks_after=10)
    use(serve(index))

    with pytest.raises(UnreachableError, match=f"broke {TRIES} times"):
        fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context())
    assert len(index.ranges) == TRIES
    assert not archive_in(surroundings).exists()


@pytest.mark.parametrize("failures", [2, 99])
def test_a_failing_server_is_asked_again(surroundings, package, tmp_path, serve, use, failures):
    index = Index()

    def answer(handler) -> None:
        handler.reply(503) if len(index.ranges) <= failures else handler.reply(200, SDIST)

    index.answer_file = answer
    use(serve(index))

    if failures < TRIES:
        fetched = fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context())
        assert walk(fetched.root) == ["file"]
    else:
        with pytest.raises(FetchError, match="answers 503") as caught:
            fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context())
        assert not isinstance(caught.value, UnreachableError)
        assert len(index.ranges) == TRIES


def test_a_failing_index_page_is_asked_again(surroundings, package, tmp_path, serve, use):
    index = Index()
    asked = []

    def answer(handler) -> None:
        asked.append(handler.path)
        handler.reply(503) if len(asked) < 3 else index(handler)

    use(serve(answer))

    assert walk(fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context()).root) == ["file"]


@pytest.mark.parametrize("announced", [SHA256, ""], ids=["announced", "not announced"])
def test_wrong_bytes_are_fatal_and_leave_nothing(surroundings, package, tmp_path, serve, use, announced):
    wrong = make_sdist(b"evil")
    index = Index(announce=announced, content=wrong)
    if not announced:
        index.page = f'<a href="/files/{NAME}">x</a>'.encode()
    use(serve(index))

    with pytest.raises(PinMismatchError, match=r"^r\.toml:7: ") as caught:
        fetch_source(package(), replace(SOURCE, place="r.toml:7"), tmp_path / "out", context=surroundings.context())
    assert hashlib.sha256(wrong).hexdigest() in caught.value.message
    assert SHA256 in caught.value.message
    assert not list(archive_in(surroundings).parent.iterdir())
    assert not (tmp_path / "out").exists()
    assert len(index.ranges) == 1


def test_another_announced_hash_is_fatal_without_a_download(surroundings, package, tmp_path, serve, use):
    index = Index(announce="ab" * 32)
    use(serve(index))

    with pytest.raises(PinMismatchError, match=f"(?s){'ab' * 32}.*{SHA256}"):
        fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context())
    assert not index.ranges


def test_the_file_with_the_pinned_hash_is_chosen(surroundings, package, tmp_path, serve, use, monkeypatch):
    other, right = serve(Index(announce="ab" * 32)), serve(Index())
    use(other)
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"{right.url}/simple")

    fetched = fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context())

    assert dict(fetched.observed)["from"].startswith(right.url)


@pytest.mark.parametrize("status", [401, 403, 404, 407, 500])
def test_statuses_of_the_file_are_told_apart(surroundings, package, tmp_path, serve, use, status):
    messages = {401: "let us in", 403: "let us in", 404: "does not exist", 407: "proxy refuses", 500: "answers 500"}
    index = Index()
    index.answer_file = lambda handler: handler.reply(status)
    use(serve(index))

    with pytest.raises(FetchError, match=messages[status]) as caught:
        fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context())
    assert not isinstance(caught.value, UnreachableError)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("status", "message"), [(401, "let us in"), (403, "let us in"), (404, "no package index has"), (500, "answers 500")]
)
def test_statuses_of_the_page_are_told_apart(surroundings, package, tmp_path, serve, use, status, message):
    use(serve(lambda handler: handler.reply(status)))

    with pytest.raises(FetchError, match=message) as caught:
        fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context())
    assert not isinstance(caught.value, UnreachableError)


def test_an_index_that_cannot_be_reached_is_passed_over_while_another_has_the_file(
    surroundings, package, tmp_path, serve, closed_port, monkeypatch
):
    right = serve(Index())
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{closed_port}/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"{right.url}/simple")

    fetched = fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context())

    assert walk(fetched.root) == ["file"]


def test_a_refused_connection_is_unreachable(surroundings, package, tmp_path, closed_port, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{closed_port}/simple")

    with pytest.raises(UnreachableError, match="cannot be reached"):
        fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context())


def test_a_silent_index_is_unreachable(surroundings, package, tmp_path, silent_port, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{silent_port}/simple")

    with pytest.raises(UnreachableError, match="does not answer: timeout"):
        fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context(silence=0.3))


def test_a_download_that_falls_silent_is_unreachable(surroundings, package, tmp_path, serve, use):
    index, over = Index(), threading.Event()

    def answer(handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(SDIST)))
        handler.end_headers()
        handler.wfile.write(SDIST[:5000])
        over.wait(20)

    index.answer_file = answer
    use(serve(index))

    with pytest.raises(UnreachableError, match="does not answer: timeout"):
        fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context(silence=0.3))
    over.set()


def test_a_tls_error_is_fatal(surroundings, package, tmp_path, serve, monkeypatch):
    server = serve(Index())
    monkeypatch.setenv("PIP_INDEX_URL", f"https://{server.host}/simple")

    with pytest.raises(FetchError, match="no trusted TLS connection") as caught:
        fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context())
    assert not isinstance(caught.value, UnreachableError)


@pytest.mark.parametrize(("status", "kind"), [(407, FetchError), (403, FetchError), (502, UnreachableError)])
def test_what_pips_proxy_answers(surroundings, package, tmp_path, serve, monkeypatch, status, kind):
    proxy = serve(lambda handler: handler.reply(status))
    monkeypatch.setenv("PIP_PROXY", f"me:hush@{proxy.host}")
    monkeypatch.setenv("PIP_INDEX_URL", "https://example.org/simple")

    with pytest.raises(FetchError, match="the proxy") as caught:
        fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context())
    assert type(caught.value) is kind
    assert "hush" not in caught.value.message
    assert proxy.requests[0][0] == "CONNECT"


def test_redirects_are_followed(surroundings, package, tmp_path, serve, use):
    index, elsewhere = Index(), serve(lambda handler: handler.reply(200, SDIST))
    index.answer_file = lambda handler: handler.reply(302, Location=f"{elsewhere.url}/real?signature=secret")
    use(serve(index))

    fetched = fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context())

    assert walk(fetched.root) == ["file"]


def test_credentials_serve_and_are_masked_everywhere(surroundings, package, tmp_path, serve, use, capfd, real_pip):
    index, elsewhere = Index(), serve(lambda handler: handler.reply(200, SDIST))
    index.answer_file = lambda handler: handler.reply(302, Location=f"{elsewhere.url}/real")

    def answer(handler) -> None:
        if handler.is_user("me", "s3cret@word"):
            index(handler)
        else:
            handler.reply(401, WWW_Authenticate='Basic realm="x"')

    server = serve(answer)
    use(server, user="me:s3cret%40word@")

    fetched = fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context())

    shown = surroundings.logged + repr(fetched.observed) + "".join(capfd.readouterr())
    assert "s3cret" not in shown
    assert not any("Authorization" in headers for _, _, headers in elsewhere.requests)


def test_wrong_credentials_are_masked_and_nothing_prompts(surroundings, package, tmp_path, serve, use, capfd):
    use(serve(lambda handler: handler.reply(401, WWW_Authenticate='Basic realm="x"')), user="me:s3cret@")

    with pytest.raises(FetchError, match="does not let us in") as caught:
        fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context())
    assert "s3cret" not in caught.value.message + caught.value.hint + surroundings.logged
    assert not any(capfd.readouterr())


def test_netrc_serves(surroundings, package, tmp_path, serve, use):
    index = Index()
    netrc = Path(os.environ["HOME"], ".netrc")
    netrc.write_text("machine 127.0.0.1 login netted password word\n")
    netrc.chmod(0o600)

    def answer(handler) -> None:
        index(handler) if handler.is_user("netted", "word") else handler.reply(401)

    use(serve(answer))

    assert walk(fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context()).root) == ["file"]


def test_file_indexes_and_folders_of_links_serve(surroundings, package, tmp_path, monkeypatch, real_pip):
    page = tmp_path / "index/demo-pkg/index.html"
    page.parent.mkdir(parents=True)
    (tmp_path / "index/files").mkdir()
    (tmp_path / "index/files" / NAME).write_bytes(SDIST)
    page.write_text(f'<a href="../files/{NAME}#sha256={SHA256}">x</a>')
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "index").as_uri())

    first = fetch_source(package(), SOURCE, tmp_path / "a", context=surroundings.context())

    archive_in(surroundings).unlink()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", f"{tmp_path}/missing {tmp_path}/index/files")
    second = fetch_source(package(), SOURCE, tmp_path / "b", context=surroundings.context())

    assert walk(first.root) == walk(second.root) == ["file"]
    assert f"{tmp_path}/missing, which does not exist" in surroundings.logged


def test_no_index_without_links_is_said(surroundings, package, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    with pytest.raises(FetchError, match="no-index"):
        fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context())


@pytest.mark.parametrize("proxy", ["strange://me:s3cret@h:1", "socks5://h:1", "http://h:port"])
def test_an_unusable_proxy_is_one_error(surroundings, package, tmp_path, monkeypatch, proxy):
    monkeypatch.setenv("PIP_PROXY", proxy)

    with pytest.raises(FetchError, match="cannot be used") as caught:
        fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context())
    assert "s3cret" not in caught.value.message


def test_a_link_that_is_an_archive_is_asked_for(surroundings, package, tmp_path, serve, closed_port, monkeypatch):
    server = serve(Index())
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", f"http://127.0.0.1:{closed_port}/{NAME}")

    with pytest.raises(UnreachableError):
        fetch_source(package(), SOURCE, tmp_path / "closed", context=surroundings.context())
    monkeypatch.setenv("PIP_FIND_LINKS", f"{server.url}/files/{NAME}")
    assert walk(fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context()).root) == ["file"]


def test_an_insecure_index_is_not_used(surroundings, package, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://me:s3cret@nowhere.invalid/simple")

    with pytest.raises(FetchError, match="neither HTTPS nor a trusted host") as caught:
        fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context())
    assert "s3cret" not in caught.value.message


@pytest.mark.parametrize(
    ("kind", "page"),
    [
        ("application/vnd.pypi.simple.v1+json", b"{broken"),
        ("application/vnd.pypi.simple.v1+json", b"[1]"),
        ("application/vnd.pypi.simple.v1+json", b'{"files": [{"url": 3}]}'),
        ("text/html", b"<a href='http://[broken/demo_pkg-1.0.tar.gz'>x</a>"),
        ("text/html; charset=nonsense", b"\xff\xfe"),
        ("text/html", b"\xff\xfe\x00"),
        ("image/png", b"x"),
    ],
)
def test_a_page_that_is_no_index_is_one_error(surroundings, package, tmp_path, serve, use, kind, page):
    index = Index()
    index.page, index.page_type = page, kind
    use(serve(index))

    with pytest.raises(FetchError, match="package index"):
        fetch_source(package(), SOURCE, tmp_path / "out", context=surroundings.context())


@pytest.mark.parametrize("damage", [b"", SDIST[:-1], SDIST[:-1] + b"x"])
def test_a_damaged_cached_archive_is_found(surroundings, package, tmp_path, serve, use, damage):
    use(serve(Index()))
    archive = archive_in(surroundings)
    archive.parent.mkdir(parents=True)
    archive.write_bytes(damage)

    with pytest.raises(PinMismatchError, match="damaged"):
        fetch_source(package(), SOURCE, tmp_path / "offline", context=surroundings.context(offline=True))
    fetched = fetch_source(package(), SOURCE, tmp_path / "online", context=surroundings.context())

    assert walk(fetched.root) == ["file"]
    assert "fetching it again" in surroundings.logged


def test_two_runs_at_once_download_once(surroundings, package, tmp_path, serve, use):
    index = Index()
    use(serve(index))
    context, roots = surroundings.context(), []

    def run(name: str) -> None:
        roots.append(fetch_source(package(), SOURCE, tmp_path / name, context=context).root)

    threads = [threading.Thread(target=run, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [walk(root) for root in roots] == [["file"]] * 2
    assert len(index.ranges) == 1
