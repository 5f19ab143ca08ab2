from __future__ import annotations

import errno
import io
import os
import platform
import shutil
import sys
from pathlib import Path

import pytest
from packaging.tags import Tag
from packaging.utils import parse_wheel_filename

import forkwheel.cuda.toolchain
import forkwheel.wheels.environment
from forkwheel.console import Console, Log
from forkwheel.cuda.host_compiler import find_host_compiler, make_driver_stub
from forkwheel.cuda.targets import parse_targets
from forkwheel.cuda.toolchain import link_tree, load_toolchain_lock, locked_toolchain, system_toolchain
from forkwheel.errors import BuildError, ForkwheelError, ToolchainError
from forkwheel.release.inputs import Inputs, LockedRequirement, PackageInputs
from forkwheel.store import Store


def executable(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


def toolkit(home: Path, *, version: str = "13.0.88") -> Path:
    release = ".".join(version.split(".")[:2])
    says = f'echo "Cuda compilation tools, release {release}, V{version}"; echo "#$ TOP={home}/bin/.." >&2'
    executable(home / "bin" / "nvcc", says)
    return home


def with_path(*folders: Path) -> dict[str, str]:
    return {"PATH": os.pathsep.join([*map(str, folders), os.environ["PATH"]])}


def test_cuda_home_comes_before_the_path(tmp_path: Path) -> None:
    named = toolkit(tmp_path / "named", version="12.9.1")
    other = toolkit(tmp_path / "other")

    found = system_toolchain({**with_path(other / "bin"), "CUDA_HOME": str(named)})

    assert (found.cuda_home, found.nvcc_version, found.release) == (named, "12.9.1", (12, 9))
    assert found.needs_driver == 12000


def test_a_script_on_the_path_leads_to_its_toolkit(tmp_path: Path) -> None:
    home = toolkit(tmp_path / "cuda")
    script = executable(tmp_path / "bin" / "nvcc", f'exec {home}/bin/nvcc "$@"')

    found = system_toolchain(with_path(script.parent))

    assert found.cuda_home == home


def test_another_compiler_gives_another_digest(tmp_path: Path) -> None:
    home = toolkit(tmp_path / "cuda")
    environment = {**with_path(), "CUDA_HOME": str(home)}
    first = system_toolchain(environment).digest
    executable(home / "bin" / "ptxas", "exit 0")

    assert system_toolchain(environment).digest != first


def test_a_list_in_cuda_home_is_refused(tmp_path: Path) -> None:
    listed = f"{toolkit(tmp_path / 'a')}:{toolkit(tmp_path / 'b')}"

    with pytest.raises(ToolchainError, match="is a list") as caught:
        system_toolchain({**with_path(), "CUDA_HOME": listed})

    assert listed in caught.value.message


def test_a_cuda_home_without_nvcc_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="has no bin/nvcc"):
        system_toolchain({**with_path(), "CUDA_HOME": str(tmp_path)})


def test_a_machine_without_toolkit_is_told_of_the_locked_one(tmp_path: Path) -> None:
    compiler = executable(tmp_path / "c++", "echo 12.2.0")

    with pytest.raises(ToolchainError, match="nvcc is not on PATH") as caught:
        system_toolchain({"PATH": str(compiler.parent)})

    assert "--toolkit locked" in caught.value.hint


def test_an_nvcc_that_does_not_tell_its_version_is_refused(tmp_path: Path) -> None:
    executable(tmp_path / "cuda" / "bin" / "nvcc", "echo broken")

    with pytest.raises(ToolchainError, match="does not tell its version: 'broken'"):
        system_toolchain({**with_path(), "CUDA_HOME": str(tmp_path / "cuda")})


@pytest.mark.parametrize(("version", "target"), [("12.6.85", "12.0a"), ("12.8.93", "12.0f")])
def test_an_nvcc_older_than_the_target_is_refused(tmp_path: Path, version: str, target: str) -> None:
    found = system_toolchain({**with_path(), "CUDA_HOME": str(toolkit(tmp_path / "cuda", version=version))})

    with pytest.raises(ToolchainError, match="does not know") as caught:
        found.check_targets(parse_targets(target))

    assert version in caught.value.message


@pytest.mark.parametrize(("version", "target"), [("12.8.93", "12.0a"), ("12.9.1", "12.0f"), ("13.0.88", "9.0a 12.0a")])
def test_an_nvcc_new_enough_is_taken(tmp_path: Path, version: str, target: str) -> None:
    found = system_toolchain({**with_path(), "CUDA_HOME": str(toolkit(tmp_path / "cuda", version=version))})

    found.check_targets(parse_targets(target))


def test_no_host_compiler_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="no C\\+\\+ compiler") as caught:
        find_host_compiler({"PATH": str(tmp_path)})

    assert "apt install g++" in caught.value.hint


def test_the_host_compiler_and_its_linker_are_named() -> None:
    compiler = find_host_compiler(os.environ | {"CXX": ""})

    assert compiler.version.split()[0] in ("gcc", "clang")
    assert compiler.label == f"{compiler.version}, {compiler.linker}"
    assert not compiler.chosen


def test_a_chosen_compiler_is_used(tmp_path: Path) -> None:
    chosen = executable(tmp_path / "g++-99", "echo 99.1.0")

    compiler = find_host_compiler({**with_path(), "CXX": str(chosen)})

    assert (compiler.version, compiler.chosen) == ("gcc 99.1.0", True)


def test_the_driver_stub_can_be_linked_against(tmp_path: Path) -> None:
    make_driver_stub(tmp_path / "stubs", compiler=find_host_compiler(os.environ))

    assert (tmp_path / "stubs" / "libcuda.so").read_bytes()[:4] == b"\x7fELF"
    assert b"libcuda.so.1" in (tmp_path / "stubs" / "libcuda.so").read_bytes()


def test_a_full_disk_is_one_error_of_the_first_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    def full(_: str, target: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), target)

    (tmp_path / "from").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "from" / name).touch()
    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(shutil, "copy2", full)

    with pytest.raises(ForkwheelError, match=r"/to/[abc]: No space left on device$"):
        link_tree(tmp_path / "from", tmp_path / "to")


def test_a_compiler_is_named_in_full_since_it_runs_in_other_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(tmp_path / "g++", "echo 12.2.0")
    monkeypatch.chdir(tmp_path)

    assert find_host_compiler({**with_path(), "CXX": "./g++"}).command == str(tmp_path / "g++")


def packages(folder: Path) -> Path:
    """Make the packages of an invented toolkit, as an environment's Python finds them."""
    python = executable(folder / "bin" / "python", "exit 1")
    site = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    home = toolkit(site / "nvidia" / "cu13")
    executable(home / "nvvm" / "bin" / "cicc", "exit 1")
    (home / "lib").mkdir()
    (home / "lib" / "libcudart.so.13").touch()
    return python


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inputs:
    monkeypatch.setattr(forkwheel.cuda.toolchain, "build_environment", lambda *_, **__: packages(tmp_path / "env"))
    return Inputs(tmp_path / "toolchain.lock.toml", (PackageInputs("toolkit", (), (), ()),))


def log() -> Log:
    return Console(stream=io.StringIO()).bind("demo")


def test_the_locked_toolkit_is_assembled_once_for_each_machine(
    tmp_path: Path, lock: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache may be shared by machines of several kinds."""
    store = Store(tmp_path / "cache")
    first = locked_toolchain(lock, store=store, log=log()).cuda_home
    shutil.rmtree(tmp_path / "env")
    monkeypatch.setattr(platform, "machine", lambda: "other64")
    other = locked_toolchain(lock, store=store, log=log()).cuda_home

    assert first != other
    assert [path.name for path in (first / "lib64").iterdir() if "cudart" in path.name]
    assert (first / "lib64" / "libcudart.so").is_symlink()


@pytest.mark.parametrize("lost", ["nvvm/bin/cicc", "forkwheel.files.json"])
def test_a_toolkit_that_was_damaged_is_assembled_again(tmp_path: Path, lock: Inputs, lost: str) -> None:
    store = Store(tmp_path / "cache")
    home = locked_toolchain(lock, store=store, log=log()).cuda_home
    (home / lost).unlink()
    shutil.rmtree(tmp_path / "env")

    assert locked_toolchain(lock, store=store, log=log()).cuda_home == home
    assert (home / lost).is_file()


def test_a_lock_without_this_machines_toolkit_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a lock for x86_64 alone says on aarch64."""
    file = "nvidia_cuda_nvcc-13.0.88-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"
    requirement = LockedRequirement("nvidia-cuda-nvcc", "13.0.88", None, ((file, "0" * 64),))
    lock = Inputs(tmp_path / "lock", (PackageInputs("toolkit", (), (), (requirement,)),))
    tags = [Tag("py3", "none", "manylinux_2_17_aarch64")]
    monkeypatch.setattr(forkwheel.wheels.environment, "sys_tags", lambda: iter(tags))
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")

    with pytest.raises(BuildError, match=r"nvidia-cuda-nvcc 13\.0\.88 is locked without a wheel .* linux aarch64"):
        locked_toolchain(lock, store=Store(tmp_path / "cache"), log=log())


def test_every_part_of_the_recipes_toolchain_is_locked_for_both_machines() -> None:
    parts = load_toolchain_lock(Path(__file__).resolve().parents[2] / "recipes" / "sm120").parts
    platforms = {
        (part.package, item.name): {parse_wheel_filename(file)[3] for file, _ in item.files}
        for part in parts
        for item in part.requirements
    }

    for machine in ("x86_64", "aarch64"):
        lacking = [
            place
            for place, tags in platforms.items()
            if not any(tag.platform == "any" or tag.platform.endswith(machine) for each in tags for tag in each)
        ]
        assert lacking == []
