"""The committed inputs' lock is of the pinned sources, and serves every Python and machine."""

from __future__ import annotations

import io
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.version import Version

from forkwheel.console import Console
from forkwheel.cuda.toolchain import load_toolchain_lock
from forkwheel.cuda.toolchain_choice import choose_toolchain
from forkwheel.recipe import Recipe
from forkwheel.release.hosts import MACHINES, PYTHONS, usable
from forkwheel.release.inputs import TOOLCHAIN_COMMENT, Inputs, load_inputs, lock_text
from forkwheel.release.resolution import build_system_requires
from forkwheel.store import Store


def test_the_lock_is_of_the_pinned_sources(recipe: Recipe, stock_trees: dict[str, Path]) -> None:
    inputs = load_inputs(recipe.folder / "inputs.lock.toml")

    assert [part.package for part in inputs.parts] == [package.name for package in recipe.packages]
    for name, tree in stock_trees.items():
        inputs.check_requires(name, build_system_requires(tree))


def test_every_host_has_a_file_of_every_requirement(recipe: Recipe) -> None:
    inputs = load_inputs(recipe.folder / "inputs.lock.toml")

    missing = [
        (item.name, python, machine)
        for _, requirements in inputs.packages
        for item in requirements
        for python, machine in product(PYTHONS, MACHINES)
        if item.marker is None or Marker(item.marker).evaluate({"python_version": f"{python[0]}.{python[1]}"})
        if not any(usable(filename, (python, machine)) for filename, _ in item.files)
    ]
    assert missing == []


def test_the_lock_is_as_forkwheel_writes_it(recipe: Recipe) -> None:
    file = recipe.folder / "inputs.lock.toml"

    assert lock_text(load_inputs(file).parts) == file.read_text()


@pytest.fixture(scope="module")
def chosen(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> tuple[Inputs, Inputs]:
    """Return the committed lock of the toolchain, and the one that is chosen anew today from the package index."""
    folder = tmp_path_factory.mktemp("recipe")
    for name in ("recipe.toml", "toolchain.lock.toml"):
        shutil.copy(recipe.folder / name, folder)
    copy = replace(recipe, file=folder / "recipe.toml")
    choose_toolchain(copy, store=Store(folder / "cache"), log=Console(stream=io.StringIO()).bind("demo"))
    return load_toolchain_lock(recipe.folder), load_toolchain_lock(folder)


def test_a_toolchain_that_is_chosen_anew_keeps_its_pins(chosen: tuple[Inputs, Inputs]) -> None:
    """What the index added since is newer versions of what is not pinned with ``==``, and no more."""
    old, new = chosen

    assert [(part.package, part.requires) for part in old.parts] == [
        (part.package, part.requires) for part in new.parts
    ]
    assert old.part("toolkit") == new.part("toolkit")
    for before, after in zip(old.parts, new.parts, strict=True):
        versions = {item.name: item for item in after.requirements}
        for item in before.requirements:
            if Version(versions[item.name].version) == Version(item.version):
                assert versions[item.name] == item
            else:
                assert Version(versions[item.name].version) > Version(item.version)
                assert not any(Requirement(text).name == item.name and "==" in text for text in before.requires)


def test_the_toolchains_lock_is_as_forkwheel_writes_it(recipe: Recipe) -> None:
    lock = load_toolchain_lock(recipe.folder)

    assert lock_text(lock.parts, comment=TOOLCHAIN_COMMENT) == lock.file.read_text()
