"""How git sources are reached: what servers allow, what fails, and that nothing prompts or hangs."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from forkwheel.children import Children
from forkwheel.errors import FetchError, PinMismatchError, UnreachableError
from forkwheel.fetch import fetch_source, git_process
from forkwheel.fetch.git_errors import explain, is_refused_want
from forkwheel.recipe import GitSource
from forkwheel.tree import walk


def source(url: object, commit: str, tag: str | None = None) -> GitSource:
    return GitSource(str(url), commit, tag, "", ())


@pytest.fixture
def history(repository):
    """A repository in which the pinned commit is neither a branch's tip nor the newest tag's."""
    main = repository("main")
    main.commit({"a.txt": b"before\n"})
    pinned = main.commit({"a.txt": b"pinned\n"})
    main.git("tag", "v1.0")
    main.git("tag", "--annotate", "--message=x", "v1.0-annotated")
    main.commit({"a.txt": b"after\n"})
    main.git("tag", "v2.0")
    return main, pinned


def is_shallow(surroundings, commit: str) -> bool:
    return (surroundings.store.root / "git" / f"{commit}.git" / "shallow").exists()


def use_old_protocol() -> None:
    """Protocol 2 serves any commit; servers that refuse speak an older one."""
    with Path(os.environ["HOME"], ".gitconfig").open("a") as config:
        config.write("[protocol]\n\tversion = 0\n")


@pytest.mark.parametrize(
    ("allowed", "tag", "shallow"),
    [
        ("allowAnySHA1InWant", None, True),
        ("allowReachableSHA1InWant", None, True),
        ("allowTipSHA1InWant", None, True),  # over HTTP git then serves whatever a tip reaches
        ("allowTipSHA1InWant", "v1.0", True),
        ("", "v1.0", True),
        ("", "v1.0-annotated", True),
        ("", "v2.0", False),
        ("", "missing", False),
        ("", None, False),
    ],
)
def test_each_kind_of_server_serves_the_commit(
    history, surroundings, package, tmp_path, serve, smart_http, allowed, tag, shallow
):
    main, pinned = history
    use_old_protocol()
    # A tag on the pinned commit would make it a tip that any server serves.
    if tag is None or not tag.startswith("v1"):
        main.git("tag", "--delete", "v1.0", "v1.0-annotated")
    if allowed:
        main.git("config", f"uploadpack.{allowed}", "true")
    server = serve(smart_http)

    fetched = fetch_source(
        package(), source(f"{server.url}/main", pinned, tag), tmp_path / "out", context=surroundings.context()
    )

    assert (fetched.root / "a.txt").read_bytes() == b"pinned\n"
    assert is_shallow(surroundings, pinned) == shallow
    assert ("cached", "no") in fetched.observed


def test_only_the_commit_is_fetched_where_the_server_allows(
    history, surroundings, package, tmp_path, serve, smart_http
):
    _, pinned = history
    server = serve(smart_http)

    fetch_source(package(), source(f"{server.url}/main", pinned), tmp_path / "out", context=surroundings.context())

    cached = surroundings.store.root / "git" / f"{pinned}.git"
    listed = subprocess.run(
        ["git", f"--git-dir={cached}", "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert listed.stdout.split().count("commit") == 1


def test_a_dumb_server_serves_the_commit(history, surroundings, package, tmp_path, serve):
    main, pinned = history
    main.git("repack", "-a", "-d", "-q")
    main.git("update-server-info")
    root = main.folder / ".git"

    def answer(handler):
        file = root / handler.path.split("?")[0].removeprefix("/main.git/")
        handler.reply(200, file.read_bytes()) if file.is_file() else handler.reply(404)

    server = serve(answer)

    fetched = fetch_source(
        package(), source(f"{server.url}/main.git", pinned), tmp_path / "out", context=surroundings.context()
    )

    assert walk(fetched.root) == ["a.txt"]


def test_git_daemon_serves_the_commit(history, surroundings, package, tmp_path, closed_port):
    _, pinned = history
    command = ["git", "daemon", "--export-all", f"--base-path={tmp_path}/upstream", "--listen=127.0.0.1"]
    with subprocess.Popen(
        [*command, f"--port={closed_port}", "--reuseaddr"], stderr=subprocess.DEVNULL, start_new_session=True
    ) as daemon:
        try:
            _wait_for(closed_port)
            fetched = fetch_source(
                package(),
                source(f"git://127.0.0.1:{closed_port}/main", pinned),
                tmp_path / "out",
                context=surroundings.context(),
            )
        finally:
            os.killpg(daemon.pid, 15)

    assert (fetched.root / "a.txt").read_bytes() == b"pinned\n"


def _wait_for(port: int) -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)


def test_missing_commit_shows_what_the_tag_is(history, surroundings, package, tmp_path):
    main, pinned = history
    absent = "1234567890" * 4

    pin = replace(source(main.folder, absent, "v1.0"), place="r.toml:7")
    with pytest.raises(PinMismatchError, match=rf"^r\.toml:7: .*no commit {absent}; its tag v1.0 is {pinned}"):
        fetch_source(package(), pin, tmp_path / "out", context=surroundings.context())
    assert not list((surroundings.store.root / "tmp").iterdir())


def test_the_second_time_needs_no_remote(history, surroundings, package, tmp_path):
    main, pinned = history
    fetch_source(package(), source(main.folder, pinned), tmp_path / "first", context=surroundings.context())
    shutil.rmtree(main.folder)

    fetched = fetch_source(
        package(), source(main.folder, pinned), tmp_path / "second", context=surroundings.context(offline=True)
    )

    assert fetched.observed == (("kind", "git"), ("from", "cache"), ("cached", "yes"))


def test_offline_without_cache_says_what_is_missing(history, surroundings, package, tmp_path):
    main, pinned = history

    with pytest.raises(FetchError, match=f"{pinned} is not in the cache"):
        fetch_source(
            package(), source(main.folder, pinned), tmp_path / "out", context=surroundings.context(offline=True)
        )


def test_two_runs_at_once_fetch_once(history, surroundings, package, tmp_path):
    main, pinned = history
    context = surroundings.context()
    roots = []

    def run(name: str) -> None:
        roots.append(fetch_source(package(), source(main.folder, pinned), tmp_path / name, context=context).root)

    threads = [threading.Thread(target=run, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [walk(root) for root in roots] == [["a.txt"]] * 3
    assert surroundings.logged.count(f"fetching {pinned[:12]}") == 1


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_damaged_cache_is_fetched_again_or_refused(history, surroundings, package, tmp_path, damage):
    main, pinned = history
    fetch_source(package(), source(main.folder, pinned), tmp_path / "first", context=surroundings.context())
    objects = surroundings.store.root / "git" / f"{pinned}.git" / "objects"
    for file in [path for path in objects.rglob("*") if path.is_file()]:
        content = bytearray(file.read_bytes())
        file.unlink()
        if damage != "remove":
            content[len(content) // 2] ^= 0xFF
            file.write_bytes(content if damage == "flip" else content[: len(content) // 2])

    with pytest.raises(FetchError, match="in the cached repository"):
        fetch_source(
            package(), source(main.folder, pinned), tmp_path / "offline", context=surroundings.context(offline=True)
        )
    fetched = fetch_source(package(), source(main.folder, pinned), tmp_path / "again", context=surroundings.context())

    assert (fetched.root / "a.txt").read_bytes() == b"pinned\n"
    assert "fetching it again" in surroundings.logged


def test_an_object_under_a_false_name_is_found(history, surroundings, package, tmp_path):
    """Git itself does not hash what it reads from a loose object."""
    main, pinned = history
    fetch_source(package(), source(main.folder, pinned), tmp_path / "first", context=surroundings.context())
    cached = surroundings.store.root / "git" / f"{pinned}.git"
    for pack in (cached / "objects/pack").glob("pack-*.pack"):
        moved = pack.rename(tmp_path / "moved.pack")
        for file in (cached / "objects/pack").iterdir():
            file.unlink()
        main.git("--git-dir", str(cached), "unpack-objects", "-q", content=moved.read_bytes())
    loose = [main.git("hash-object", "--stdin", content=text) for text in (b"pinned\n", b"evil\n")]
    main.git("--git-dir", str(cached), "hash-object", "-w", "--stdin", content=b"evil\n")
    files = [cached / "objects" / name[:2] / name[2:] for name in loose]
    files[0].chmod(0o644)
    files[0].write_bytes(files[1].read_bytes())

    with pytest.raises(FetchError, match=f"object {loose[0]}"):
        fetch_source(
            package(), source(main.folder, pinned), tmp_path / "out", context=surroundings.context(offline=True)
        )


@pytest.mark.parametrize("scheme", ["git", "http", "ssh"])
def test_a_silent_remote_ends_in_an_error(surroundings, package, tmp_path, silent_port, scheme):
    url = f"{scheme}://127.0.0.1:{silent_port}/main"

    with pytest.raises(UnreachableError, match=r"was silent for 0\.5 seconds|cannot be reached.*timed out"):
        fetch_source(package(), source(url, "1" * 40), tmp_path / "out", context=surroundings.context(silence=0.5))


def test_an_interrupted_run_ends_a_git_that_another_thread_waits_for(
    surroundings, package, tmp_path, silent_port, monkeypatch
):
    children = Children()
    monkeypatch.setattr(git_process, "CHILDREN", children)
    url = f"git://127.0.0.1:{silent_port}/main"
    begun = time.monotonic()

    with ThreadPoolExecutor() as pool:
        context = surroundings.context(silence=60)
        fetching = pool.submit(fetch_source, package(), source(url, "1" * 40), tmp_path / "out", context=context)
        time.sleep(1)
        children.end()
        with pytest.raises(KeyboardInterrupt):
            fetching.result()

    assert time.monotonic() - begun < 30


def test_a_remote_that_falls_silent_half_way_ends_in_an_error(
    history, surroundings, package, tmp_path, serve, smart_http
):
    _, pinned = history
    over = threading.Event()

    def answer(handler):
        if handler.command == "GET":
            smart_http(handler)
        else:
            over.wait(20)

    server = serve(answer)

    with pytest.raises(UnreachableError, match="was silent"):
        fetch_source(
            package(), source(f"{server.url}/main", pinned), tmp_path / "out", context=surroundings.context(silence=0.5)
        )
    over.set()


def test_refused_and_unknown_hosts_are_unreachable(surroundings, package, tmp_path, closed_port):
    for url in (f"http://127.0.0.1:{closed_port}/x", f"git://127.0.0.1:{closed_port}/x", "https://nowhere.invalid/x"):
        with pytest.raises(UnreachableError):
            fetch_source(package(), source(url, "1" * 40), tmp_path / "out", context=surroundings.context())


@pytest.mark.parametrize(
    ("status", "message"),
    [(404, "is no git repository"), (401, "does not let us in"), (403, "does not let us in"), (500, "could not fetch")],
)
def test_refusals_are_fatal(surroundings, package, tmp_path, serve, status, message):
    server = serve(lambda handler: handler.reply(status, WWW_Authenticate='Basic realm="x"'))

    with pytest.raises(FetchError, match=message) as caught:
        fetch_source(package(), source(server.url + "/x", "1" * 40), tmp_path / "out", context=surroundings.context())
    assert not isinstance(caught.value, UnreachableError)


def test_a_tls_error_is_fatal(surroundings, package, tmp_path, serve):
    server = serve(lambda handler: handler.reply(200))

    with pytest.raises(FetchError, match="no trusted TLS connection") as caught:
        fetch_source(
            package(), source(f"https://{server.host}/x", "1" * 40), tmp_path / "out", context=surroundings.context()
        )
    assert not isinstance(caught.value, UnreachableError)


@pytest.mark.parametrize(("status", "kind"), [(407, FetchError), (403, FetchError), (502, UnreachableError)])
def test_what_a_proxy_answers(surroundings, package, tmp_path, serve, monkeypatch, status, kind):
    proxy = serve(lambda handler: handler.reply(status))
    monkeypatch.setenv("https_proxy", proxy.url.replace("http://", "http://me:hush@"))

    with pytest.raises(FetchError, match="the proxy") as caught:
        fetch_source(
            package(), source("https://example.org/x", "1" * 40), tmp_path / "out", context=surroundings.context()
        )
    assert type(caught.value) is kind
    assert "hush" not in caught.value.message


def test_proxies_and_certificates_of_the_persons_git_serve(surroundings, package, tmp_path, serve):
    proxy = serve(lambda handler: handler.reply(407))
    Path(os.environ["HOME"], ".gitconfig").write_text(f"[http]\n\tproxy = {proxy.url}\n")

    with pytest.raises(FetchError, match="the proxy refuses"):
        fetch_source(
            package(), source("https://example.org/x", "1" * 40), tmp_path / "out", context=surroundings.context()
        )
    assert proxy.requests


def test_credentials_of_a_mirror_serve_and_stay_secret(
    history, surroundings, package, tmp_path, serve, smart_http, monkeypatch
):
    _, pinned = history

    def answer(handler):
        if handler.is_user("me", "s3cret/word"):
            smart_http(handler)
        else:
            handler.reply(401, WWW_Authenticate='Basic realm="x"')

    server = serve(answer)
    arguments = _record_git(tmp_path, monkeypatch)
    mirror = f"http://me:s3cret%2Fword@{server.host}/main"

    fetched = fetch_source(
        package(),
        source("https://example.org/main.git", pinned),
        tmp_path / "out",
        context=surroundings.context(mirrors=(("https://example.org/main", mirror),)),
    )

    shown = surroundings.logged + repr(fetched.observed) + arguments.read_text()
    assert walk(fetched.root) == ["a.txt"]
    assert "s3cret" not in shown
    assert f"http://***@{server.host}/main" in surroundings.logged


def _record_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a git on PATH that notes its arguments."""
    arguments, folder = tmp_path / "arguments", tmp_path / "bin"
    folder.mkdir()
    (folder / "git").write_text(f'#!/bin/sh\necho "$@" >> {arguments}\nexec {shutil.which("git")} "$@"\n')
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return arguments


def test_credential_helpers_and_rewritten_urls_of_the_person_serve(
    history, surroundings, package, tmp_path, serve, smart_http
):
    _, pinned = history

    def answer(handler):
        if handler.is_user("helped", "word"):
            smart_http(handler)
        else:
            handler.reply(401, WWW_Authenticate='Basic realm="x"')

    server = serve(answer)
    Path(os.environ["HOME"], ".gitconfig").write_text(
        f'[url "{server.url}/"]\n\tinsteadOf = https://example.org/\n'
        "[credential]\n\thelper = \"!printf 'username=helped\\\\npassword=word\\\\n'\"\n"
    )

    fetched = fetch_source(
        package(), source("https://example.org/main", pinned), tmp_path / "out", context=surroundings.context()
    )

    assert walk(fetched.root) == ["a.txt"]


def test_ssh_remotes_work_without_prompts(history, surroundings, package, tmp_path, monkeypatch):
    _, pinned = history
    noted = tmp_path / "noted"
    ssh = tmp_path / "my ssh"
    ssh.write_text(
        f'#!/bin/sh\necho "$@" >> {noted}\n[ -t 0 ] && exit 9\nfor last; do :; done\n'
        f'cd {tmp_path}/upstream && exec sh -c "$(echo "$last" | sed "s#\'/#\'./#")"\n'
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", f"'{ssh}' -i key")
    monkeypatch.setenv("GIT_SSH_VARIANT", "ssh")

    fetched = fetch_source(
        package(), source("ssh://git@example.org/main", pinned), tmp_path / "out", context=surroundings.context()
    )

    assert walk(fetched.root) == ["a.txt"]
    assert "-i key -o BatchMode=yes -o ConnectTimeout=" in noted.read_text()


@pytest.mark.parametrize(("name", "option"), [("GIT_SSH", "{}"), ("core.sshCommand", "'{}'")])
def test_other_ways_to_name_ssh_are_told_not_to_prompt(surroundings, package, tmp_path, monkeypatch, name, option):
    noted, ssh = tmp_path / "noted", tmp_path / "own ssh"
    ssh.write_text(f'#!/bin/sh\necho "$@" >> {noted}\necho "Permission denied (publickey)." >&2\nexit 255\n')
    ssh.chmod(0o755)
    if name == "GIT_SSH":
        monkeypatch.setenv(name, str(ssh))
    else:
        Path(os.environ["HOME"], ".gitconfig").write_text(f"[core]\n\tsshCommand = {option.format(ssh)}\n")
    monkeypatch.setenv("GIT_SSH_VARIANT", "ssh")

    with pytest.raises(FetchError, match="does not let us in") as caught:
        fetch_source(
            package(), source("git@example.org:a/b.git", "1" * 40), tmp_path / "out", context=surroundings.context()
        )
    assert "BatchMode=yes" in noted.read_text()
    assert not isinstance(caught.value, UnreachableError)


def test_variables_that_point_git_elsewhere_do_not_matter(history, surroundings, package, tmp_path, monkeypatch):
    main, pinned = history
    other = tmp_path / "other"
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    for name in ("GIT_DIR", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_QUARANTINE_PATH"):
        monkeypatch.setenv(name, str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / "index"))
    monkeypatch.setenv("GIT_ALTERNATE_OBJECT_DIRECTORIES", str(main.folder / ".git/objects"))
    monkeypatch.setenv("GIT_NAMESPACE", "strange")
    monkeypatch.setenv("GIT_SHALLOW_FILE", str(other / "shallow"))
    before = sorted(other.rglob("*"))

    fetched = fetch_source(package(), source(main.folder, pinned), tmp_path / "out", context=surroundings.context())

    assert walk(fetched.root) == ["a.txt"]
    assert sorted(other.rglob("*")) == before


def test_settings_given_in_the_environment_are_kept(history, surroundings, package, tmp_path, monkeypatch):
    main, pinned = history
    for name, value in {"COUNT": "1", "KEY_0": f"url.{main.folder}.insteadOf", "VALUE_0": "file:///away"}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)

    fetched = fetch_source(package(), source("file:///away", pinned), tmp_path / "out", context=surroundings.context())

    assert walk(fetched.root) == ["a.txt"]


def test_a_mirror_that_belongs_to_somebody_else_serves(history, surroundings, package, tmp_path, monkeypatch):
    main, pinned = history
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")

    fetched = fetch_source(
        package(),
        source("https://example.org/main.git", pinned),
        tmp_path / "out",
        context=surroundings.context(mirrors=(("https://example.org/main.git", str(main.folder)),)),
    )

    assert walk(fetched.root) == ["a.txt"]


def test_missing_git_is_named(surroundings, package, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(FetchError, match="git is missing") as caught:
        fetch_source(package(), source("https://x/y", "1" * 40), tmp_path / "out", context=surroundings.context())
    assert "install git" in caught.value.hint


@pytest.mark.parametrize(
    ("says", "message"), [("git version 2.30.9", "2.30.9 is too old: 2.31"), ("huh", "its version")]
)
def test_old_git_is_refused(surroundings, package, tmp_path, monkeypatch, says, message):
    (tmp_path / "git").write_text(f"#!/bin/sh\necho {says}\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    with pytest.raises(FetchError, match=message):
        fetch_source(package(), source("https://x/y", "1" * 40), tmp_path / "out", context=surroundings.context())


@pytest.mark.parametrize(
    ("errors", "kind", "message"),
    [
        ("ssh: connect to host h port 22: Connection timed out\nfatal: Could not read", UnreachableError, "reached"),
        ("ssh: connect to host h port 22: No route to host", UnreachableError, "reached"),
        ("ssh: Could not resolve hostname h: Temporary failure in name resolution", UnreachableError, "reached"),
        ("fatal: unable to access 'u': Recv failure: Connection reset by peer", UnreachableError, "reached"),
        ("git@h: Permission denied (publickey).\nfatal: Could not read from remote", FetchError, "let us in"),
        ("Host key verification failed.\nfatal: Could not read from remote", FetchError, "let us in"),
        ("fatal: could not read Username for 'https://h': terminal prompts disabled", FetchError, "let us in"),
        ("fatal: unable to access 'u': server certificate verification failed. CAfile: x", FetchError, "TLS"),
        ("fatal: unable to access 'u': CONNECT tunnel failed, response 407", FetchError, "proxy refuses"),
        ("fatal: unable to access 'u': Received HTTP code 403 from proxy after CONNECT", FetchError, "proxy refuses"),
        ("ERROR: Repository not found.\nfatal: Could not read from remote", FetchError, "no git repository"),
        ("remote: fatal: unable to read 06eb\nfatal: early EOF", FetchError, "fails to serve"),
        ("something new", FetchError, "could not fetch"),
        ("", FetchError, "no reason given"),
    ],
)
def test_complaints_are_told_apart(errors, kind, message):
    error = explain(errors, "https://me:pw@h/x")

    assert type(error) is kind
    assert message in error.message
    assert "pw" not in error.message
    assert error.hint


def test_a_refused_want_is_no_other_failure():
    assert is_refused_want("error: Server does not allow request for unadvertised object 1234")
    assert is_refused_want("fatal: remote error: upload-pack: not our ref 1234")
    assert not is_refused_want("fatal: repository 'x' not found")
