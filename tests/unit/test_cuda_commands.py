from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from forkwheel.cli import Commands
from forkwheel.console import Console
from forkwheel.cuda.commands import kernel_options, register
from forkwheel.cuda.kernel_wheel import KernelOptions
from forkwheel.errors import UsageError


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true")
    register(Commands(parser.add_subparsers(), common))
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
