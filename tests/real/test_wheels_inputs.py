"""The committed inputs' lock is of the pinned sources, and serves every Python and machine."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from packaging.markers import Marker

from forkwheel.recipe import Recipe
from forkwheel.release.inputs import load_inputs, lock_text
from forkwheel.release.resolution import MACHINES, PYTHONS, build_system_requires, usable


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
