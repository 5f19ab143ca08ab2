"""The cache's listing, and what pruning removes and leaves."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forkwheel.cache import disk_size, list_cache, prune
from forkwheel.cli import run
from forkwheel.console import Console
from forkwheel.cuda.compile_cache import open_compile_cache
from forkwheel.cuda.host_compiler import HostCompiler
from forkwheel.cuda.toolchain import Toolchain
from forkwheel.errors import UsageError
from forkwheel.release.inputs import Inputs, PackageInputs
from forkwheel.store import Store

DAY = 86400


def fill(store: Store, *parts: str, days: float, size: int = 10_000) -> Path:
    """Make an entry that was made so many days ago."""
    path = store.path(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    entry = store.root / parts[0] / parts[1]
    moment = time.time() - days * DAY
    os.utime(path, (moment, moment))
    os.utime(entry, (moment, moment))
    return entry


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


def test_entries_have_kind_size_and_age(store: Store) -> None:
    fill(store, "archives", "a" * 64, "demo-1.0.tar.gz", days=3)
    fill(store, "envs", "e" * 64, "python", days=1)
    fill(store, "toolkits", "t" * 64, "nvcc", days=2, size=100_000)
    fill(store, "ccache", "x", days=0)
    entries = {entry.kind: entry for entry in list_cache(store)}
    assert set(entries) == {"source", "environment", "toolchain", "compile cache"}
    assert entries["source"].name == "demo-1.0.tar.gz (aaaaaaaa)"
    assert entries["source"].age(time.time()) == pytest.approx(3, abs=0.01)
    assert entries["toolchain"].size >= 100_000


RECORDS: dict[str, tuple[tuple[str, ...], object, str]] = {
    "wheel": (
        ("wheels", "1" * 64, "1.0", "build.json"),
        {"filename": "demo-1.0-py3-none-any.whl"},
        "demo-1.0-py3-none-any.whl (11111111)",
    ),
    "tree": (
        ("trees", "2" * 64, "tree.json"),
        {"observed": [["kind", "git"], ["from", "https://example.com/x/demo.git"]]},
        "git demo.git (22222222)",
    ),
    "kernels": (("kernels", "3" * 64, "build.json"), {"modules": [{"name": "comm"}]}, "comm (33333333)"),
    "audit": (("audits", f"{'4' * 64}.json"), {"trees": ["a", "b"], "target": "12.0"}, "a, b for 12.0 (44444444)"),
    "part of one": (("audits", f"{'4' * 64}.json"), {"gates": [{"tree": "b"}, {"tree": "a"}]}, "a, b (44444444)"),
    "passed": (("audits", f"{'5' * 64}.json"), {"passed": True}, "passed (55555555)"),
    "census": (
        ("census", f"{'6' * 64}.json"),
        {"objects": [{"name": "comm.so#1"}, {"name": "comm.so#2"}]},
        "comm.so (66666666)",
    ),
    "environment": (
        ("envs", "7" * 64, "try-x", "lib", "python3.12", "site-packages", "wheel-0.45.dist-info", "METADATA"),
        None,
        "wheel 0.45 (77777777)",
    ),
    "of another form": (("kernels", "8" * 64, "build.json"), {"modules": [1]}, "88888888"),
    "damaged": (("trees", "9" * 64, "tree.json"), None, "99999999"),
    "toolkit": (("toolkits", f"{'a' * 64}-x86_64-1", "bin"), None, "aaaaaaaa-x86_64-1"),
    "log": (("logs", "flashdemo_python-0.6.3+fork.1.log"), None, "flashdemo_python-0.6.3+fork.1.log"),
}


@pytest.mark.parametrize("what", RECORDS)
def test_an_entry_is_named_by_what_its_record_tells(store: Store, what: str) -> None:
    parts, document, name = RECORDS[what]
    fill(store, *parts, days=1)
    if document is not None:
        store.path(*parts).write_text(json.dumps(document))
    assert [entry.name for entry in list_cache(store)] == [name]


def test_what_was_read_of_an_archive_has_its_name(store: Store) -> None:
    fill(store, "archives", "b" * 64, "demo-1.0.tar.gz", days=1)
    fill(store, "upstream", f"{'b' * 64}.json", days=1)
    assert {entry.name for entry in list_cache(store)} == {"demo-1.0.tar.gz (bbbbbbbb)"}


def test_a_file_with_two_names_counts_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 50_000)
    alone = disk_size(tmp_path)
    os.link(tmp_path / "a", tmp_path / "b")
    assert disk_size(tmp_path) == alone


def test_prune_removes_what_is_old_and_leaves_the_rest(store: Store) -> None:
    old = fill(store, "wheels", "1" * 64, "w", days=31)
    new = fill(store, "wheels", "2" * 64, "w", days=29)
    removed = prune(store, days=30)
    assert [entry.path for entry in removed] == [old]
    assert not old.exists()
    assert new.exists()
    assert list((store.root / "tmp").iterdir()) == []


def test_an_entry_that_was_used_lately_stays_however_old_it_is(store: Store) -> None:
    locked = fill(store, "envs", "3" * 64, "python", days=100)
    touched = fill(store, "trees", "4" * 64, "tree.json", days=100)
    with store.lock(f"env-{'3' * 64}"):
        pass
    store.used(touched)
    assert prune(store, days=30) == ()
    assert locked.exists()
    assert touched.exists()


def test_objects_of_an_abandoned_build_are_removed_and_those_of_one_that_goes_on_are_not(store: Store) -> None:
    """A build holds the lock of its kernels, whose time tells when it was begun last."""
    abandoned = fill(store, "objects", "8" * 64, "unit.o", days=31)
    resumed = fill(store, "objects", "9" * 64, "unit.o", days=31)
    with store.lock(f"kernels-{'9' * 64}"):
        pass
    (removed,) = prune(store, days=30)
    assert (removed.kind, removed.path) == ("unfinished kernels", abandoned)
    assert removed.size >= 10_000
    assert resumed.exists()


def test_a_compile_cache_that_is_used_stays(store: Store) -> None:
    """Using it changes files deep inside alone."""
    cache = fill(store, "ccache", "0", "object", days=100).parent
    os.utime(cache, (0, 0))
    toolchain = Toolchain("locked", Path("/cuda"), "13.0.88", "0" * 64, HostCompiler("c++", "gcc 12", "ld 2", False))
    lock = Inputs(Path("lock"), (PackageInputs("compile-cache", (), (), ()),))
    log = Console(stream=io.StringIO()).bind("demo")
    open_compile_cache(toolchain, lock=lock, store=store, log=log, environment={})
    assert cache not in {entry.path for entry in prune(store, days=30)}


def test_a_git_repository_is_as_old_as_its_lock(store: Store) -> None:
    commit = "5" * 40
    fill(store, "git", f"{commit}.git", "HEAD", days=100)
    with store.lock(f"git-{commit}"):
        pass
    assert prune(store, days=30) == ()


def test_read_only_entries_are_removed_too(store: Store) -> None:
    entry = fill(store, "trees", "6" * 64, "tree.json", days=100)
    entry.chmod(0o500)
    assert len(prune(store, days=30)) == 1
    assert not entry.exists()


def test_nothing_is_pruned_while_another_run_uses_the_cache(store: Store) -> None:
    entry = fill(store, "wheels", "7" * 64, "w", days=100)
    script = "import sys; from pathlib import Path; from forkwheel.store import Store; s = Store(Path(sys.argv[1]));"
    script += "print('open', flush=True); sys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(store.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "open\n"
    with pytest.raises(UsageError, match="in use by another run"):
        prune(store, days=0)
    assert entry.exists()
    other.communicate("")
    assert len(prune(store, days=0)) == 1


def test_a_run_that_starts_while_the_cache_is_pruned_waits(store: Store) -> None:
    script = "import sys; from pathlib import Path; from forkwheel.store import Store; Store(Path(sys.argv[1]))"
    with store.alone():
        other = subprocess.Popen([sys.executable, "-c", script, str(store.root)])
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(timeout=1.5)
    assert other.wait(timeout=30) == 0


def test_the_command_lists_and_prunes(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORKWHEEL_CACHE", str(store.root))
    fill(store, "archives", "a" * 64, "demo-1.0.tar.gz", days=3)
    root = store.root
    del store
    assert run(["cache", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["entries"]
    assert (entry["kind"], entry["name"]) == ("source", "demo-1.0.tar.gz (aaaaaaaa)")
    assert root.exists()


@pytest.mark.parametrize("days", ["-1", "nan"])
def test_a_bad_number_of_days_is_a_usage_error(days: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORKWHEEL_CACHE", str(tmp_path / "cache"))
    assert run(["cache", f"--prune={days}"]) == 2


def test_nothing_to_free_is_said_without_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORKWHEEL_CACHE", str(tmp_path / "cache"))
    fill(Store(tmp_path / "cache"), "archives", "a" * 64, "demo-1.0.tar.gz", days=0)
    assert run(["cache", "--prune", "30"]) == 0
    assert capsys.readouterr().out == "nothing to free: there is nothing that was unused for 30 days\n"
