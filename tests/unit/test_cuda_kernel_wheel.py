from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from forkwheel.console import Console
from forkwheel.cuda import kernel_wheel
from forkwheel.cuda.census import Census
from forkwheel.cuda.kernel_config import load_kernels
from forkwheel.cuda.kernel_wheel import KernelOptions, check_options, targets_of, wanted_targets
from forkwheel.cuda.platform_tag import platform_tag
from forkwheel.cuda.toolchain import load_toolchain_lock
from forkwheel.errors import BuildError, UsageError, VerificationError
from forkwheel.recipe import load_recipe
from forkwheel.store import Store

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
def test_a_variable_that_would_be_misread_is_refused_by_its_name(value: str) -> None:
    with pytest.raises(UsageError) as caught:
        targets(KernelOptions(), {VARIABLE: value})

    assert caught.value.message.startswith(f"{VARIABLE}: ")
    assert value in caught.value.message
    assert f"unset {VARIABLE}" in caught.value.hint


def test_a_recipe_for_no_gpu_asks_for_targets() -> None:
    recipe = replace(load_recipe(RECIPE / "recipe.toml"), target="any")

    with pytest.raises(UsageError, match="is for no GPU in particular"):
        targets_of(recipe, "")
    assert [target.name for target in targets_of(recipe, "9.0a")] == ["sm_90a"]


REVISION, DEVELOPMENT = "0.6.3+sm120.1", "0.6.3+sm120.dev.k1234567"


@pytest.mark.parametrize("record", [False, True])
def test_a_fast_build_cannot_have_a_revisions_version(record: bool) -> None:
    """Refused before anything is compiled."""
    recipe = load_recipe(RECIPE / "recipe.toml")

    with pytest.raises(UsageError, match="a fast build gives other bytes each time"):
        check_options(KernelOptions(fast=True), recipe, version=REVISION, record=record)

    check_options(KernelOptions(fast=True), recipe, version=DEVELOPMENT, record=False)


@pytest.mark.parametrize(
    ("options", "version", "reason"),
    [
        (KernelOptions(), DEVELOPMENT, "is a development build"),
        (KernelOptions(fast=True), DEVELOPMENT, "is a development build"),
        (KernelOptions(targets="9.0a"), REVISION, "for sm_120a alone"),
        (KernelOptions(targets="9.0a 12.0a"), REVISION, "for sm_120a alone"),
        (KernelOptions(toolkit="system"), REVISION, "the locked toolkit"),
        (KernelOptions(modules=("trtllm_comm",)), REVISION, "all modules together"),
    ],
)
def test_what_is_not_the_recipes_own_build_is_not_locked(options: KernelOptions, version: str, reason: str) -> None:
    recipe = load_recipe(RECIPE / "recipe.toml")

    with pytest.raises(UsageError, match=reason):
        check_options(options, recipe, version=version, record=True)

    check_options(KernelOptions(targets="sm_120a"), recipe, version=REVISION, record=True)


def test_a_census_that_was_kept_is_read_back_and_a_damaged_one_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Path] = []

    def take(files: list[Path], **_: object) -> Census:
        taken.extend(files)
        return Census((("a.so#1", "0" * 64),), ())

    monkeypatch.setattr(kernel_wheel, "census", take)
    monkeypatch.setattr(kernel_wheel, "reading_tools", lambda *_, **__: None)
    store, file = Store(tmp_path / "cache"), tmp_path / "a.so"
    file.write_bytes(b"object")

    def census_of_file() -> Census:
        log = Console(stream=io.StringIO()).bind("sm120")
        return kernel_wheel.kept_census([file], lock=load_toolchain_lock(RECIPE), store=store, log=log)

    first = census_of_file()
    (kept,) = (store.root / "census").iterdir()
    os.utime(kept, (0, 0))
    assert census_of_file() == first
    assert len(taken) == 1
    assert kept.stat().st_mtime > 0  # it was used now, so that pruning leaves it
    kept.write_text("{")
    assert census_of_file() == first
    assert len(taken) == 2


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
