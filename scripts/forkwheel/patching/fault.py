"""Where in a patch file something is wrong: every complaint starts with PATCHFILE:LINE."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from forkwheel.errors import PatchError


@dataclass(frozen=True)
class Place:
    """A line (from 1) of a file that is being read."""

    file: Path
    line: int

    def fail(self, message: str, *, hint: str) -> NoReturn:
        """Raise PatchError about this line."""
        raise PatchError(f"{self}: {message}", hint=hint)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"
