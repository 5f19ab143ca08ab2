"""Wheels that were made before, in the cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from forkwheel.console import Log
from forkwheel.errors import VerificationError
from forkwheel.patching.apply import Change
from forkwheel.plan import Plan
from forkwheel.store import Store
from forkwheel.tree import Entry, sha256_file
from forkwheel.wheels.finish import Wheel

_RECORD = "build.json"


def read_made(slot: Path, *, store: Store, log: Log) -> tuple[Wheel, tuple[Change, ...]] | None:
    """Return a wheel that was made before, or None; one that was damaged since is removed, and made anew."""
    if not slot.exists():
        return None
    try:
        found = _read(json.loads((slot / _RECORD).read_bytes()), slot)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        found = None
    if found is None:
        log.warning(f"{slot} in the cache was damaged, and is made anew")
        store.discard(slot)
    return found


def _read(record: dict[str, Any], slot: Path) -> tuple[Wheel, tuple[Change, ...]] | None:
    wheel = Wheel(slot / record["filename"], record["filename"], record["sha256"], record["size"])
    changes = tuple(
        Change(path, Entry(*before) if before else None, Entry(*after) if after else None, None)
        for path, before, after in record["changes"]
    )
    return (wheel, changes) if sha256_file(wheel.path) == wheel.sha256 else None


def publish_made(wheel: Wheel, changes: tuple[Change, ...], *, store: Store, slot: Path) -> None:
    """Move the folder that a wheel was made in to its place in the cache."""
    record = {
        "filename": wheel.filename,
        "sha256": wheel.sha256,
        "size": wheel.size,
        "changes": [[change.path, _fields(change.before), _fields(change.after)] for change in changes],
    }
    (wheel.path.parent / _RECORD).write_text(json.dumps(record))
    store.publish(wheel.path.parent, slot)


def _fields(entry: Entry | None) -> list[str] | None:
    return None if entry is None else [entry.path, entry.mode, entry.sha256]


def check_against_lock(plan: Plan, wheel: Wheel) -> None:
    """Raise VerificationError where a wheel of a locked key is not the one that the lock describes."""
    locked = plan.locked
    if locked is None or locked.key != plan.key.digest or locked.version != plan.version:
        return
    if locked.sha256 != wheel.sha256:
        raise VerificationError(
            f"{wheel.filename}: the build gave sha256 {wheel.sha256}, the lock says {locked.sha256} for the same key",
            hint="the build is not reproducible here, or the lock was edited: compare the wheels member by member",
        )
    if (locked.filename, locked.size) != (wheel.filename, wheel.size):
        raise VerificationError(
            f"the build gave {wheel.filename} of {wheel.size} bytes, the lock says {locked.filename} of {locked.size}",
            hint="the lock was edited: restore it from version control",
        )
