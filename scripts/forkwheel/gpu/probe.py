"""The worker that probes the hardware: clusters, peer access, and stores into a peer's memory.

Two ranks: each lets a *kernel* store into the other's memory and then reads its own. On some
machines copies between GPUs succeed where such stores are lost, and the fused kernels would
wait for them for ever. Nothing but the driver is needed; the ranks exchange handles as files.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from forkwheel.gpu.cuda_driver import Context
from forkwheel.gpu.rank_main import Rank

WORDS = 1 << 16
_SECONDS = 30.0


class Probe:
    """Answers one question a case: ``clusters``, ``peers`` or ``stores``."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.context = Context(rank.device)

    def run(self, case: dict[str, Any]) -> dict[str, Any]:
        """Run the probe that the case names."""
        if case["probe"] == "clusters":
            return {"clusters": [size for size in (1, 2, 4, 8) if self.context.launches_cluster(size)]}
        if case["probe"] == "peers":
            return {
                "peers": {str(peer): self.context.reaches(peer) for peer in case["gpus"] if peer != self.rank.device}
            }
        return self._stores(lost=bool(case.get("lost")))

    def _stores(self, *, lost: bool) -> dict[str, Any]:
        """Store into the next rank's memory, and count the words that the rank before stored into ours."""
        number, size = self.rank.rank, self.rank.world_size
        mine = self.context.allocate(4 * WORDS)
        scratch = self.context.allocate(4 * WORDS)
        self._tell("handle", self.context.export(mine))
        theirs = self.context.open(self._hear("handle", (number + 1) % size))
        self.context.fill(scratch if lost else theirs, number * WORDS + 1, WORDS)
        self._tell("stored", b"")
        before = (number - 1) % size
        self._hear("stored", before)
        found = self.context.read(mine, WORDS)
        first = before * WORDS + 1
        arrived = sum(value == first + index for index, value in enumerate(found))
        self._tell("read", b"")
        self._hear("read", (number + 1) % size)
        self.context.close(theirs)
        return {"words": WORDS, "arrived": arrived}

    def _file(self, what: str, rank: int) -> Path:
        return self.rank.meeting.with_name(f"{what}-{rank}")

    def _tell(self, what: str, content: bytes) -> None:
        file = self._file(what, self.rank.rank)
        unfinished = file.with_suffix(".part")
        unfinished.write_bytes(content)
        unfinished.replace(file)

    def _hear(self, what: str, rank: int) -> bytes:
        until = time.monotonic() + _SECONDS
        while not self._file(what, rank).exists():
            if time.monotonic() > until:
                raise TimeoutError(f"rank {rank} did not say {what!r} within {_SECONDS:g} s")
            time.sleep(0.005)
        return self._file(what, rank).read_bytes()

    def close(self) -> None:
        """Leave the context to the process's end."""


def start(rank: Rank) -> Probe:
    """Open a context on the rank's GPU."""
    return Probe(rank)
