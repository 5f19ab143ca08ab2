"""The shared objects of a build, and the folder of the cache that keeps them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forkwheel.console import Log
from forkwheel.store import Store, write_whole
from forkwheel.tree import sha256_file

_RECORD = "build.json"


@dataclass(frozen=True)
class BuiltModule:
    """A module's shared object; ``device`` are the SHA-256 of the device code that it holds, in order.

    ``units`` maps each source to the command that compiled it, ``link`` is the last command;
    their paths are relative to the roots.
    """

    name: str
    path: Path
    sha256: str
    size: int
    device: tuple[str, ...]
    units: tuple[tuple[str, str], ...]
    link: str


def hand_out(modules: Sequence[BuiltModule], dest: Path) -> tuple[BuiltModule, ...]:
    """Copy the objects to ``dest/MODULE/``, and return the modules as they are there."""
    handed = []
    for module in modules:
        target = dest / module.name / module.path.name
        write_whole(target, module.path.read_bytes())
        target.chmod(0o755)
        handed.append(replace(module, path=target))
    return tuple(handed)


def write_slot(folder: Path, modules: Sequence[BuiltModule]) -> None:
    """Write the record beside the objects in ``folder``."""
    rows = [{**vars(module), "path": str(module.path.relative_to(folder))} for module in modules]
    write_whole(folder / _RECORD, json.dumps({"modules": rows}).encode())


def read_slot(slot: Path, *, store: Store, log: Log) -> tuple[BuiltModule, ...] | None:
    """Return the modules that an earlier build left, or None; where one was damaged since, all are removed."""
    if not slot.exists():
        return None
    try:
        return tuple(_read(row, slot) for row in json.loads((slot / _RECORD).read_bytes())["modules"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        log.warning(f"{slot} in the cache was damaged, and is made anew")
        store.discard(slot)
        return None


def _read(row: Mapping[str, Any], slot: Path) -> BuiltModule:
    module = BuiltModule(
        name=row["name"],
        path=slot / row["path"],
        sha256=row["sha256"],
        size=row["size"],
        device=tuple(row["device"]),
        units=tuple((name, command) for name, command in row["units"]),
        link=row["link"],
    )
    if sha256_file(module.path) != module.sha256:
        raise ValueError(f"{module.path} was altered")
    return module
