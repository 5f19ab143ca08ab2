"""Sets, indexes and records that someone changed: each is one error with its own message, and nothing is written."""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from publish_support import make_lock, make_set, make_wheel, served, snapshot

from forkwheel.cli import run
from forkwheel.release.publish import publish_set, verify_index
from forkwheel.release.wheel_set import WheelSet, load_set
from forkwheel.tree import sha256_file

Document = dict[str, Any]
BASE = "base-1.0+fork.1-py3-none-any.whl"


@pytest.fixture
def wheels(tmp_path: Path) -> WheelSet:
    return make_set(tmp_path / "dist")


@pytest.fixture
def lock(wheels: WheelSet, tmp_path: Path) -> Path:
    return make_lock(tmp_path / "wheels.lock.toml", wheels)


def set_to(value: object, *path: str | int) -> Callable[[Document], object]:
    """Return a change of a manifest: what lies at ``path`` becomes ``value``."""

    def change(document: Document) -> object:
        place: Any = document
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = value
        return document

    return change


def without(*path: str | int) -> Callable[[Document], object]:
    def change(document: Document) -> object:
        place: Any = document
        for name in path[:-1]:
            place = place[name]
        del place[path[-1]]
        return document

    return change


def listed_twice(document: Document) -> object:
    document["packages"].append(document["packages"][0])
    return document


def taken_under_the_same_name(document: Document) -> object:
    other = {**document["packages"][0]["wheel"], "sha256": "0" * 64}
    document["taken"] = [{"name": "other", "version": "1.0", "wheel": other}]
    return document


FIRST = ("packages", 0)
WHEEL = (*FIRST, "wheel")
MANIFESTS: dict[str, tuple[Callable[[Document], object], str]] = {
    "a newer format": (set_to(2, "schema"), "has the schema 2"),
    "no recipe": (without("recipe"), "lacks 'recipe'"),
    "a recipe's name that leaves the folder": (set_to("../../x", "recipe", "name"), "recipe.name is"),
    "a recipe's name that is a folder": (set_to("..", "recipe", "name"), "recipe.name is"),
    "a revision that is a text": (set_to("1", "recipe", "revision"), "recipe.revision is '1'"),
    "a revision below nothing": (set_to(-1, "recipe", "revision"), "recipe.revision is -1"),
    "a revision that is true": (set_to(True, "recipe", "revision"), "recipe.revision is True"),
    "packages that are no list": (set_to({}, "packages"), "packages is {}"),
    "no package": (set_to([], "packages"), "lists no package"),
    "a package that is a number": (set_to(7, *FIRST), r"packages\[0\] is 7"),
    "a package without a tree": (without(*FIRST, "tree"), r"packages\[0\] lacks 'tree'"),
    "a package listed twice": (listed_twice, "'base' is listed twice"),
    "two wheels of one name": (taken_under_the_same_name, "is listed twice"),
    "a name with a line break": (set_to("base\nevil==1", *FIRST, "name"), r"packages\[0\].name is"),
    "a version that is none": (set_to("one", *FIRST, "version"), "Invalid version"),
    "a version with a line break": (set_to("1.0\n--index-url x", *FIRST, "version"), r"packages\[0\].version is"),
    "an epoch beyond every date": (set_to(10**20, *FIRST, "epoch"), r"packages\[0\].epoch is"),
    "a file name that leaves the folder": (set_to(f"../{BASE}", *WHEEL, "filename"), "wheel.filename is"),
    "an absolute file name": (set_to(f"/tmp/{BASE}", *WHEEL, "filename"), "wheel.filename is"),
    "a file name that hides a byte": (set_to(f"{BASE}\0", *WHEEL, "filename"), "wheel.filename is"),
    "a file name of no wheel": (set_to("base.txt", *WHEEL, "filename"), "base.txt"),
    "another package's wheel": (set_to("evil-1.0-py3-none-any.whl", *WHEEL, "filename"), "is no wheel of base"),
    "a digest that is none": (set_to("0" * 63, *WHEEL, "sha256"), "wheel.sha256 is"),
    "another size": (set_to(1, *WHEEL, "size"), r"bytes, fork\.manifest\.json says 1"),
    "half a character": (set_to("\ud800", *FIRST, "upstream_version"), "upstream_version is"),
    "a source of no kind": (set_to("svn", *FIRST, "sources", 0, "kind"), "kind is 'svn'"),
    "hashes that are no list": (
        set_to([{"name": "a", "version": "1", "hashes": 3}], *FIRST, "inputs"), r"inputs\[0\].hashes is 3"
    ),
    "kernels without a wheel": (set_to({"wheel": None}, "kernels"), "kernels lacks"),
}  # fmt: skip
RAW = {
    "a key given twice": (b'{"schema": 1, "schema": 1}', "'schema' is given twice"),
    "brackets without end": (b'{"schema": ' + b"[" * 200_000, "nested too deeply|is no manifest"),
    "no UTF-8": (b'{"schema": "\xff"}', "is no manifest"),
    "a number without end": (b'{"schema": 1' + b"0" * 5000 + b"}", "is no manifest|has the schema"),
    "half of itself": (b'{"schema": 1, "packages": [', "is no manifest"),
}


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str], *, codes: tuple[int, ...] = (7,)) -> str:
    """Run a command that must end in one error, and return it."""
    code = run(arguments)
    said = capsys.readouterr()
    assert code in codes, said
    assert said.err.startswith("error: ")
    return said.err


@pytest.mark.parametrize("what", [*MANIFESTS, *RAW])
def test_a_changed_manifest_is_one_error_everywhere(
    wheels: WheelSet, lock: Path, tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if what in RAW:
        content, message = RAW[what]
    else:
        change, message = MANIFESTS[what]
        content = json.dumps(change(json.loads(wheels.manifest.read_bytes()))).encode()
    wheels.manifest.write_bytes(content)
    before = snapshot(tmp_path)
    folder = str(wheels.folder)
    for command in (
        ["verify", folder],
        ["publish", "--from", folder, "--lock", str(lock), "--to", str(tmp_path / "index")],
        ["report", "--from", folder, "--recipe-folder", str(tmp_path)],
        ["reproduce", str(wheels.manifest)],
    ):
        error = refused(command, capsys)
        assert re.search(message, error), error
    assert snapshot(tmp_path) == before


def test_keys_that_a_newer_version_adds_are_left_to_it(wheels: WheelSet) -> None:
    document = json.loads(wheels.manifest.read_bytes())
    document["packages"][0]["later"] = {"deep": [1]}
    wheels.manifest.write_text(json.dumps(document))
    assert load_set(wheels.manifest).wheels == wheels.wheels


STATEMENTS = {
    "no predicate": lambda document: document.pop("predicate"),
    "a predicate that is a list": lambda document: document.update(predicate=[]),
    "a builder that is nothing": lambda document: document["predicate"]["runDetails"].update(builder=None),
    "another builder": lambda document: document["predicate"]["runDetails"]["builder"].update(id="urn:me"),
    "a subject that is a number": lambda document: document.update(subject=3),
    "a subject without a digest": lambda document: document.update(subject=[{"name": "a"}]),
    "one subject more": lambda document: document["subject"].append({"name": "a", "digest": {"sha256": "0" * 64}}),
}


@pytest.mark.parametrize("what", STATEMENTS)
def test_a_changed_statement_is_one_error(wheels: WheelSet, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = wheels.beside("provenance.json")
    document = json.loads(file.read_bytes())
    STATEMENTS[what](document)
    file.write_text(json.dumps(document))
    assert "fork.provenance.json" in refused(["verify", str(wheels.folder)], capsys)


RECORDS = ["[]", "3", '{"checks": 3}', '{"checks": ["FAIL"]}', '{"difference": [3]}', '{"failures": 3}', "\xff"]


@pytest.mark.parametrize("text", RECORDS)
@pytest.mark.parametrize("name", ["smoke.json", "census.json"])
def test_a_record_of_no_known_form_keeps_a_set_from_going_out(
    wheels: WheelSet, lock: Path, tmp_path: Path, name: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wheels.beside(name).write_bytes(text.encode("latin-1"))
    arguments = ["publish", "--from", str(wheels.folder), "--lock", str(lock), "--to", str(tmp_path / "index")]
    assert f"fork.{name}" in refused(arguments, capsys, codes=(8,))
    assert not (tmp_path / "index").exists()


KERNEL_RECORDS = ["{}", '{"wheel": 3}', '{"wheel": {"filename": "x"}}', '{"wheel": {"filename": "../a.whl"}}', "["]


@pytest.mark.parametrize("text", KERNEL_RECORDS)
def test_a_record_of_kernels_of_no_known_form_keeps_a_set_from_going_out(
    wheels: WheelSet, lock: Path, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wheels.beside("kernels.json").write_text(text)
    arguments = ["publish", "--from", str(wheels.folder), "--lock", str(lock), "--to", str(tmp_path / "index")]
    assert "fork.kernels.json" in refused(arguments, capsys, codes=(8,))
    assert not (tmp_path / "index").exists()


def test_a_wheel_in_the_set_that_is_a_link_is_published_as_a_file(wheels: WheelSet, tmp_path: Path) -> None:
    wheel = wheels.folder / BASE
    wheel.rename(tmp_path / "elsewhere.whl")
    wheel.symlink_to(tmp_path / "elsewhere.whl")
    publish_set(tmp_path / "index", load_set(wheels.manifest))
    assert not (tmp_path / "index" / BASE).is_symlink()
    verify_index(tmp_path / "index")


@pytest.mark.parametrize("target", ["nowhere", BASE, "/dev/zero", "."])
def test_a_wheel_that_leads_nowhere_or_to_no_file_is_one_error(
    wheels: WheelSet, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (wheels.folder / BASE).unlink()
    (wheels.folder / BASE).symlink_to(target)
    assert BASE in refused(["verify", str(wheels.folder)], capsys)


def published(tmp_path: Path) -> Path:
    publish_set(tmp_path / "index", make_set(tmp_path / "first"))
    return tmp_path / "index"


def test_an_index_may_itself_be_a_link(tmp_path: Path) -> None:
    published(tmp_path).rename(tmp_path / "real")
    (tmp_path / "index").symlink_to("real")
    publish_set(tmp_path / "index", make_set(tmp_path / "second", local="fork.2", revision=2))
    verify_index(tmp_path / "real")
    assert (tmp_path / "index").is_symlink()


def dangle(root: Path) -> None:
    shutil.rmtree(root / ".pages")


def lead_elsewhere(root: Path) -> None:
    (root / "simple").unlink()
    (root / "simple").symlink_to("../precious")


def lead_out_of_the_pages(root: Path) -> None:
    (root / "simple").unlink()
    (root / "simple").symlink_to(".pages/../../precious")


def pages_elsewhere(root: Path) -> None:
    (root / ".pages").rename(root / "moved")
    (root / ".pages").symlink_to("../precious")


def pages_linked(root: Path) -> None:
    (root / ".pages").rename(root.parent / "precious" / "pages")
    (root / ".pages").symlink_to("../precious/pages")


def incoming_elsewhere(root: Path) -> None:
    (root / ".incoming").symlink_to("../precious")


def half_a_page(root: Path) -> None:
    page = root / "simple" / "base" / "index.json"
    page.write_bytes(page.read_bytes()[:40])


def a_project_that_leaves_the_folder(root: Path) -> None:
    page = root / "simple" / "index.json"
    page.write_text(page.read_text().replace('"base"', '"../../precious"'))


def a_set_that_leaves_the_folder(root: Path) -> None:
    page = root / "simple" / "index.json"
    page.write_text(page.read_text().replace('"fork"', '"../../precious"'))


def a_file_of_no_wheel(root: Path) -> None:
    page = root / "simple" / "base" / "index.json"
    page.write_text(page.read_text().replace(f'"{BASE}"', '"base-one.whl"'))


def a_page_nested_too_deeply(root: Path) -> None:
    (root / "simple" / "base" / "index.json").write_text("[" * 200_000)


INDEXES = {
    dangle: "leads to",
    lead_elsewhere: "leads to ../precious",
    lead_out_of_the_pages: "leads to",
    pages_elsewhere: r"\.pages is a link",
    pages_linked: r"\.pages is a link",
    incoming_elsewhere: r"\.incoming is a link",
    half_a_page: "is no page of an index",
    a_project_that_leaves_the_folder: "is no page of an index",
    a_set_that_leaves_the_folder: "is no page of an index",
    a_file_of_no_wheel: "is no page of an index",
    a_page_nested_too_deeply: "is no page of an index",
}


@pytest.mark.parametrize("damage", INDEXES, ids=lambda damage: damage.__name__)
def test_a_changed_index_is_not_written_to_and_takes_nothing_else_with_it(
    tmp_path: Path, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "precious" / "1").mkdir(parents=True)
    (tmp_path / "precious" / "1" / "thesis.txt").write_text("years of work\n")
    root = published(tmp_path)
    second = make_set(tmp_path / "second", local="fork.2", revision=2)
    arguments = ["publish", "--from", str(second.folder), "--lock", str(make_lock(tmp_path / "lock", second))]
    damage(root)
    before = snapshot(tmp_path)
    error = refused([*arguments, "--to", str(root)], capsys, codes=(7, 8))
    assert re.search(INDEXES[damage], error), error
    refused(["publish", "--to", str(root), "--yank", BASE, "--reason", "broken"], capsys, codes=(7, 8))
    assert {name: content for name, content in snapshot(tmp_path).items() if not name.endswith(".lock")} == {
        name: content for name, content in before.items() if not name.endswith(".lock")
    }
    assert (tmp_path / "precious" / "1" / "thesis.txt").read_text() == "years of work\n"


def test_a_copy_of_an_index_without_links_is_verified_too(tmp_path: Path) -> None:
    shutil.copytree(published(tmp_path), tmp_path / "copy", symlinks=False)
    assert not (tmp_path / "copy" / "simple").is_symlink()
    assert run(["verify", str(tmp_path / "copy")]) == 0


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_read_only_index_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = published(tmp_path)
    root.chmod(0o500)
    try:
        refused(["publish", "--to", str(root), "--yank", BASE, "--reason", "broken"], capsys, codes=(8,))
    finally:
        root.chmod(0o700)


@pytest.mark.parametrize("reason", ["falsch: 4 Ränge, 四", 'a "quoted" <b>', "x" * 5000])
def test_any_readable_reason_is_kept_as_it_is(tmp_path: Path, reason: str) -> None:
    root = published(tmp_path)
    assert run(["publish", "--to", str(root), "--yank", BASE, "--reason", reason]) == 0
    assert json.loads((root / "simple/base/index.json").read_bytes())["files"][0]["yanked"] == reason
    verify_index(root)


@pytest.mark.parametrize("reason", ["two\nlines", "\N{RIGHT-TO-LEFT OVERRIDE}gnorw", "\udcff", "\x1b[2J"])
def test_a_reason_that_hides_something_is_refused(
    tmp_path: Path, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = published(tmp_path)
    before = snapshot(root)
    refused(["publish", "--to", str(root), "--yank", BASE, "--reason", reason], capsys, codes=(2,))
    assert snapshot(root) == before


def test_two_publishers_at_once_both_succeed(tmp_path: Path) -> None:
    root = published(tmp_path)
    started = []
    for number in (2, 3, 4):
        one = make_set(tmp_path / f"dist{number}", local=f"fork.{number}", revision=number)
        lock = make_lock(tmp_path / f"lock{number}", one)
        arguments = ["publish", "--from", str(one.folder), "--lock", str(lock), "--to", str(root)]
        started.append(subprocess.Popen([sys.executable, "-m", "forkwheel", *arguments], stdout=subprocess.DEVNULL))
    assert [process.wait() for process in started] == [0, 0, 0]
    pages = verify_index(root)
    assert sorted(one.revision for one in pages.sets) == [1, 2, 3, 4]
    assert len(pages.projects["base"]) == 4


URLS = [
    "https://user:pa/ss@host.example/simple/",
    "https://user:12/ss@host.example/simple/",
    "https://user:pa?ss@host.example/",
    "https://user:pa#ss@host.example/",
    "https://user:pass@[::1/simple/",
    "ftp://user:pass@host.example/",
    "https://user:pass@host.example:99999/",
    "https://user:pass@/",
]


@pytest.mark.parametrize("url", URLS)
def test_no_part_of_a_password_is_shown(
    wheels: WheelSet, lock: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    upload = ["publish", "--from", str(wheels.folder), "--lock", str(lock), "--repository", url]
    for arguments in (upload, ["reproduce", url]):
        error = refused(arguments, capsys, codes=(2,))
        assert "pass@" not in error
        assert "ss@" not in error
        assert "'pa" not in error


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers by the first part of the path: a status, a redirect that never ends, or what is no page."""

    def do_GET(self) -> None:
        kind = self.path.split("/")[1]
        self.send_response(302 if kind == "loop" else int(kind) if kind.isdigit() else 200)
        if kind == "loop":
            self.send_header("Location", f"/loop/{len(self.path)}x/")
        self.end_headers()
        self.wfile.write(b"<html>\xff" if kind == "html" else b"[" * 200_000 if kind == "deep" else b"")

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        pass


@pytest.fixture(scope="module")
def answers() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("path", "code"), [("404", 2), ("401", 3), ("500", 3), ("loop", 3), ("html", 7), ("deep", 7), ("empty", 7)]
)
def test_a_server_that_has_no_index_is_one_error_without_the_password(
    answers: str, path: str, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forkwheel.fetch.http_client.BACKOFF_SECONDS", 0.0)
    error = refused(["reproduce", f"http://me:hunter2@{answers}/{path}/"], capsys, codes=(code,))
    assert "hunter2" not in error
    assert "me:" not in error


def test_an_index_that_is_not_encrypted_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    error = refused(["reproduce", "http://me:hunter2@host.example/simple/"], capsys, codes=(3,))
    assert "neither HTTPS nor a trusted host" in error
    assert "hunter2" not in error


def lie(root: Path, *, old: str, new: str, page: str = "simple/base/index.json") -> None:
    file = root / page
    text = file.read_text()
    assert old in text
    file.unlink()
    file.write_text(text.replace(old, new))


def test_a_page_that_lies_of_a_wheel_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = published(tmp_path)
    lie(root, old=sha256_file(root / BASE), new="0" * 64)
    with served(root) as url:
        error = refused(["reproduce", f"{url}/simple/"], capsys, codes=(3,))
    assert f"{BASE.replace('+', '%2B')} has the SHA-256" in error


def test_a_page_that_lies_together_with_its_wheel_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = published(tmp_path)
    old = sha256_file(root / BASE)
    make_wheel(root, "base", "1.0+fork.1", files={"base/evil.py": b"1\n"})
    lie(root, old=old, new=sha256_file(root / BASE))
    with served(root) as url:
        error = refused(["reproduce", f"{url}/simple/"], capsys)
    assert f"{BASE} has the SHA-256" in error
    assert "fork.manifest.json says" in error


def test_a_page_that_does_not_list_a_wheel_of_its_set_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = published(tmp_path)
    lie(root, old=f'"{BASE}"', new='"base-1.0+fork.9-py3-none-any.whl"')
    with served(root) as url:
        error = refused(["reproduce", f"{url}/simple/"], capsys)
    assert f"lists {BASE}, which is not in" in error
