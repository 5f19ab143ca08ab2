"""Where the result of a port goes: the new recipe, and the series of each ported package."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from forkwheel.errors import UsageError
from forkwheel.recipe import Package, Recipe


@dataclass(frozen=True)
class Places:
    """The folder of the new recipe, and those of the series by package."""

    recipe: Path
    series: Mapping[str, Path]

    @property
    def all(self) -> tuple[Path, ...]:
        """Every folder that is made."""
        return (self.recipe, *self.series.values())


def find_places(recipe: Recipe, versions: Mapping[str, str], *, name: str, out: Path | None) -> Places:
    """Decide where a port to these versions of packages goes.

    The new recipe is beside the old one, and a new series beside the old one, named by the
    version; a series inside of its recipe's folder has its place inside of the new one's. A
    folder ``out`` gets recipes/NAME and patches/PACKAGE/VERSION (or as the old series lies
    below the folder above recipes/).
    """
    target = out / "recipes" / name if out is not None else recipe.folder.with_name(name)
    series = {}
    for package in recipe.packages:
        if package.name in versions and package.series is not None:
            series[package.name] = _series(package, versions[package.name], recipe, target=target, out=out)
    return Places(target, series)


def _series(package: Package, version: str, recipe: Recipe, *, target: Path, out: Path | None) -> Path:
    old = package.series
    assert old is not None
    is_inside = old.is_relative_to(recipe.folder)
    if old.name.endswith(package.version):
        new = old.with_name(old.name.removesuffix(package.version) + version)
    else:
        new = old if is_inside else old.with_name(f"{old.name}-{version}")
    if is_inside:
        return target / new.relative_to(recipe.folder)
    if out is None:
        return new
    root = recipe.folder.parent.parent
    return out / (new.relative_to(root) if new.is_relative_to(root) else Path("patches") / package.name / version)


def check_free(places: Places, *, work: Path) -> None:
    """Raise UsageError where a place is taken, or cannot be written to, before any work is done."""
    for place in places.all:
        if place.exists() or place.is_symlink():
            raise UsageError(
                f"{place} exists already", hint="give another --name, or write the result elsewhere with --out"
            )
        if place.is_relative_to(work.resolve()):
            raise UsageError(
                f"{place} lies in the work folder {work}, which is removed at the end", hint="give another --out"
            )
        above = next(folder for folder in place.parents if folder.exists())
        if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            what = "cannot be written to" if above.is_dir() else "is no folder"
            raise UsageError(f"{place} cannot be made: {above} {what}", hint="write the result elsewhere with --out")
    taken = list(places.series.values())
    if twice := next((place for place in taken if taken.count(place) > 1), None):
        raise UsageError(f"{twice} would be the series of two packages", hint="give their series folders of their own")
