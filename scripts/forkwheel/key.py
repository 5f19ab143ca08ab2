"""Build keys: one digest over everything that a wheel's bytes depend on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from forkwheel.canonical import package_settings
from forkwheel.patching.series import Series
from forkwheel.recipe import Package, Recipe
from forkwheel.release.inputs import LockedRequirement, PackageInputs, lock_text

BUILD_FORMAT = 1
"""Raised when, and only when, forkwheel writes other bytes from the same inputs."""


@dataclass(frozen=True)
class Key:
    """The named parts of a build key, sorted by name."""

    parts: tuple[tuple[str, str], ...]

    @property
    def digest(self) -> str:
        """The key itself: the SHA-256 (hex) over the parts."""
        return sha256(json.dumps(self.parts, separators=(",", ":")).encode()).hexdigest()

    def changes(self, other: Mapping[str, str]) -> tuple[tuple[str, str, str], ...]:
        """List (part, this key's value, the other's value) for each part that differs; a missing one is ``-``."""
        mine = dict(self.parts)
        names = sorted({*mine, *other})
        return tuple(
            (name, mine.get(name, "-"), other.get(name, "-")) for name in names if mine.get(name) != other.get(name)
        )


def build_key(
    recipe: Recipe,
    package: Package,
    *,
    tree_digest: str,
    series: Series,
    required: Mapping[str, str],
    inputs: PackageInputs,
) -> Key:
    """Compute a package's build key.

    ``required`` maps each of the package's ``requires`` to the version it is rewritten to.
    """
    parts = {
        "format": str(BUILD_FORMAT),
        "tree": tree_digest,
        "recipe/name": recipe.name,
        "recipe/local": recipe.local,
        "recipe/target": recipe.target,
        "series": " ".join(patch.name for patch in series.patches),
        "inputs": _digest(lock_text([inputs])),
    }
    parts |= {f"setting/{name}": _short(text) for name, text in package_settings(package).items()}
    parts |= {f"patch/{patch.name}": patch.sha256 for patch in series.patches}
    parts |= {f"requires/{requirement}": version for requirement, version in required.items()}
    parts |= {f"input/{item.name}": _input(item) for item in inputs.requirements}
    return Key(tuple(sorted(parts.items())))


def _short(text: str) -> str:
    """Keep what a person can read; name longer text by its digest."""
    return text if len(text) <= 64 and "\n" not in text else _digest(text)


def _digest(text: str) -> str:
    return "sha256:" + sha256(text.encode()).hexdigest()


def _input(item: LockedRequirement) -> str:
    marker = f" ; {item.marker}" if item.marker else ""
    return f"{item.version}{marker}"


def released_version(package: Package, *, local: str, revision: int) -> str:
    """Return the full version of a revision, such as ``0.6.3+sm120.1``."""
    return f"{package.version}+{local}.{revision}"


def development_version(package: Package, *, local: str, key: Key) -> str:
    """Return the version of a build that no lock knows, which sorts below every revision."""
    return f"{package.version}+{local}.dev.k{key.digest[:7]}"
