"""The file in a work tree that keeps what of a patch did not fit, until a person has dealt with it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from forkwheel.errors import PatchError
from forkwheel.patching.lenient import Left
from forkwheel.patching.names import printable

LEFT = "LEFT.patch"
"""Its name; git ignores it there, and it is never a part of the patch."""

_HEAD = """\
What follows is left of {name}: it could not be brought into the files here.
Bring each hunk into the files by hand, or give it up; then delete this file.
Until it is deleted, --refresh refuses: the patch would lose these lines.
"""


def write_left(folder: Path, name: str, left: Sequence[Left]) -> None:
    """Write what is left of the patch ``name`` into its work tree."""
    parts = [_HEAD.format(name=name).encode()]
    for part in left:
        title = f"\n# {where(name, part)}\n"
        parts += [printable(title).encode("utf-8", "backslashreplace"), part.diff]
    (folder / LEFT).write_bytes(b"".join(parts))


def where(name: str, part: Left) -> str:
    """Say which part of the patch ``name`` is left, and why."""
    return f"{name}:{part.line}: {part.path}: {part.reason}"


def is_left(folder: Path) -> bool:
    """Tell whether a work tree still has hunks to deal with."""
    return os.path.lexists(folder / LEFT)


def check_nothing_left(folder: Path, name: str) -> None:
    """Raise PatchError where a work tree still has hunks to deal with."""
    if is_left(folder):
        raise PatchError(
            f"{folder / LEFT} holds hunks of {name} that are not in the files; nothing was written",
            hint="bring them into the files, or give them up; then delete that file and refresh again",
        )
