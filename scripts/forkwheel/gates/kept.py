"""What an audit found, kept in the cache under the digests of what it read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forkwheel.gates.files import SourceFile
from forkwheel.store import Store, write_whole

# Raised whenever the same sources may give other gates: what is in the cache is then not used.
ANALYSER = 3


@dataclass(frozen=True)
class Slot:
    """A file of the cache; without one, nothing is kept."""

    path: Path | None

    @classmethod
    def of(cls, store: Store | None, files: Iterable[SourceFile], asked: object) -> Slot:
        """Name the slot for what is asked of some files."""
        if store is None:
            return cls(None)
        digest = hashlib.sha256(repr((ANALYSER, asked)).encode())
        for file in files:
            digest.update(f"{file.root}\0{file.path}\0{file.digest}\n".encode("utf-8", "surrogateescape"))
        return cls(store.path("audits", f"{digest.hexdigest()}.json"))

    def read(self) -> dict[str, Any] | None:
        """Return what is kept; None where there is nothing, or nothing that can be read."""
        if self.path is None:
            return None
        try:
            data = json.loads(self.path.read_bytes())
        except (OSError, ValueError):
            return None
        return data if isinstance(data, dict) else None

    def write(self, data: dict[str, Any]) -> None:
        """Keep something."""
        if self.path is not None:
            write_whole(self.path, json.dumps(data).encode())
