"""The shared objects of a build, and the folder of the cache that keeps them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forkwheel.errors import VerificationError
from forkwheel.store import write_whole
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


def read_slot(slot: Path) -> tuple[BuiltModule, ...] | None:
    """Return the modules that an earlier build left; None where there was none.

    Raise VerificationError where an object was altered since.
    """
    try:
        rows: list[dict[str, Any]] = json.loads((slot / _RECORD).read_bytes())["modules"]
    except FileNotFoundError:
        return None
    modules = []
    for row in rows:
        module = BuiltModule(
            name=row["name"],
            path=slot / row["path"],
            sha256=row["sha256"],
            size=row["size"],
            device=tuple(row["device"]),
            units=tuple((name, command) for name, command in row["units"]),
            link=row["link"],
        )
        found = sha256_file(module.path) if module.path.is_file() else "nothing"
        if found != module.sha256:
            raise VerificationError(
                f"{module.path} in the cache was altered: its sha256 is {found}, not {module.sha256}",
                hint=f"remove the folder {slot} and run again",
            )
        modules.append(module)
    return tuple(modules)
