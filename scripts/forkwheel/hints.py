"""Commands as a person can paste them, and paths as they can be read."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

RECIPE = "RECIPE"
"""What a hint writes for the recipe: how a person named it is known to the command line alone."""
_PATCHES = re.compile(r"`patches (--(?:refresh|close)|--[a-z]+ [^`]+)`")
_RECIPE = re.compile(rf"--recipe {RECIPE}\b")


def nox_command(recipe: str, *arguments: str, worktree: Path | None = None) -> str:
    """Return the command line of ``patches`` for a recipe, and for a work tree that is not the default one."""
    words = ["nox", "-s", "patches", "--", "--recipe", recipe, *arguments]
    return shlex.join([*words, "--worktree", str(worktree)] if worktree else words)


def complete_hint(hint: str, *, recipe: str, worktree: Path | None = None) -> str:
    """Make a hint's commands run as they are printed.

    A short one, such as ``patches --edit NAME``, becomes whole, and ``RECIPE`` what the person gave.
    """

    def whole(match: re.Match[str]) -> str:
        return f"`{nox_command(recipe, *match[1].split(' '), worktree=worktree)}`"

    return _RECIPE.sub(lambda _: shlex.join(["--recipe", recipe]), _PATCHES.sub(whole, hint))


def recipe_argument(folder: Path) -> str:
    """Return what ``--recipe`` takes for a recipe's folder, quoted: its name where it is one of this checkout's."""
    recipes = Path("recipes").resolve()
    return shlex.quote(folder.name if folder.resolve().parent == recipes else short_path(folder))


def short_path(path: Path) -> str:
    """Return a path as seen from the working folder, where it lies below it."""
    here = Path.cwd().resolve()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
