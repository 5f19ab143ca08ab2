"""GPU targets: how they are spelled, and which compiler they need."""

from __future__ import annotations

import re
from dataclasses import dataclass

from forkwheel.errors import UsageError

_SM = re.compile(r"sm_([1-9][0-9]?)([0-9])([af]?)")
_CAPABILITY = re.compile(r"([1-9][0-9]?)\.([0-9])([af]?)")
_HINT = "write targets like 12.0a (or sm_120a), separated by single spaces"
_FIRST_KNOWN = {(10, 3): (12, 9), (11, 0): (13, 0), (12, 1): (12, 9)}
"""Targets from 10.0 on that are younger than CUDA 12.8, and the release that brought them."""


@dataclass(frozen=True, order=True)
class Target:
    """A compute capability and its suffix: ``a`` for that GPU alone, ``f`` for its family."""

    major: int
    minor: int
    suffix: str

    @property
    def name(self) -> str:
        """Spell the target as the compiler does: ``sm_120a``."""
        return f"sm_{self.major}{self.minor}{self.suffix}"

    @property
    def capability(self) -> str:
        """Spell the target as a compute capability: ``12.0a``."""
        return f"{self.major}.{self.minor}{self.suffix}"

    @property
    def needs_nvcc(self) -> tuple[int, int]:
        """The oldest CUDA release whose compiler knows the target."""
        known = _FIRST_KNOWN.get((self.major, self.minor), (12, 8) if self.major >= 10 else (12, 0))
        return max(known, (12, 9)) if self.suffix == "f" else known


def parse_target(text: str) -> Target:
    """Read one target; raise UsageError where it is malformed or has not the suffix that it needs.

    From 9.0 on the instructions that the kernels use exist under a suffix only: without
    one, some do not assemble and others are left out in silence.
    """
    match = _SM.fullmatch(text) or _CAPABILITY.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a GPU target", hint=_HINT)
    target = Target(int(match[1]), int(match[2]), match[3])
    if target.major >= 9 and not target.suffix:
        raise UsageError(
            f"the target {text!r} has no suffix, which {target.name} needs for its own instructions",
            hint=f"write {target.capability}a",
        )
    first = {"a": 9, "f": 10}.get(target.suffix, 0)
    if target.major < first:
        raise UsageError(
            f"the target {text!r} has the suffix {target.suffix!r}, which begins with {first}.0",
            hint=f"write {target.major}.{target.minor}",
        )
    return target


def parse_targets(text: str) -> tuple[Target, ...]:
    """Read a list of targets, separated by single spaces; refuse every spelling that others would misread."""
    if text != text.strip() or "  " in text or not text:
        raise UsageError(f"the target list {text!r} has an empty entry: a doubled or outer space", hint=_HINT)
    if bad := re.search(r"[,;\t\n]", text):
        raise UsageError(f"the target list {text!r} is separated by {bad[0]!r}", hint=_HINT)
    targets = tuple(parse_target(word) for word in text.split(" "))
    if len(set(targets)) != len(targets):
        raise UsageError(f"the target list {text!r} names a target twice", hint="remove one of them")
    return tuple(sorted(targets))
