from __future__ import annotations

import argparse
import io
from dataclasses import replace
from pathlib import Path

import pytest

from forkwheel.cli import Commands
from forkwheel.console import Console
from forkwheel.cuda import census_commands, commands
from forkwheel.cuda.census import Census, Kernel
from forkwheel.cuda.census_commands import _census_document, _check
from forkwheel.cuda.census_rules import CensusRules, Rule
from forkwheel.cuda.commands import kernel_options
from forkwheel.cuda.kernel_wheel import KernelOptions
from forkwheel.errors import UsageError, VerificationError


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    subparsers, common = parser.add_subparsers(), argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true")
    for module in (commands, census_commands):
        module.register(Commands(subparsers, common))
    return parser.parse_args(arguments)


def test_kernels_are_built_with_the_locked_toolkit_by_default() -> None:
    assert kernel_options(parse("kernels", "--recipe", "sm120")) == KernelOptions()


def test_every_choice_reaches_the_build() -> None:
    options = parse(
        "kernels", "--recipe", "sm120", "--toolkit", "system", "--targets", "9.0a 12.0a", "--module", "a",
        "--module", "b", "--fast", "--fresh", "--compile-cache", "--offline",
    )  # fmt: skip

    assert kernel_options(options) == KernelOptions(
        toolkit="system",
        targets="9.0a 12.0a",
        modules=("a", "b"),
        fast=True,
        fresh=True,
        compile_cache=True,
        offline=True,
    )


def test_a_census_without_any_recipe_tells_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = parse("census", "a.so")

    with pytest.raises(UsageError, match="no recipe here locks the tools"):
        options.run(options, Console())


def test_the_schema_of_the_census_is_documented_whole(capsys: pytest.CaptureFixture[str]) -> None:
    one = Kernel("a()", "a", "a.so#1", "sm_120a", 32, 8, 0, 0, 1, 1, 0)
    before, after = (Census((("a.so#1", "0" * 64),), (kernel,)) for kernel in (one, replace(one, waits=0)))
    document = _census_document(after, before)
    parts = [document, document["objects"][0], document["families"]["a"], document["kernels"][0]]
    parts.append(document["changes"][0])

    with pytest.raises(SystemExit):
        parse("census", "--help")
    said = capsys.readouterr().out

    assert document["schema"] == 1
    assert "schema 1" in said
    assert not [key for part in parts for key in part if key != "schema" and f"`{key}`" not in said]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--targets", "12.0a"], "there is no --check"),
        (["--check", "--targets", "12.0"], "has no suffix"),
        (["--check", "--targets", "12.0a,9.0a"], "separated by ','"),
    ],
)
def test_wrong_targets_are_told_before_anything_is_read(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).resolve().parents[2])
    monkeypatch.setattr(census_commands, "reading_tools", None)
    options = parse("census", "a.so", *arguments)

    with pytest.raises(UsageError, match=message):
        options.run(options, Console())


RULES = CensusRules("sm_120a", 4, (), (Rule(("a",), 2, grid_dependency=True, no_local=False, patch=None),))
ONE = Kernel("a()", "a", "a.so#1", "sm_120a", 32, 8, 0, 0, 1, 1, 0)


def checked(*kernels: Kernel, file: str, targets: tuple[str, ...] = ("sm_120a",)) -> str:
    output = io.StringIO()
    _check(Census((), kernels), RULES, targets=targets, files=[Path(file)], console=Console(stream=output))
    return output.getvalue()


def test_what_a_check_skipped_is_said() -> None:
    both = (ONE, replace(ONE, name="a(int)"))

    assert "1 rule held (0 skipped)" in checked(*both, file="a.so")
    said = checked(replace(ONE, target="sm_90a"), file="a.so", targets=("sm_90a",))
    assert "SKIP the 1 rules for sm_120a: this is sm_90a" in said
    assert "0 rules held (1 skipped)" in said


def test_a_check_that_checked_no_rule_is_no_success() -> None:
    with pytest.raises(VerificationError, match="none of the 1 rules could be checked"):
        checked(replace(ONE, family="b"), file="a.o")
