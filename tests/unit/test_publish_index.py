"""The static index: its pages, what it refuses, and that it changes whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import pytest
from publish_support import make_lock, make_set, make_wheel, snapshot

from forkwheel.errors import ForkwheelError, PublishError, UsageError, VerificationError
from forkwheel.release import publish
from forkwheel.release.index import Pages, held, switch, write_pages
from forkwheel.release.index_pages import IndexedFile
from forkwheel.release.publish import publish_set, verify_index, yank
from forkwheel.release.wheel_set import load_set

DEMO = "demo-1.0+fork.1-py3-none-any.whl"


def pages_of(root: Path) -> dict[str, bytes]:
    """Return what clients see: every page under ``simple``."""
    return snapshot(root / "simple")


def test_the_pages_list_the_files_with_their_hashes_and_metadata(tmp_path: Path) -> None:
    wheels = make_set(tmp_path / "dist")
    publish_set(tmp_path / "index", wheels)
    page = json.loads((tmp_path / "index/simple/demo/index.json").read_bytes())
    html = (tmp_path / "index/simple/demo/index.html").read_text()
    (file,) = page["files"]
    content = (tmp_path / "index" / DEMO).read_bytes()
    metadata = (tmp_path / "index" / f"{DEMO}.metadata").read_bytes()
    assert page["name"] == "demo"
    assert page["versions"] == ["1.0+fork.1"]
    assert file["url"] == "../../demo-1.0%2Bfork.1-py3-none-any.whl"
    assert file["hashes"]["sha256"] == sha256(content).hexdigest()
    assert file["size"] == len(content)
    assert file["requires-python"] == ">=3.8"
    assert file["core-metadata"]["sha256"] == sha256(metadata).hexdigest()
    assert b"Name: demo" in metadata
    assert f'href="{file["url"]}#sha256={file["hashes"]["sha256"]}"' in html
    assert 'data-requires-python="&gt;=3.8"' in html
    assert (tmp_path / "index/licenses/demo/1.0+fork.1/LICENSE").read_text() == "do as you like\n"


def test_publishing_again_changes_nothing(tmp_path: Path) -> None:
    wheels = make_set(tmp_path / "dist")
    publish_set(tmp_path / "index", wheels)
    before = pages_of(tmp_path / "index")
    again = publish_set(tmp_path / "index", wheels)
    assert again.added == ()
    assert pages_of(tmp_path / "index") == before


def test_the_pages_do_not_depend_on_the_order_of_publishing(tmp_path: Path) -> None:
    sets = [make_set(tmp_path / f"dist{number}", local=f"fork.{number}", revision=number) for number in (1, 2, 10)]
    for name, order in (("a", sets), ("b", sets[::-1])):
        for one in order:
            publish_set(tmp_path / name, one)
    assert pages_of(tmp_path / "a") == pages_of(tmp_path / "b")
    versions = json.loads((tmp_path / "a/simple/demo/index.json").read_bytes())["versions"]
    assert versions == ["1.0+fork.1", "1.0+fork.2", "1.0+fork.10"]


def test_a_file_that_is_there_with_other_bytes_is_refused(tmp_path: Path) -> None:
    publish_set(tmp_path / "index", make_set(tmp_path / "dist"))
    before = snapshot(tmp_path / "index")
    make_set(tmp_path / "other")
    wheel = make_wheel(tmp_path / "other", "demo", "1.0+fork.1", files={"demo/more.py": b"1\n"})
    manifest = tmp_path / "other" / "fork.manifest.json"
    document = json.loads(manifest.read_bytes())
    document["packages"][1]["wheel"]["sha256"] = sha256(wheel.read_bytes()).hexdigest()
    manifest.write_text(json.dumps(document))
    with pytest.raises(PublishError, match=r"the index has demo-1\.0\+fork\.1"):
        publish_set(tmp_path / "index", load_set(manifest))
    assert snapshot(tmp_path / "index") == before


def test_a_set_is_added_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop publishing before each of its steps that touch the index; what clients see stays as it was."""
    publish_set(tmp_path / "index", make_set(tmp_path / "dist1"))
    before = pages_of(tmp_path / "index")
    second = make_set(tmp_path / "dist2", local="fork.2", revision=2)
    real, stops = publish._move, 0

    def stopping(root: Path, source: Path, target: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        real(root, source, target)

    monkeypatch.setattr(publish, "_move", stopping)
    while True:
        left = stops
        root = tmp_path / f"copy{stops}"
        shutil.copytree(tmp_path / "index", root, symlinks=True)
        try:
            publish_set(root, second)
        except KeyboardInterrupt:
            assert pages_of(root) == before
            left = 1000
            publish_set(root, second)
            verify_index(root)
            stops += 1
            continue
        break
    assert stops > 6
    assert pages_of(root) != before


def test_a_fault_while_copying_leaves_nothing_behind(tmp_path: Path) -> None:
    publish_set(tmp_path / "index", make_set(tmp_path / "dist1"))
    before = snapshot(tmp_path / "index")
    second = make_set(tmp_path / "dist2", local="fork.2", revision=2)
    wheel = second.wheels[1].path
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    with pytest.raises(VerificationError, match="SHA-256"):
        publish_set(tmp_path / "index", second)
    assert snapshot(tmp_path / "index") == before


def test_a_revision_with_another_manifest_is_refused(tmp_path: Path) -> None:
    wheels = make_set(tmp_path / "dist")
    publish_set(tmp_path / "index", wheels)
    document = json.loads(wheels.manifest.read_bytes())
    document["recipe"]["target"] = "sm_90a"
    wheels.manifest.write_text(json.dumps(document))
    with pytest.raises(PublishError, match="another manifest"):
        publish_set(tmp_path / "index", load_set(wheels.manifest))


def test_a_yanked_file_says_why_in_both_pages(tmp_path: Path) -> None:
    publish_set(tmp_path / "index", make_set(tmp_path / "dist"))
    yank(tmp_path / "index", DEMO, reason='wrong at "4" ranks')
    page = json.loads((tmp_path / "index/simple/demo/index.json").read_bytes())
    assert page["files"][0]["yanked"] == 'wrong at "4" ranks'
    assert 'data-yanked="wrong at &quot;4&quot; ranks"' in (tmp_path / "index/simple/demo/index.html").read_text()
    publish_set(tmp_path / "index", load_set(tmp_path / "dist" / "fork.manifest.json"))
    assert json.loads((tmp_path / "index/simple/demo/index.json").read_bytes())["files"][0]["yanked"]
    verify_index(tmp_path / "index")


def test_yanking_what_is_not_there_is_refused(tmp_path: Path) -> None:
    publish_set(tmp_path / "index", make_set(tmp_path / "dist"))
    with pytest.raises(UsageError, match="lists no other"):
        yank(tmp_path / "index", "other-1.0-py3-none-any.whl", reason="no")
    with pytest.raises(UsageError, match="is no index"):
        yank(tmp_path / "dist", DEMO, reason="no")


TAMPERED = {
    "simple/demo/index.html": "index.html was altered",
    "simple/demo/index.json": "index.json",
    "simple/index.html": "index.html was altered",
    "simple/index.json": "index.json",
    DEMO: f"{DEMO.replace('+', '.')} has the SHA-256",
    f"{DEMO}.metadata": "metadata has the SHA-256",
    "sets/fork/1/fork.manifest.json": "manifest.json has the SHA-256",
}


@pytest.mark.parametrize("path", TAMPERED)
def test_what_was_tampered_with_is_named(tmp_path: Path, path: str) -> None:
    publish_set(tmp_path / "index", make_set(tmp_path / "dist"))
    verify_index(tmp_path / "index")
    file = tmp_path / "index" / path
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content.replace(b"1.0", b"1.1", 1) if b"1.0" in content else content[:-3])
    with pytest.raises(VerificationError, match=TAMPERED[path]):
        verify_index(tmp_path / "index")


def test_a_tampered_page_stops_publishing(tmp_path: Path) -> None:
    publish_set(tmp_path / "index", make_set(tmp_path / "dist"))
    page = tmp_path / "index/simple/demo/index.html"
    page.write_text(page.read_text().replace("fork.1", "fork.9"))
    with pytest.raises(VerificationError, match="was altered"):
        publish_set(tmp_path / "index", make_set(tmp_path / "dist2", local="fork.2", revision=2))


def test_a_folder_that_is_something_else_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "index" / "simple").mkdir(parents=True)
    (tmp_path / "index" / "simple" / "mine.txt").write_text("mine")
    with pytest.raises(ForkwheelError):
        publish_set(tmp_path / "index", make_set(tmp_path / "dist"))
    assert (tmp_path / "index" / "simple" / "mine.txt").read_text() == "mine"


def test_pages_are_readable_by_a_server_whatever_the_umask(tmp_path: Path) -> None:
    wheels = make_set(tmp_path / "dist")
    old = os.umask(0o077)
    try:
        publish_set(tmp_path / "index", wheels)
    finally:
        os.umask(old)
    for path in (tmp_path / "index").rglob("*"):
        if path.name not in (".lock",):
            assert path.stat().st_mode & 0o004, path


def test_a_project_that_did_not_change_keeps_its_pages_files(tmp_path: Path) -> None:
    publish_set(tmp_path / "index", make_set(tmp_path / "dist"))
    before = (tmp_path / "index/simple/base/index.html").stat().st_ino
    publish_set(tmp_path / "index", make_set(tmp_path / "dist2", local="fork.2", names=("demo",), revision=2))
    assert (tmp_path / "index/simple/base/index.html").stat().st_ino == before


def measure_ten_thousand(root: Path) -> float:  # run by hand: prints the seconds of a publish into a large index
    root.mkdir()
    entry = IndexedFile("big-1.0-py3-none-any.whl", "0" * 64, 1, ">=3.8", "1" * 64)
    files = tuple(
        IndexedFile(f"big-1.{number}-py3-none-any.whl", *list(vars(entry).values())[1:]) for number in range(10_000)
    )
    with held(root):
        switch(root, write_pages(root, Pages({"big": files}, ()), changed=frozenset({"big"})))
    wheels = make_set(root.parent / "d", names=("base",))
    started = time.monotonic()
    publish_set(root, wheels)
    return time.monotonic() - started


def test_a_killed_publish_leaves_the_index_as_it_was_or_whole(tmp_path: Path) -> None:
    """Kill a real run at many moments; clients see the old pages or the new ones, and the next run finishes."""
    make_lock(tmp_path / "lock1", make_set(tmp_path / "dist1"))
    second = make_set(tmp_path / "dist2", local="fork.2", revision=2)
    make_lock(tmp_path / "lock2", second)
    publish_set(tmp_path / "index", load_set(tmp_path / "dist1" / "fork.manifest.json"))
    old = pages_of(tmp_path / "index")
    shutil.copytree(tmp_path / "index", tmp_path / "whole", symlinks=True)
    publish_set(tmp_path / "whole", second)
    new = pages_of(tmp_path / "whole")
    for number, delay in enumerate((0.0, 0.002, 0.005, 0.01, 0.02, 0.04)):
        root = tmp_path / f"index{number}"
        shutil.copytree(tmp_path / "index", root, symlinks=True)
        kill_publishing(tmp_path, root, delay=delay)
        assert pages_of(root) in (old, new)
        publish_set(root, second)
        verify_index(root)
        assert pages_of(root) == new
        assert not (root / ".incoming").exists()


def kill_publishing(folder: Path, root: Path, *, delay: float) -> None:
    events = folder / f"{root.name}.events"
    arguments = ["--from", str(folder / "dist2"), "--lock", str(folder / "lock2"), "--to", str(root)]
    process = subprocess.Popen(
        [sys.executable, "-m", "forkwheel", "publish", *arguments],
        env={**os.environ, "FORKWHEEL_EVENTS": str(events)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None and not (events.exists() and '"publish"' in events.read_text()):
        time.sleep(0.001)
    time.sleep(delay)
    process.kill()
    process.wait()


def test_a_full_disk_is_one_error_and_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_set(tmp_path / "index", make_set(tmp_path / "dist1"))
    before = snapshot(tmp_path / "index")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(publish.shutil, "copyfile", full)
    with pytest.raises(PublishError, match="No space left"):
        publish_set(tmp_path / "index", make_set(tmp_path / "dist2", local="fork.2", revision=2))
    assert snapshot(tmp_path / "index") == before


def test_a_file_in_the_place_of_the_index_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "index").write_text("")
    with pytest.raises(PublishError, match="cannot be written"):
        publish_set(tmp_path / "index", make_set(tmp_path / "dist"))
