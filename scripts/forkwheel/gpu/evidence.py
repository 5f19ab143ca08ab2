"""The records of earlier runs that a recipe keeps, and whether each is still about the wheels that are locked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forkwheel.gpu.verdict import SCHEMA
from forkwheel.recipe import Recipe
from forkwheel.release.lock import load_lock, wheels_lock_file
from forkwheel.release.shapes import fields, list_of, number, text

CURRENT, STALE, UNREADABLE = "current", "stale", "unreadable"
_MARK = {"kind", "date", "statement"}
_RECORD = fields(
    {
        "schema": number(1, SCHEMA),
        "kind": text(),
        "date": text(),
        "statement": text(),
        "wheels": list_of(fields({"sha256": text()})),
    },
    {"verdict": text()},
)


@dataclass(frozen=True)
class Evidence:
    """A kept record: its file, what it says it ran on, and whether it is about the locked wheels.

    Of an ``unreadable`` one the statement says what is wrong.
    """

    file: Path
    kind: str
    date: str
    statement: str
    verdict: str
    state: str


def evidence(recipe: Recipe) -> list[Evidence]:
    """List a recipe's kept records; those about other wheels than the lock's are ``stale``.

    JSON files that are no records of a run on GPUs are left out.
    """
    lock = load_lock(wheels_lock_file(recipe.folder))
    revision = lock.revision(recipe.revision)
    locked = [wheel.sha256 for wheel in revision.wheels] if revision else []
    found = [_evidence(file, locked) for file in sorted((recipe.folder / "evidence").glob("*.json"))]
    return [item for item in found if item is not None]


def _evidence(file: Path, locked: Iterable[str]) -> Evidence | None:
    try:
        document = json.loads(file.read_bytes())
        if not isinstance(document, dict) or not set(document) >= _MARK:
            return None
        _RECORD(document, "")
    except (ValueError, RecursionError) as error:
        return Evidence(file, "", "", f"no record that can be read: {error}", "", UNREADABLE)
    return Evidence(
        file=file,
        kind=document["kind"],
        date=document["date"],
        statement=document["statement"],
        verdict=document.get("verdict", ""),
        state=evidence_state(document, locked),
    )


def evidence_state(document: Mapping[str, Any], locked: Iterable[str]) -> str:
    """Tell whether a record ran every locked wheel: only then is it current."""
    ran = {wheel["sha256"] for wheel in document["wheels"]}
    wanted = set(locked)
    return CURRENT if wanted and wanted <= ran else STALE
