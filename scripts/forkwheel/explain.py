"""Why a build key is what it is, and which part of it changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from forkwheel.plan import Plan

_LONGEST = 60
"""Characters of an unchanged value that are shown; the JSON document has it whole."""


@dataclass(frozen=True)
class Explanation:
    """A package's key, part by part, against the lock or the last build.

    ``against`` is None where there is nothing to compare with. ``rows`` are (part, value, the
    other's value, ``changed`` or nothing).
    """

    package: str
    version: str
    key: str
    against: str | None
    rows: tuple[tuple[str, str, str, str], ...]

    def summary(self) -> str:
        """Say in one line whether the key changed, and in what."""
        head = f"{self.package} {self.version}: key {self.key}"
        if self.against is None:
            return f"{head}; there is neither a lock nor an earlier build to compare with"
        changed = [part for part, _, _, mark in self.rows if mark]
        return f"{head}; against the {self.against}: " + (f"changed: {', '.join(changed)}" if changed else "unchanged")

    def changes(self) -> list[str]:
        """Return a line for each changed part, with both values whole but for their digests."""
        return [f"{part}: {_short(value)}, was {_short(other)}" for part, value, other, mark in self.rows if mark]

    def others(self) -> list[tuple[str, str]]:
        """Return (part, value) of what did not change, cut short."""
        return [(part, _cut(_short(value))) for part, value, _, mark in self.rows if not mark]

    def document(self) -> dict[str, Any]:
        """Return the explanation for JSON."""
        return {
            "package": self.package,
            "version": self.version,
            "key": self.key,
            "against": self.against,
            "parts": [
                {"part": part, "value": value, "other": other, "changed": bool(mark)}
                for part, value, other, mark in self.rows
            ],
        }


def _short(value: str) -> str:
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{52}\b", r"\1", value)


def _cut(value: str) -> str:
    return value if len(value) <= _LONGEST else f"{value[: _LONGEST - 1]}…"


def explanation_rows(plans: tuple[Plan, ...], previous: Mapping[str, Any] | None) -> tuple[Explanation, ...]:
    """Explain each plan's key against the lock, or where the lock has no such wheel, the last manifest."""
    last = dict(_last_parts(previous)) if previous else {}
    return tuple(_explanation(plan, last.get(plan.label)) for plan in plans)


def _last_parts(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, str]]]:
    for package in manifest["packages"]:
        for wheel in package.get("wheels", ()):
            yield f"{package['name']} {wheel['tags']}", wheel["parts"]
        yield package["name"], package["parts"]


def _explanation(plan: Plan, last: Mapping[str, str] | None) -> Explanation:
    against: str | None = None
    other: dict[str, str] | None = None
    if plan.locked is not None:
        against, other = f"lock of {plan.locked.version}", dict(plan.locked.parts)
    elif last is not None:
        against, other = "last build", dict(last)
    changed = {name for name, _, _ in plan.key.changes(other)} if other is not None else set()
    mine = dict(plan.key.parts)
    rows = tuple(
        (name, mine.get(name, "-"), (other or {}).get(name, "-"), "changed" if name in changed else "")
        for name in sorted({*mine, *(other or {})})
    )
    return Explanation(plan.label, plan.version, plan.key.digest, against, rows)
