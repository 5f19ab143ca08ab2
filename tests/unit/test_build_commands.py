"""What `build` and `lock` refuse before anything is fetched or built."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernel_recipe import write_kernel_recipe

from forkwheel import build_commands
from forkwheel.cli import run
from forkwheel.recipe import load_recipe
from forkwheel.relock import _write_recipe


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a recipe with kernels, of which nothing may be fetched."""

    def never(*_: object, **__: object) -> None:
        pytest.fail("it began to fetch")

    monkeypatch.setenv("FORKWHEEL_CACHE", str(tmp_path / "cache"))
    for name in ("plan_all", "supplied"):
        monkeypatch.setattr(build_commands, name, never)
    return write_kernel_recipe(tmp_path)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str]:
    code = run([str(argument) for argument in arguments])
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("lacking", "message", "code"),
    [
        ("kernels.toml", "the recipe kernels-demo has no kernels: there is no", 2),
        ("toolchain.lock.toml", "there is no", 2),
    ],
)
def test_kernels_that_a_recipe_lacks_are_missed_at_the_start(
    recipe: Path, capsys: pytest.CaptureFixture[str], lacking: str, message: str, code: int
) -> None:
    (recipe / lacking).unlink()

    found, said = refused(capsys, "build", "--recipe", recipe, "--with-kernels")

    assert found == code
    assert message in said
    assert lacking in said


@pytest.mark.parametrize(
    ("variable", "value", "message", "code"),
    [
        ("CXX", "/nowhere/g++", "there is no C++ compiler: '/nowhere/g++' is not on PATH", 6),
        ("DEMO_TARGETS", "12.0", "DEMO_TARGETS: ", 2),
    ],
)
def test_a_machine_that_cannot_compile_kernels_is_found_at_the_start(
    recipe: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
    message: str,
    code: int,
) -> None:
    monkeypatch.setenv(variable, value)

    found, said = refused(capsys, "build", "--recipe", recipe, "--with-kernels")

    assert found == code
    assert message in said


def test_kernels_for_no_gpu_in_particular_are_refused_at_the_start(
    recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = recipe / "recipe.toml"
    file.write_text(file.read_text().replace('target = "sm_120a"\n', ""))

    found, said = refused(capsys, "build", "--recipe", recipe, "--with-kernels")

    assert (found, "is for no GPU in particular" in said) == (2, True)


@pytest.mark.parametrize("option", ["--inputs", "--toolchain"])
def test_nothing_is_chosen_from_an_index_that_must_not_be_asked(
    recipe: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    found, said = refused(capsys, "lock", "--recipe", recipe, "--offline", option)

    assert found == 2
    assert "--offline forbids asking the package index" in said


def test_a_recipe_without_a_toolchain_has_none_to_choose(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (recipe / "toolchain.lock.toml").unlink()

    found, said = refused(capsys, "lock", "--recipe", recipe, "--toolchain")

    assert found == 2
    assert "there is no" in said


@pytest.mark.parametrize("command", ["build", "kernels"])
def test_an_output_folder_that_cannot_be_used_is_found_at_the_start(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (tmp_path / "file").touch()

    found, said = refused(capsys, command, "--recipe", recipe, "--out", tmp_path / "file" / "dist")

    assert found == 2
    assert f"the output folder {tmp_path}/file/dist cannot be used: {tmp_path}/file is no folder" in said
    assert "hint: give another one with --out" in said


def test_the_revision_that_lock_writes_to_a_recipe_is_told(recipe: Path) -> None:
    loaded = load_recipe(recipe / "recipe.toml")

    assert _write_recipe(loaded, loaded.revision) == ()
    assert _write_recipe(loaded, 7) == (f"{recipe}/recipe.toml: `revision` was {loaded.revision} and is 7 now",)
    assert load_recipe(recipe / "recipe.toml").revision == 7
