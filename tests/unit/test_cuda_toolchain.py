from __future__ import annotations

import os
from pathlib import Path

import pytest

from forkwheel.cuda.host_compiler import find_host_compiler, make_driver_stub
from forkwheel.cuda.targets import parse_targets
from forkwheel.cuda.toolchain import system_toolchain
from forkwheel.errors import ToolchainError


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
