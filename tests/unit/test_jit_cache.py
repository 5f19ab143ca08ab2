from __future__ import annotations

import ctypes
import fcntl
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from forkwheel.console import Console
from forkwheel.cuda import jit_cache, jit_cache_files, jit_cache_locks
from forkwheel.cuda.jit_cache import CacheFolder, clear, clear_after_build, find_cache, fork_versions, version_folders
from forkwheel.errors import UsageError
from forkwheel.recipe import JitCache, Recipe, load_recipe

FORK = "0.6.3+sm120.1"
CACHE = JitCache(
    variable="JIT_BASE",
    path=".cache/jit",
    clear=("*/ops/*", "*/generated/*"),
    locks=("*/ops/tmp/{name}.lock", "*/ops/tmp/all.lock"),
    distributions=(),
    prebuilt=(),
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def recipe() -> Recipe:
    return load_recipe(Path(__file__).resolve().parents[2] / "recipes" / "sm120" / "recipe.toml")


def write(file: Path, text: str = "x") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def fill(home: Path, version: str = FORK, *, architecture: str = "120a", op: str = "comm") -> Path:
    """Lay out what a JIT leaves after it compiled one op; return the version's folder."""
    folder = home / ".cache" / "jit" / version
    for name in (f"ops/{op}/build.ninja", f"ops/{op}/{op}.so", f"generated/{op}/{op}.cu", "ops/tmp/all.ninja"):
        write(folder / architecture / name, "0123456789")
    write(folder / architecture / "ops" / "tmp" / f"{op}.lock", "")
    write(folder / architecture / "jit.log", "log")
    return folder


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())


def find(home: Path, *, versions: tuple[str, ...] | None = (FORK,), **environment: str) -> tuple[CacheFolder, ...]:
    return find_cache(CACHE, environment=environment, home=home, versions=versions)


@contextmanager
def holding(lock: Path) -> Iterator[None]:
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class _Capabilities(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


@contextmanager
def heeding_permissions() -> Iterator[None]:
    """Act as a user whose permissions count, also where the tests run as root.

    Root gives up for a while what lets it pass over permissions; as the owner of the files it
    keeps its way into folders that are for nobody else.
    """
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, this thread
    held = (_Capabilities * 2)()
    assert libc.capget(header, held) == 0
    effective = held[0].effective
    held[0].effective &= ~(1 << 1 | 1 << 2)  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
    assert libc.capset(header, held) == 0
    try:
        yield
    finally:
        held[0].effective = effective
        assert libc.capset(header, held) == 0


def test_finds_the_files_and_the_size_of_a_version(home: Path) -> None:
    folder = fill(home)

    found = find(home)

    assert found == (CacheFolder(folder, FORK, files=4, size=40),)
    assert not found[0].in_use


def test_finding_writes_nothing(home: Path) -> None:
    before = files(fill(home))

    find(home)

    assert files(home / ".cache" / "jit" / FORK) == before


def test_clears_what_the_patterns_name_and_nothing_else(home: Path) -> None:
    folder = fill(home)
    cubin = write(home / ".cache" / "jit" / "cubins" / "x.cubin")
    other = fill(home, "0.6.3")
    beside = write(home / "precious" / "thesis.txt")

    cleared = clear(find(home), cache=CACHE)

    assert [(item.version, item.files, item.size) for item in cleared.removed] == [(FORK, 4, 40)]
    assert files(folder) == ["120a/jit.log", "120a/ops/tmp/all.lock", "120a/ops/tmp/comm.lock"]
    assert cubin.exists()
    assert beside.exists()
    assert len(files(other)) == 6
    assert find(home) == ()


def test_clears_every_architecture(home: Path) -> None:
    fill(home, architecture="120a")
    fill(home, architecture="90a_120a", op="norm")

    cleared = clear(find(home), cache=CACHE)

    assert cleared.removed[0].files == 8
    assert find(home) == ()


def test_all_versions_are_found_but_no_other_folder(home: Path) -> None:
    for version in ("0.6.3", FORK, "0.7.0rc1"):
        fill(home, version)
    fill(home, "cubins")
    write(home / ".cache" / "jit" / "0.9.9")

    assert [folder.version for folder in find(home, versions=None)] == ["0.6.3", FORK, "0.7.0rc1"]


def test_picks_the_versions_of_the_fork(recipe: Recipe) -> None:
    package = recipe.package("flashinfer-python")
    own = ("0.6.3+sm120.1", "0.6.3+sm120.12", "0.6.3+sm120.dev.k1a2b3c4", "0.6.3+sm120.1.cu130")
    others = (
        "0.6.3",
        "0.6.30+sm120.1",
        "0.6.3+sm1200.1",
        "0.6.3.post1+sm120.1",
        "0.6.3+cu130",
        "cubins",
        "1!0.6.3+sm120.1",
    )

    assert fork_versions(package, recipe=recipe, found=(*own, *others)) == own


def test_the_variable_outranks_home(home: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    fill(home)
    folder = fill(base)

    assert [item.path for item in find(home, JIT_BASE=str(base))] == [folder]


@pytest.mark.parametrize("base", ["", ".", "relative/folder", "~/folder"])
def test_a_base_that_depends_on_the_working_folder_is_refused(
    base: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    monkeypatch.chdir(tmp_path)

    with pytest.raises(UsageError, match="no absolute path"):
        find(home, JIT_BASE=base)


@pytest.mark.parametrize("base", ["/", "//", "/tmp/..", "/proc/self/root"])
def test_the_root_of_the_file_system_is_refused(base: str, home: Path) -> None:
    with pytest.raises(UsageError, match="the root of the file system"):
        find(home, JIT_BASE=base)


def test_a_home_at_the_root_of_the_file_system_is_refused() -> None:
    with pytest.raises(UsageError, match="HOME is /, the root"):
        find(Path("/"))


@pytest.mark.parametrize("target", ["..", "../..", "/"])
def test_a_cache_that_is_home_or_above_it_is_refused(target: str, home: Path) -> None:
    (home / ".cache").mkdir()
    (home / ".cache" / "jit").symlink_to(target)

    with pytest.raises(UsageError, match="holds more than a JIT cache"):
        find(home)


def test_a_cache_that_is_home_is_refused_under_another_base(home: Path, tmp_path: Path) -> None:
    (tmp_path / "base" / ".cache").mkdir(parents=True)
    (tmp_path / "base" / ".cache" / "jit").symlink_to(home)

    with pytest.raises(UsageError, match="holds more than a JIT cache"):
        find(home, JIT_BASE=str(tmp_path / "base"))


def test_a_base_that_is_a_file_is_refused(home: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a file"):
        find(home, JIT_BASE=str(write(tmp_path / "base")))


def test_a_cache_that_is_a_file_is_refused(home: Path) -> None:
    write(home / ".cache" / "jit")

    with pytest.raises(UsageError, match="is a file"):
        find(home)


def test_a_missing_base_or_a_loop_of_links_holds_nothing(home: Path, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")

    assert find(home) == ()
    assert find(home, JIT_BASE=str(tmp_path / "missing")) == ()
    assert find(home, JIT_BASE=str(tmp_path / "loop")) == ()


def test_a_cache_on_another_disk_by_a_link_is_cleared(home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "scratch"
    fill(elsewhere)
    (home / ".cache").symlink_to(elsewhere / ".cache")

    clear(find(home), cache=CACHE)

    assert find(home) == ()


@pytest.mark.parametrize(
    "link", [FORK, f"{FORK}/120a", f"{FORK}/120a/ops", f"{FORK}/120a/generated", f"{FORK}/120a/ops/tmp"]
)
@pytest.mark.parametrize("inside", [False, True])
def test_a_link_on_the_way_is_refused_with_its_path(link: str, inside: bool, home: Path, tmp_path: Path) -> None:
    fill(home)
    path = home / ".cache" / "jit" / link
    target = (home / ".cache" / "jit" if inside else tmp_path) / "target"
    path.rename(target)
    path.symlink_to(target)
    before = files(tmp_path)

    with pytest.raises(UsageError) as refused:
        clear(find(home), cache=CACHE)

    assert f"{path} is a symbolic link" in refused.value.message
    assert files(tmp_path) == before


def test_a_link_put_there_after_the_search_is_not_followed(home: Path, tmp_path: Path) -> None:
    fill(home)
    found = find(home)
    operations = home / ".cache" / "jit" / FORK / "120a" / "ops"
    operations.rename(tmp_path / "target")
    operations.symlink_to(tmp_path / "target")
    before = files(tmp_path)

    cleared = clear(found, cache=CACHE)

    assert [str(operations) in error.message for error in cleared.failed] == [True]
    assert files(tmp_path) == before


def test_links_among_the_pieces_are_removed_and_their_targets_stay(home: Path, tmp_path: Path) -> None:
    operations = fill(home) / "120a" / "ops"
    precious = write(tmp_path / "precious" / "thesis.txt")
    (operations / "linked").symlink_to(precious.parent)
    (operations / "comm" / "folder").symlink_to(precious.parent)
    (operations / "comm" / "file").symlink_to(precious)
    (operations / "comm" / "dangling").symlink_to("nowhere")

    clear(find(home), cache=CACHE)

    assert find(home) == ()
    assert precious.exists()


@pytest.mark.parametrize("name", ["comm", "another_op", "all"])
def test_a_version_in_use_is_not_touched(name: str, home: Path) -> None:
    folder = fill(home)
    free = fill(home, "0.6.3")
    lock = folder / "120a" / "ops" / "tmp" / f"{name}.lock"

    with holding(lock):
        before = files(folder)
        found = find(home, versions=None)
        cleared = clear(found, cache=CACHE)
        assert files(folder) == before

    assert [item.held for item in found] == [None, lock]
    assert [item.path for item in cleared.in_use] == [folder]
    assert cleared.in_use[0].held == lock
    assert [item.path for item in cleared.removed] == [free]
    assert clear(find(home), cache=CACHE).in_use == ()


def test_a_lock_taken_after_the_search_keeps_the_version(home: Path) -> None:
    folder = fill(home)
    found = find(home)

    with holding(folder / "120a" / "ops" / "tmp" / "comm.lock"):
        before = files(folder)
        cleared = clear(found, cache=CACHE)

    assert cleared.removed == ()
    assert len(cleared.in_use) == 1
    assert [name for name in before if not (folder / name).exists()] == []


@pytest.mark.parametrize("lock", ["comm", "all"])
def test_the_locks_are_held_while_pieces_are_taken_away(lock: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fill(home)
    file = folder / "120a" / "ops" / "tmp" / f"{lock}.lock"
    file.unlink(missing_ok=True)
    seen = []
    rename = os.rename

    def watched(*arguments: object, **named: object) -> None:
        with file.open() as opened:
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                seen.append("held")
            else:
                seen.append("free")
        rename(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rename", watched)
    clear(find(home), cache=CACHE)

    assert set(seen) == {"held"}
    with holding(file):
        pass


def test_a_lock_file_that_its_holder_removes_is_taken_anew(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fill(home)
    lock = folder / "120a" / "ops" / "tmp" / "comm.lock"
    flock = fcntl.flock
    removed: list[Path] = []

    def releasing(descriptor: int, operation: int) -> None:
        if not removed and os.readlink(f"/proc/self/fd/{descriptor}") == str(lock):
            removed.append(lock)
            lock.unlink()
        flock(descriptor, operation)

    found = find(home)
    monkeypatch.setattr(fcntl, "flock", releasing)
    clear(found, cache=CACHE)

    assert removed == [lock]
    assert lock.exists()
    assert find(home) == ()


def test_a_kill_between_any_two_steps_leaves_whole_pieces(home: Path) -> None:
    whole = {"ops/comm": ["build.ninja", "comm.so"], "generated/comm": ["comm.cu"]}
    script = (
        "import os, sys; from pathlib import Path\n"
        "from forkwheel.cuda.jit_cache import *; from forkwheel.recipe import *\n"
        "steps = int(sys.argv[2])\n"
        "def step(event, arguments):\n"
        "    global steps\n"
        "    if event in ('os.rename', 'os.remove', 'os.rmdir'):\n"
        "        steps -= 1\n"
        "        if steps < 0: os._exit(137)\n"
        f"cache = {CACHE!r}\n"
        f"found = find_cache(cache, environment={{}}, home=Path(sys.argv[1]), versions=({FORK!r},))\n"
        "sys.addaudithook(step)\n"
        "clear(found, cache=cache)\n"
    )
    for steps in range(100):
        folder = fill(home) / "120a"
        code = subprocess.run([sys.executable, "-c", script, str(home), str(steps)], timeout=60).returncode
        for piece, names in whole.items():
            assert not (folder / piece).exists() or files(folder / piece) == names
        clear(find(home), cache=CACHE)
        assert files(folder) == ["jit.log", "ops/tmp/all.lock", "ops/tmp/comm.lock"]
        if code == 0:
            break
        assert code == 137
    assert steps > 6


def test_trash_of_a_killed_run_is_found_and_removed(home: Path) -> None:
    operations = fill(home) / "120a" / "ops"
    (operations / "comm").rename(operations / f"{jit_cache_files.TRASH}0123")
    write(operations / "tmp" / f"{jit_cache_files.TRASH}4567")

    clear(find(home), cache=CACHE)

    assert files(operations) == ["tmp/all.lock", "tmp/comm.lock"]
    assert sorted(path.name for path in operations.iterdir()) == ["tmp"]


def test_more_locks_than_open_files_allowed(home: Path) -> None:
    import resource

    for number in range(40):
        fill(home, op=f"op{number}")
    found = find(home)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 20, hard))
    try:
        cleared = clear(found, cache=CACHE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert cleared.failed == ()
    assert cleared.removed[0].files == 121


@pytest.mark.parametrize("part", ["120a/ops", "120a/generated", "120a/ops/comm"])
def test_a_folder_that_may_not_be_changed_is_one_error_and_the_others_are_cleared(part: str, home: Path) -> None:
    locked = fill(home) / part
    fill(home, "0.6.3")

    with heeding_permissions():
        locked.chmod(0o500)
        cleared = clear(find(home, versions=None), cache=CACHE)
        locked.exists() and locked.chmod(0o700)

    assert len(cleared.failed) == 1
    assert "Permission denied" in cleared.failed[0].message
    assert str(home / ".cache" / "jit" / FORK) in cleared.failed[0].message
    assert [item.version for item in cleared.removed] == ["0.6.3"]


def test_a_folder_that_may_not_be_read_is_one_error(home: Path) -> None:
    folder = fill(home)

    with heeding_permissions():
        folder.chmod(0)
        with pytest.raises(UsageError, match=r"\+sm120\.1: Permission denied"):
            find(home)
        folder.chmod(0o700)


def test_a_lock_that_is_no_file_is_refused(home: Path, tmp_path: Path) -> None:
    lock = fill(home) / "120a" / "ops" / "tmp" / "comm.lock"
    lock.unlink()
    lock.symlink_to(tmp_path / "target")

    with pytest.raises(UsageError, match=r"comm\.lock"):
        find(home)
    assert not (tmp_path / "target").exists()


def test_two_runs_at_once_both_succeed(home: Path) -> None:
    for number in range(20):
        fill(home, op=f"op{number}")
    script = (
        "import sys; from pathlib import Path; from forkwheel.cuda.jit_cache import *; from forkwheel.recipe import *\n"
        f"cache = {CACHE!r}\n"
        "for _ in range(30):\n"
        f"    found = find_cache(cache, environment={{}}, home=Path(sys.argv[1]), versions=({FORK!r},))\n"
        "    assert not clear(found, cache=cache).failed\n"
    )

    runs = [subprocess.Popen([sys.executable, "-c", script, str(home)]) for _ in range(3)]

    assert [run.wait(timeout=60) for run in runs] == [0, 0, 0]
    assert find(home) == ()


def test_after_a_build_the_version_is_cleared_and_said(home: Path, recipe: Recipe) -> None:
    package = replace(recipe.package("flashinfer-python"), jit_cache=CACHE)
    folder = fill(home)
    fill(home, "0.6.3")
    output = io.StringIO()

    cleared = clear_after_build(
        package, recipe=recipe, version=FORK, environment={}, home=home, log=Console(stream=output).bind(package.name)
    )

    assert [item.version for item in cleared.removed] == [FORK]
    assert f"JIT cache cleared: {folder}: 4 files, 40 B" in output.getvalue()
    assert [item.version for item in find(home, versions=None)] == ["0.6.3"]


@pytest.mark.parametrize("environment", [{"JIT_BASE": ""}, {"JIT_BASE": "/"}])
def test_a_refusal_after_a_build_is_a_warning(environment: dict[str, str], home: Path, recipe: Recipe) -> None:
    package = replace(recipe.package("flashinfer-python"), jit_cache=CACHE)
    output = io.StringIO()

    cleared = clear_after_build(
        package, recipe=recipe, version=FORK, environment=environment, home=home, log=Console(stream=output).bind("p")
    )

    assert len(cleared.failed) == 1
    assert output.getvalue().startswith("[p] warning: the JIT cache was not cleared: JIT_BASE is")


def test_a_cache_in_use_after_a_build_is_a_warning(home: Path, recipe: Recipe) -> None:
    package = replace(recipe.package("flashinfer-python"), jit_cache=CACHE)
    folder = fill(home)
    output = io.StringIO()

    with holding(folder / "120a" / "ops" / "tmp" / "comm.lock"):
        clear_after_build(
            package, recipe=recipe, version=FORK, environment={}, home=home, log=Console(stream=output).bind("p")
        )

    assert "warning: the JIT cache is in use" in output.getvalue()
    assert len(find(home)) == 1


def test_a_package_without_a_jit_cache_has_nothing_to_clear(home: Path, recipe: Recipe) -> None:
    cleared = clear_after_build(
        recipe.package("sglang"),
        recipe=recipe,
        version="0.5.9+sm120.1",
        environment={},
        home=home,
        log=Console(stream=io.StringIO()).bind("p"),
    )

    assert cleared == jit_cache.Cleared()


def test_a_pattern_for_a_whole_folder_clears_it_around_its_locks(home: Path) -> None:
    cache = replace(CACHE, clear=("*/ops", "*/generated"))
    folder = fill(home)

    clear(find_cache(cache, environment={}, home=home, versions=None), cache=cache)

    assert files(folder) == ["120a/jit.log", "120a/ops/tmp/all.lock", "120a/ops/tmp/comm.lock"]
    assert not (folder / "120a" / "generated").exists()


def test_no_lock_files_are_made_for_what_no_lock_guards(home: Path) -> None:
    folder = fill(home)
    write(folder / "120a" / "generated" / "loose.cu")
    write(folder / "120a" / "ops" / ".ninja_log")
    write(folder / "120a" / "generated" / "shared" / "x.cu")

    clear(find(home), cache=CACHE)

    assert files(folder) == ["120a/jit.log", "120a/ops/tmp/all.lock", "120a/ops/tmp/comm.lock"]


def test_the_versions_listed_are_folders_named_as_versions(home: Path) -> None:
    fill(home)
    fill(home, "cubins")

    assert version_folders(CACHE, environment={}, home=home) == (FORK,)
    assert jit_cache_locks.held_lock(home / ".cache" / "jit" / FORK, jit_cache_files.Layout((), ())) is None
