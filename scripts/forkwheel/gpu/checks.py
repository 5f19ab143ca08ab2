"""Named checks and their outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

PASS, FAIL, SKIP = "PASS", "FAIL", "SKIP"


@dataclass(frozen=True)
class Check:
    """One check: ``PASS`` only where it ran here, ``SKIP`` with its reason, ``FAIL`` with what is wrong.

    ``figures`` holds what was measured, as JSON values.
    """

    name: str
    status: str
    detail: str
    figures: dict[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return the check as a JSON object."""
        document = {"name": self.name, "status": self.status, "detail": self.detail}
        return document | ({"figures": self.figures} if self.figures else {})


def passed(name: str, detail: str, **figures: Any) -> Check:
    """Return a check that ran and passed."""
    return Check(name, PASS, detail, figures)


def failed(name: str, detail: str, **figures: Any) -> Check:
    """Return a check that failed."""
    return Check(name, FAIL, detail, figures)


def skipped(name: str, reason: str) -> Check:
    """Return a check that could not run here."""
    return Check(name, SKIP, reason)


def counts(checks: Iterable[Check]) -> dict[str, int]:
    """Count the checks of each status."""
    found = Counter(check.status for check in checks)
    return {status: found[status] for status in (PASS, FAIL, SKIP)}
