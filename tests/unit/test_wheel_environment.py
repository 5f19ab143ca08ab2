"""Build environments: locked, isolated from the person's settings, cached, and remade when half made."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from wheels_support import quiet_log, wheel_files, write_wheel

import forkwheel
from forkwheel.errors import BuildError, FetchError, PinMismatchError
from forkwheel.fetch.pip_settings import PipSettings
from forkwheel.release.inputs import LockedRequirement
from forkwheel.store import Store, remove_tree
from forkwheel.wheels import environment as module
from forkwheel.wheels import pip
from forkwheel.wheels.environment import build_environment, environment_digest
from forkwheel.wheels.pip import index_variables


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LockedRequirement:
    """A requirement that is served by a folder alone."""
    (tmp_path / "links").mkdir()
    wheel = write_wheel(tmp_path / "links", wheel_files())
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "links"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return LockedRequirement("demo", "1.0", None, ((wheel.name, hashlib.sha256(wheel.read_bytes()).hexdigest()),))


def version_in(python: Path) -> str:
    command = [str(python), "-c", "import demo; print(demo.__version__)"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_what_is_locked_is_installed_once(
    store: Store, locked: LockedRequirement, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = build_environment((locked,), store=store, log=quiet_log())
    monkeypatch.setattr(module, "_make", lambda *_, **__: pytest.fail("made twice"))

    again = build_environment((locked,), store=store, log=quiet_log(), offline=True)

    installed = {path.name for path in next(python.parents[1].glob("lib/python3*/site-packages")).iterdir()}
    assert version_in(python) == "1.0"
    assert installed == {"demo", "demo-1.0.dist-info"}
    assert again == python


def test_the_persons_pip_settings_do_not_matter(
    store: Store, locked: LockedRequirement, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "pip.conf"
    (tmp_path / "constraints.txt").write_text("demo==9\n")
    config.write_text(
        f"[global]\nconstraint = {tmp_path}/constraints.txt\nuser = true\nrequire-hashes = true\ndry-run = true\n"
        f"no-binary = :all:\n[install]\ntarget = {tmp_path}/target\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    monkeypatch.setenv("PIP_CONSTRAINT", str(tmp_path / "constraints.txt"))
    monkeypatch.setenv("PIP_REQUIRE_VIRTUALENV", "1")
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.setenv("PIP_PYTHON", "/nowhere/python")
    monkeypatch.setenv("_PIP_RUNNING_IN_SUBPROCESS", "1")  # with which pip ignores --python
    monkeypatch.setenv("PIP_PREFIX", str(tmp_path / "prefix"))

    python = build_environment((locked,), store=store, log=quiet_log())

    assert version_in(python) == "1.0"
    assert not (tmp_path / "target").exists()


def test_index_settings_reach_pip() -> None:
    settings = PipSettings(
        index_url="https://user:secret@host/simple",
        extra_index_urls=("https://a", "https://b"),
        trusted_hosts=("host",),
        cert="/ca.pem",
        timeout=7.5,
    )

    assert index_variables(settings) == {
        "PIP_INDEX_URL": "https://user:secret@host/simple",
        "PIP_EXTRA_INDEX_URL": "https://a https://b",
        "PIP_TRUSTED_HOST": "host",
        "PIP_CERT": "/ca.pem",
        "PIP_TIMEOUT": "7.5",
    }


def test_what_a_killed_run_left_is_made_anew(store: Store, locked: LockedRequirement) -> None:
    program = (
        "import os, sys; from pathlib import Path\n"
        "from wheels_support import quiet_log\n"
        "from forkwheel.release.inputs import LockedRequirement\n"
        "from forkwheel.store import Store\n"
        "from forkwheel.wheels import environment\n"
        "environment.write_whole = lambda *_: os.kill(os.getpid(), 9)\n"
        f"environment.build_environment(({locked!r},), store=Store(Path({str(store.root)!r})), log=quiet_log())\n"
    )
    scripts, tests = (Path(file).parents[1] for file in (forkwheel.__file__, __file__))
    variables = {**os.environ, "PYTHONPATH": f"{scripts}:{tests}"}
    killed = subprocess.run([sys.executable, "-c", program], env=variables, check=False)
    left = list(store.path("envs", environment_digest([locked])).iterdir())

    python = build_environment((locked,), store=store, log=quiet_log())

    assert (killed.returncode, "complete" in {path.name for path in left}) == (-9, False)
    assert version_in(python) == "1.0"
    assert python.parents[1] not in left  # in which an orphaned pip may still write


def test_an_environment_whose_python_is_gone_is_made_anew(store: Store) -> None:
    python = build_environment((), store=store, log=quiet_log())
    python.unlink()
    python.symlink_to("/nowhere/python")

    subprocess.run([str(build_environment((), store=store, log=quiet_log())), "-c", "pass"], check=True)


def slot(store: Store, *requirements: LockedRequirement) -> Path:
    return store.path("envs", environment_digest(requirements))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare pip: what an environment gets is a package of two files."""

    def install(environment: Path, *_: object, **__: object) -> None:
        (packages,) = environment.glob("lib/python3*/site-packages")
        (packages / "demo" / "__pycache__").mkdir(parents=True)
        (packages / "demo" / "__init__.py").write_text("__version__ = '1.0'\n")
        (packages / "demo" / "data.txt").write_text("data")
        (packages / "demo" / "__pycache__" / "__init__.pyc").write_text("compiled")

    monkeypatch.setattr(module, "_install", install)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("gone", ["lib", "lib/python3*/site-packages/demo", "lib/python3*/site-packages/demo/*.txt"])
def test_an_environment_of_which_something_is_gone_is_made_anew(store: Store, gone: str) -> None:
    environment = build_environment((), store=store, log=quiet_log()).parents[1]
    for path in list(environment.glob(gone)):
        remove_tree(path) if path.is_dir() else path.unlink()

    python = build_environment((), store=store, log=quiet_log())

    assert python.parents[1] != environment
    assert version_in(python) == "1.0"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", ["lib/python3*/site-packages/demo/data.txt", "pyvenv.cfg", "bin/activate"])
def test_an_environment_of_which_a_file_was_cut_short_is_made_anew(store: Store, name: str) -> None:
    environment = build_environment((), store=store, log=quiet_log()).parents[1]
    (file,) = environment.glob(name)
    file.write_bytes(file.read_bytes()[:-1])

    assert build_environment((), store=store, log=quiet_log()).parents[1] != environment


@pytest.mark.usefixtures("installed")
def test_compiled_modules_and_what_was_added_are_no_damage(store: Store) -> None:
    python = build_environment((), store=store, log=quiet_log())
    (packages,) = python.parents[1].glob("lib/python3*/site-packages")
    (packages / "added.txt").write_text("added")
    remove_tree(packages / "demo" / "__pycache__")

    assert build_environment((), store=store, log=quiet_log(), offline=True) == python


@pytest.mark.parametrize("content", [b"[]", b"{}", b"[" * 200_000, b"\xff", b'{"bin\\u0000": 1}', None])
def test_an_environment_without_a_sound_listing_is_made_anew(store: Store, content: bytes | None) -> None:
    environment = build_environment((), store=store, log=quiet_log()).parents[1]
    listing = environment.with_name(f"{environment.name}.files")
    listing.unlink() if content is None else listing.write_bytes(content)

    assert build_environment((), store=store, log=quiet_log()).parents[1] != environment


@pytest.mark.parametrize("named", ["absolute", "up", "", ".", "..", "nowhere", "try-\xff", "try-x\0", "link", "lines"])
def test_only_an_environment_in_its_place_is_used(store: Store, tmp_path: Path, named: str) -> None:
    environment = build_environment((), store=store, log=quiet_log()).parents[1]
    folder = slot(store)
    other = tmp_path / "other"
    shutil.copytree(environment, other, symlinks=True)
    shutil.copy(folder / f"{environment.name}.files", tmp_path / "other.files")
    shutil.copy(folder / f"{environment.name}.files", folder / "try-link.files")
    (folder / "try-link").symlink_to(other)
    texts = {
        "absolute": str(other),
        "up": "../../../other",
        "link": "try-link",
        "lines": f"{environment.name}\n{environment.name}",
    }
    (folder / "complete").write_text(texts.get(named, named), encoding="latin-1")

    python = build_environment((), store=store, log=quiet_log())

    assert python.parents[2] == folder
    assert python.parents[1] != environment
    subprocess.run([str(python), "-c", "pass"], check=True)
    assert other.is_dir()


def test_a_folder_in_the_place_of_the_mark_is_removed(store: Store) -> None:
    python = build_environment((), store=store, log=quiet_log())
    (slot(store) / "complete").unlink()
    (slot(store) / "complete").mkdir()

    assert build_environment((), store=store, log=quiet_log()) != python
    assert (slot(store) / "complete").is_file()


@pytest.mark.parametrize("kind", ["file", "pipe", "link", "broken link"])
def test_what_is_no_folder_in_an_environments_place_is_replaced(store: Store, tmp_path: Path, kind: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept.txt").write_text("kept")
    place = slot(store)
    if kind == "file":
        place.write_text("")
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(elsewhere if kind == "link" else tmp_path / "nowhere")

    python = build_environment((), store=store, log=quiet_log())

    assert python.parents[2] == place
    assert not place.is_symlink()
    assert (elsewhere / "kept.txt").exists()


def test_offline_an_environment_that_is_not_whole_is_refused(store: Store) -> None:
    python = build_environment((), store=store, log=quiet_log())
    remove_tree(python.parents[1] / "lib")

    with pytest.raises(FetchError, match="is not whole in the cache, and --offline forbids"):
        build_environment((), store=store, log=quiet_log(), offline=True)


def test_offline_an_uncached_environment_is_refused(store: Store, locked: LockedRequirement) -> None:
    with pytest.raises(
        FetchError, match="environment for demo is not whole in the cache, and --offline forbids"
    ) as caught:
        build_environment((locked,), store=store, log=quiet_log(), offline=True)

    assert caught.value.hint == "run once without --offline"


def test_a_file_that_is_not_the_locked_one_is_fatal(store: Store, locked: LockedRequirement) -> None:
    other = LockedRequirement(locked.name, locked.version, None, ((locked.files[0][0], "0" * 64),))

    with pytest.raises(PinMismatchError, match="not what the inputs' lock pins"):
        build_environment((other,), store=store, log=quiet_log())
    with pytest.raises(PinMismatchError):  # and what is left of the first try is no environment
        build_environment((other,), store=store, log=quiet_log())


def test_a_version_that_the_index_lacks_is_named(store: Store, locked: LockedRequirement) -> None:
    other = LockedRequirement("demo", "2.0", None, (("demo-2.0-py3-none-any.whl", "0" * 64),))

    with pytest.raises(FetchError, match=r"demo==2.0"):
        build_environment((other,), store=store, log=quiet_log())


def test_a_lock_without_a_file_for_this_platform_is_refused_before_anything_is_fetched(store: Store) -> None:
    foreign = LockedRequirement("demo", "1.0", None, (("demo-1.0-cp39-cp39-manylinux_2_17_s390x.whl", "0" * 64),))

    with pytest.raises(BuildError, match=r"demo 1.0 is locked without a wheel for Python"):
        build_environment((foreign,), store=store, log=quiet_log())


def test_a_requirement_for_other_pythons_is_left_out(store: Store) -> None:
    never = LockedRequirement("other", "1.0", 'python_version == "2.7"', (("other-1.0-py3-none-any.whl", "0" * 64),))

    python = build_environment((never,), store=store, log=quiet_log())

    assert python == build_environment((), store=store, log=quiet_log(), offline=True)


def test_a_missing_venv_module_is_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    result = subprocess.CompletedProcess([], 1, "", "No module named venv")
    monkeypatch.setattr(module.subprocess, "run", lambda *_, **__: result)

    with pytest.raises(BuildError, match="No module named venv") as caught:
        build_environment((), store=store, log=quiet_log())

    assert "python3-venv" in caught.value.hint


def test_a_full_disk_is_a_build_error(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "_make_venv", full)

    with pytest.raises(BuildError, match=r"disk full: .* No space left on device") as caught:
        build_environment((), store=store, log=quiet_log())
    assert caught.value.hint.startswith("make room on the disks of the cache")


def test_a_disk_that_is_full_for_venv_is_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    result = subprocess.CompletedProcess([], 1, "", "Error: [Errno 28] No space left on device: 'x'")
    monkeypatch.setattr(module.subprocess, "run", lambda *_, **__: result)

    with pytest.raises(BuildError, match="disk full: python -m venv failed") as caught:
        build_environment((), store=store, log=quiet_log())
    assert caught.value.hint.startswith("make room")


@pytest.mark.parametrize("reason", ["No space left on device", "Disk quota exceeded"])
def test_a_disk_that_is_full_for_pip_is_named_and_not_the_index(
    store: Store, locked: LockedRequirement, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    said = f"ERROR: Could not install packages due to an OSError: [Errno 28] {reason}\nNo matching distribution"
    failed = subprocess.CompletedProcess([], 1, "", said)
    monkeypatch.setattr(pip, "read_pip_settings", PipSettings)
    monkeypatch.setattr(module, "_make_venv", lambda _: None)
    monkeypatch.setattr(pip.CHILDREN, "run", lambda *_, **__: failed)

    with pytest.raises(BuildError, match=f"disk full: pip failed: .*{reason}") as caught:
        build_environment((locked,), store=store, log=quiet_log())
    assert "index" not in caught.value.hint
