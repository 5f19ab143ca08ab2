"""The JIT cache as the real FlashInfer 0.6.3 lays it out, locks it and trusts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from forkwheel.cuda.jit_cache import CacheFolder, clear, find_cache
from forkwheel.recipe import JitCache, Recipe

DRIVER = Path(__file__).with_name("jit_cache_driver.py")
NVCC = "#!/bin/sh\necho 'Cuda compilation tools, release 12.8, V12.8.0'\n"
# A compiler that notes that it runs, waits while the file `hold` is there, and writes its arguments.
COMPILER = """#!/bin/sh
: > "$FAKE/running"
while [ -e "$FAKE/hold" ]; do sleep 0.02; done
echo "$@" >> "$FAKE/calls"
while [ $# -gt 0 ]; do
  case $1 in -o) echo "$FAKE_STAMP" > "$2"; : > "$2.d";; esac
  shift
done
"""
# Releases up to 3.12 keep a lock file that is let go, later ones remove it.
FILELOCKS = ("3.12.4", "4.3.1")


@dataclass(frozen=True)
class Jit:
    """The real JIT with a compiler of the test's."""

    tree: Path
    packages: Path
    folder: Path

    def environment(self, **more: str) -> dict[str, str]:
        environment = {
            "PATH": f"{self.packages / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(self.packages),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(self.folder / "home"),
            "FLASHINFER_CUDA_ARCH_LIST": "12.0a",
            "CUDA_HOME": str(self.folder / "cuda"),
            "CXX": str(self.folder / "compiler"),
            "FAKE": str(self.folder),
        }
        return {**environment, **more}

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", str(DRIVER), str(self.tree), *arguments],
            env=self.environment(**environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **environment: str) -> str:
        process = self.start(*arguments, **environment)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        return output

    def paths(self, **environment: str) -> dict[str, str]:
        return dict(json.loads(self.run("paths", **environment)))

    def calls(self) -> int:
        file = self.folder / "calls"
        return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.fixture(scope="module", params=FILELOCKS)
def packages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install what the JIT's modules import."""
    folder = tmp_path_factory.mktemp("packages")
    names = [f"filelock=={request.param}", "packaging", "ninja==1.13.0"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--target", str(folder), *names], check=True)
    return folder


@pytest.fixture
def jit(stock_trees: dict[str, Path], packages: Path, tmp_path: Path) -> Jit:
    for name, text in {"cuda/bin/nvcc": NVCC, "compiler": COMPILER}.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    (tmp_path / "home").mkdir()
    return Jit(stock_trees["flashinfer-python"], packages, tmp_path)


@pytest.fixture
def cache(recipe: Recipe) -> JitCache:
    cache = recipe.package("flashinfer-python").jit_cache
    assert cache is not None
    return cache


def find(jit: Jit, cache: JitCache, **environment: str) -> tuple[CacheFolder, ...]:
    return find_cache(cache, environment=environment, home=jit.folder / "home", versions=("0.6.3",))


def wait(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("nothing happened for 30 s")


@pytest.mark.parametrize("architectures", ["12.0a", "9.0a 12.0a", "12.0a 8.9", "12.1a 12.0f"])
@pytest.mark.parametrize("base", [None, "base", "home", "home/../base"])
def test_the_folder_found_is_the_one_that_flashinfer_uses(
    base: str | None, architectures: str, jit: Jit, cache: JitCache
) -> None:
    environment = {} if base is None else {"FLASHINFER_WORKSPACE_BASE": f"{jit.folder}/{base}"}
    (jit.folder / "base").mkdir()
    paths = jit.paths(FLASHINFER_CUDA_ARCH_LIST=architectures, **environment)
    for folder in ("cached_ops", "generated", "cubins"):
        (Path(paths[folder]) / "op").mkdir(parents=True)
        (Path(paths[folder]) / "op" / "file").write_text("x")

    found = find(jit, cache, **environment)
    clear(found, cache=cache)

    assert [(item.path, item.files) for item in found] == [(Path(paths["workspace"]).resolve().parent, 2)]
    assert found[0].version == paths["version"]
    assert list(Path(paths["cached_ops"]).rglob("file")) == []
    assert list(Path(paths["generated"]).rglob("file")) == []
    assert (Path(paths["cubins"]) / "op" / "file").exists()


def test_a_local_version_is_spelled_out_in_the_folder(
    patched_trees: dict[str, Path], jit: Jit, cache: JitCache
) -> None:
    forked = Jit(patched_trees["flashinfer-python"], jit.packages, jit.folder)
    paths = forked.paths()
    (Path(paths["cached_ops"]) / "op").mkdir(parents=True)

    found = find_cache(cache, environment={}, home=jit.folder / "home", versions=("0.6.3+sm120.1",))

    assert [item.path for item in found] == [Path(paths["workspace"]).parent]


@pytest.mark.parametrize("base", ["", "relative"])
def test_flashinfer_makes_a_base_that_is_refused_depend_on_the_working_folder(base: str, jit: Jit) -> None:
    workspace = jit.paths(FLASHINFER_WORKSPACE_BASE=base)["workspace"]

    assert not Path(workspace).is_absolute()


def test_clearing_makes_flashinfer_compile_with_new_settings(jit: Jit, cache: JitCache) -> None:
    jit.run("build", "one_op", FAKE_STAMP="old")
    library = Path(jit.paths()["cached_ops"]) / "one_op" / "one_op.so"
    jit.run("build", "one_op", FAKE_STAMP="new", FLASHINFER_EXTRA_CFLAGS="-DNEW")
    assert library.read_text() == "old\n"

    cleared = clear(find(jit, cache), cache=cache)
    jit.run("build", "one_op", FAKE_STAMP="new", FLASHINFER_EXTRA_CFLAGS="-DNEW")

    assert len(cleared.removed) == 1
    assert library.read_text() == "new\n"


def test_clearing_leaves_no_object_and_keeps_the_log(jit: Jit, cache: JitCache) -> None:
    jit.run("build", "one_op", "another_op")
    workspace = Path(jit.paths()["workspace"])

    clear(find(jit, cache), cache=cache)

    left = {path.relative_to(workspace) for path in workspace.rglob("*") if path.is_file()}
    assert {path.suffix for path in left} <= {".log", ".lock"}
    assert Path("flashinfer_jit.log") in left
    assert find(jit, cache) == ()


@pytest.mark.parametrize("command", ["build", "build_jit_specs"])
def test_a_compilation_that_runs_is_not_disturbed(command: str, jit: Jit, cache: JitCache) -> None:
    jit.run("build", "another_op")
    (jit.folder / "running").unlink()
    (jit.folder / "hold").touch()
    process = jit.start(command, "one_op", FAKE_STAMP="whole")
    try:
        wait((jit.folder / "running").exists)
        found = find(jit, cache)
        cleared = clear(found, cache=cache)
    finally:
        (jit.folder / "hold").unlink()
        _, errors = process.communicate(timeout=60)

    assert process.returncode == 0, errors
    assert [item.in_use for item in found] == [True]
    assert cleared.removed == ()
    assert len(cleared.in_use) == 1
    assert (Path(jit.paths()["cached_ops"]) / "one_op" / "one_op.so").read_text() == "whole\n"
    assert len(clear(find(jit, cache), cache=cache).removed) == 1


def test_a_compilation_that_starts_meanwhile_waits_and_uses_nothing_old(
    jit: Jit, cache: JitCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    jit.run("build", "one_op", FAKE_STAMP="old")
    library = Path(jit.paths()["cached_ops"]) / "one_op" / "one_op.so"
    calls = jit.calls()
    (jit.folder / "locking").unlink()
    started: list[subprocess.Popen[str]] = []
    rename = os.rename

    def start_a_compilation(*arguments: object, **named: object) -> None:
        if not started:
            started.append(jit.start("build", "one_op", FAKE_STAMP="new"))
            wait((jit.folder / "locking").exists)
        assert jit.calls() == calls
        assert started[0].poll() is None
        rename(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rename", start_a_compilation)
    cleared = clear(find(jit, cache), cache=cache)
    _, errors = started[0].communicate(timeout=60)

    assert len(cleared.removed) == 1
    # It wrote its sources before it waited for the lock, so it may miss them: it says so, and works again.
    assert started[0].returncode == 0 or "missing and no known rule to make it" in errors
    jit.run("build", "one_op", FAKE_STAMP="new")
    assert library.read_text() == "new\n"
