"""The recipe that a person names beside a set: by its name, or by the path of one that is not among ``recipes``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forkwheel.recipe import find_recipe, load_recipe

RECIPES = Path("recipes")


@dataclass(frozen=True)
class NamedRecipe:
    """The recipe's name, or None where none was given, and its folder, where a path was given."""

    name: str | None
    given: Path | None = None

    def folder(self, recipe: str) -> Path:
        """Return the folder of a set's ``recipe``, which may not be there."""
        return self.given or RECIPES / recipe


def named_recipe(text: str | None) -> NamedRecipe:
    """Read what was given with ``--recipe``; raise UsageError for a path that leads to no recipe."""
    if text is None or not _is_path(text):
        return NamedRecipe(text)
    file = find_recipe(text, recipes=RECIPES)
    return NamedRecipe(load_recipe(file).name, file.parent)


def _is_path(text: str) -> bool:
    if (RECIPES / text / "recipe.toml").is_file():
        return "/" in text
    return "/" in text or text.endswith(".toml") or (Path(text) / "recipe.toml").is_file()
