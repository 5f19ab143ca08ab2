"""Commands as a person can paste them, and paths as they can be read."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

_SHORT = re.compile(r"`patches (--(?:refresh|close)|--[a-z]+ [^`]+)`")


def nox_command(recipe: str, *arguments: str, worktree: Path | None = None) -> str:
    """Return the command line of ``patches`` for a recipe, and for a work tree that is not the default one."""
    words = ["nox", "-s", "patches", "--", "--recipe", recipe, *arguments]
    return shlex.join([*words, "--worktree", str(worktree)] if worktree else words)


def complete_hint(hint: str, *, recipe: str, worktree: Path | None = None) -> str:
    """Turn each short command of a hint, such as ``patches --edit NAME``, into a whole one."""

    def whole(match: re.Match[str]) -> str:
        return f"`{nox_command(recipe, *match[1].split(' '), worktree=worktree)}`"

    return _SHORT.sub(whole, hint)


def plural(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}{'es' if noun.endswith('ch') else 's'}"


def short_path(path: Path) -> str:
    """Return a path as seen from the working folder, where it lies below it."""
    here = Path.cwd().resolve()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
