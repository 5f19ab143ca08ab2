from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from forkwheel.console import Console
from forkwheel.cuda.kernel_config import load_kernels
from forkwheel.cuda.kernel_wheel import KernelOptions, wanted_targets
from forkwheel.cuda.platform_tag import platform_tag
from forkwheel.errors import BuildError, UsageError, VerificationError
from forkwheel.recipe import load_recipe

RECIPE = Path(__file__).resolve().parents[2] / "recipes" / "sm120"
VARIABLE = "FLASHINFER_CUDA_ARCH_LIST"


def targets(options: KernelOptions, environment: dict[str, str]) -> tuple[list[str], str]:
    output = io.StringIO()
    found = wanted_targets(
        load_recipe(RECIPE / "recipe.toml"),
        load_kernels(RECIPE / "kernels.toml"),
        options=options,
        log=Console(stream=output).bind("sm120"),
        environment=environment,
    )
    return [target.name for target in found], output.getvalue()


def test_the_recipes_target_is_the_default() -> None:
    assert targets(KernelOptions(), {}) == (["sm_120a"], "")


def test_other_targets_may_be_named() -> None:
    assert targets(KernelOptions(targets="9.0a 12.0a"), {})[0] == ["sm_90a", "sm_120a"]


def test_the_packages_own_variable_is_not_obeyed_in_silence() -> None:
    found, said = targets(KernelOptions(), {VARIABLE: "9.0a"})

    assert found == ["sm_120a"]
    assert f"{VARIABLE} is '9.0a' and is not used" in said
    assert targets(KernelOptions(), {VARIABLE: "12.0a"})[1] == ""


@pytest.mark.parametrize("value", ["12.0", "12.0a,9.0a", "12.0a  9.0a"])
def test_a_variable_that_would_be_misread_is_refused(value: str) -> None:
    with pytest.raises(UsageError):
        targets(KernelOptions(), {VARIABLE: value})


def auditwheel(folder: Path, answer: str) -> Path:
    python = folder / "python"
    python.write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\necho 'it says why' >&2\n")
    python.chmod(0o755)
    return python


def test_the_tag_is_that_of_the_symbol_versions(tmp_path: Path) -> None:
    libraries = {"libc.so.6": None, "libstdc++.so.6": None, "libcuda.so.1": None, "ld-linux-x86-64.so.2": None}
    answer = {"sym_tag": "manylinux_2_34_x86_64", "overall_tag": "linux_x86_64", "external_libs": libraries}

    assert platform_tag(Path("a.whl"), python=auditwheel(tmp_path, json.dumps(answer))) == "manylinux_2_34_x86_64"


@pytest.mark.parametrize("library", ["libcudart.so.13", "libnvrtc.so.13", "libtorch.so"])
def test_a_library_that_not_every_system_has_is_refused(tmp_path: Path, library: str) -> None:
    answer = {"sym_tag": "manylinux_2_34_x86_64", "external_libs": {library: None, "libc.so.6": None}}

    with pytest.raises(VerificationError, match=library):
        platform_tag(Path("a.whl"), python=auditwheel(tmp_path, json.dumps(answer)))


@pytest.mark.parametrize("answer", ["", "no json", "[]", "{}"])
def test_an_answer_that_is_none_is_an_error_with_its_reason(tmp_path: Path, answer: str) -> None:
    with pytest.raises(BuildError, match="it says why"):
        platform_tag(Path("a.whl"), python=auditwheel(tmp_path, answer))
