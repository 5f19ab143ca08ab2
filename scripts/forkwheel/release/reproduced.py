"""What came of building a wheel again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forkwheel.release.compare import Difference

IDENTICAL, DEVICE_IDENTICAL, DIFFERENT = "identical", "device code identical", "different"


@dataclass(frozen=True)
class Reproduced:
    """A wheel built again: ``differences`` are none where it is what it claims to be.

    ``original`` is the wheel itself, or where it would lie; ``rebuilt`` is the SHA-256 of the one at
    ``path``. ``apart`` says what is identical of a wheel whose bytes depend on the host's compiler.
    """

    original: Path
    expected: str
    rebuilt: str
    path: Path
    differences: tuple[Difference, ...]
    apart: str = ""

    @property
    def wheel(self) -> str:
        """The wheel's file name."""
        return self.original.name

    @property
    def verdict(self) -> str:
        """Return ``identical``, ``device code identical`` or ``different``."""
        if self.differences:
            return DIFFERENT
        return DEVICE_IDENTICAL if self.apart else IDENTICAL
