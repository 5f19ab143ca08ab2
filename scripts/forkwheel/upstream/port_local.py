"""The word that ends the versions of a ported recipe's wheels: no other recipe's wheel may get the same version."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path

from packaging.utils import canonicalize_name

from forkwheel.errors import ForkwheelError
from forkwheel.recipe import Recipe, load_recipe

_LONGEST = 32


def choose_local(recipe: Recipe, versions: Mapping[str, str], *, folder: Path, name: str) -> tuple[str, str | None]:
    """Return the ``local`` of the recipe ``name`` in ``folder``, and a note where it is not the old one's.

    ``versions`` are those of the packages that moved. The old word stays as long as every wheel
    gets a version that no recipe beside the old or the new one has; else the name makes the word.
    """
    made: set[tuple[str, str]] = {
        (canonicalize_name(package.name), versions.get(package.name, package.version))
        for package in recipe.packages
        if not package.is_taken
    }
    others = _recipes_beside((recipe.folder, folder), but=folder)
    taken = _same_wheel(recipe.local, made, others)
    if taken is None:
        return recipe.local, None
    local = next(word for word in _words(recipe, name) if _same_wheel(word, made, others) is None)
    return local, f"`local` is {local!r}, not {recipe.local!r}: {taken} already"


def _recipes_beside(folders: Iterable[Path], *, but: Path) -> list[Recipe]:
    """Read the recipes beside some recipes' folders; one that cannot be read makes no wheels."""
    found = []
    for file in sorted({file for folder in folders for file in folder.parent.glob("*/recipe.toml")}):
        if file.parent != but:
            try:
                found.append(load_recipe(file))
            except ForkwheelError:
                continue
    return found


def _words(recipe: Recipe, name: str) -> Iterator[str]:
    word = re.sub(r"[^a-z0-9]", "", name.lower()).lstrip("0123456789")[:_LONGEST]
    if word:
        yield word
    yield from (f"{word or recipe.local}{number}" for number in count(2))


def _same_wheel(local: str, made: set[tuple[str, str]], others: Sequence[Recipe]) -> str | None:
    """Say which recipe makes a wheel of the same version, with the same word; None where none does."""
    for other in others:
        for package in other.packages:
            is_same = other.local == local and not package.is_taken
            if is_same and (canonicalize_name(package.name), package.version) in made:
                return f"{other.name} has {package.name} {package.version}+{local}"
    return None
