"""The cache: whole or nothing, and safe for several runs at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from forkwheel.errors import UsageError
from forkwheel.store import Store, write_whole


def test_work_in_progress_is_gone_afterwards_also_after_an_error(tmp_path: Path) -> None:
    store = Store(tmp_path / "cache")
    with pytest.raises(ZeroDivisionError), store.temporary() as work:
        (work / "file").write_text("x")
        raise ZeroDivisionError
    assert list((store.root / "tmp").iterdir()) == []


def test_what_a_killed_run_left_is_removed_by_the_next_and_running_work_is_kept(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from forkwheel.store import Store\n"
        "with Store(Path(sys.argv[1])).temporary() as work:\n"
        "    (work / 'half').write_text('x'); print('ready', flush=True); time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "cache")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    store = Store(tmp_path / "cache")
    assert len(list((store.root / "tmp").glob("*/half"))) == 1
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (store.root / "tmp" / "killed-between-folder-and-lock.held").touch()
    (store.root / "tmp" / "killed-before-lock").mkdir()
    Store(tmp_path / "cache")
    assert list((store.root / "tmp").iterdir()) == []


def test_a_lock_is_held_by_one_at_a_time_and_says_that_it_waits(tmp_path: Path) -> None:
    store = Store(tmp_path / "cache")
    waited, order = threading.Event(), []

    def second() -> None:
        with store.lock("x", waiting=waited.set):
            order.append("second")

    with store.lock("x"):
        thread = threading.Thread(target=second)
        thread.start()
        assert waited.wait(10)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_publishing_keeps_what_is_there(tmp_path: Path) -> None:
    store = Store(tmp_path / "cache")
    for text in ("one", "two"):
        with store.temporary() as work:
            (work / "made").mkdir()
            (work / "made" / "f").write_text(text)
            target = store.publish(work / "made", store.path("trees", "x"))
    assert (target / "f").read_text() == "one"


def test_an_older_cache_is_emptied_and_a_newer_one_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.path("trees", "x").mkdir()
    (tmp_path / "format").write_text("0\n")
    Store(tmp_path)
    assert not (tmp_path / "trees").exists()
    (tmp_path / "format").write_text("999\n")
    with pytest.raises(UsageError, match="format 999, newer than"):
        Store(tmp_path)


@pytest.mark.parametrize("text", [b"", b"png", b"0", b"\xff\xfe", "²".encode(), b"1" * 20])
def test_a_folder_that_only_looks_like_a_cache_is_not_emptied(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "format").write_bytes(text)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis").write_text("text")
    with pytest.raises(UsageError):
        Store(tmp_path)
    assert (tmp_path / "precious" / "thesis").read_text() == "text"


def test_a_cache_whose_format_was_lost_is_made_anew(tmp_path: Path) -> None:
    Store(tmp_path).path("trees", "x").mkdir()
    (tmp_path / "format").unlink()
    Store(tmp_path)
    assert (tmp_path / "format").read_text() == "1\n"
    assert not (tmp_path / "trees").exists()


def test_a_discarded_entry_is_gone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.path("trees", "x").mkdir()
    (store.path("trees", "x") / "file").write_text("damaged")
    store.discard(store.path("trees", "x"))
    store.discard(store.path("trees", "x"))
    assert not store.path("trees", "x").exists()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_folder_with_other_things_in_it_is_not_taken_for_a_cache(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(UsageError, match=r"not a forkwheel cache: it holds thesis\.txt"):
        Store(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "precious"


def test_a_cache_that_cannot_be_made_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be used"):
        Store(tmp_path / "file" / "cache")


def test_the_cache_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORKWHEEL_CACHE", str(tmp_path / "here"))
    assert Store.default().root == tmp_path / "here"


def test_a_failed_write_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "f"
    file.write_text("old")

    def fail(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_whole(file, b"new")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]
