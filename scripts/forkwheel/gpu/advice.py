"""From timings to advice: up to how many tokens fusion wins here, by more than the noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from forkwheel.gpu.statistics import Timing

#: How much faster the fusion must be, beyond twice the noise of both timings.
MARGIN = 0.05


@dataclass(frozen=True)
class Point:
    """One shape at one world size: the fusion's timing by shot, and those of what would run otherwise."""

    world_size: int
    hidden: int
    tokens: int
    fused: Mapping[str, Timing]
    others: Mapping[str, Timing]

    @property
    def best(self) -> Timing:
        """The faster of the fusion's shots."""
        return min(self.fused.values(), key=lambda one: one.median)

    @property
    def shot(self) -> str:
        """The faster shot's name."""
        return min(self.fused, key=lambda name: self.fused[name].median)

    @property
    def other(self) -> Timing:
        """The fastest of what would run otherwise."""
        return min(self.others.values(), key=lambda one: one.median)

    @property
    def ratio(self) -> float:
        """The fusion's time over the other's."""
        return self.best.median / self.other.median

    @property
    def wins(self) -> bool:
        """Whether the fusion is faster by the margin and by twice the noise of both."""
        return self.ratio <= 1 - max(MARGIN, 2 * (self.best.noise + self.other.noise))


@dataclass(frozen=True)
class Advice:
    """For one world size: fusion wins up to ``tokens`` (0: nowhere) of the ``largest`` that was timed."""

    world_size: int
    tokens: int
    largest: int

    @property
    def kind(self) -> str:
        """Return ``on``, ``limited`` or ``off``."""
        if not self.tokens:
            return "off"
        return "on" if self.tokens == self.largest else "limited"


def advise(points: Sequence[Point], *, tokens: Sequence[int], hidden: Sequence[int]) -> list[Advice]:
    """Return the advice for each world size: what holds at all hidden sizes and all smaller token counts.

    ``tokens`` and ``hidden`` are the sizes that were to be timed: beyond one that is missing
    (it failed) nothing is claimed.
    """
    found = []
    for world_size in sorted({point.world_size for point in points}):
        won = {(point.hidden, point.tokens) for point in points if point.world_size == world_size and point.wins}
        limit = 0
        for count in sorted(tokens):
            if any((size, count) not in won for size in hidden):
                break
            limit = count
        found.append(Advice(world_size, limit, max(tokens)))
    return found


def crossover(points: Sequence[Point]) -> float | None:
    """Return the token count at which the fusion becomes slower, between two timed ones; None where it never does."""
    ordered = sorted(points, key=lambda one: one.tokens)
    for before, after in pairwise(ordered):
        if before.ratio < 1 <= after.ratio:
            share = -math.log(before.ratio) / (math.log(after.ratio) - math.log(before.ratio))
            return float(before.tokens * (after.tokens / before.tokens) ** share)
    return None


def one_line(advice: Sequence[Advice], texts: Mapping[str, str]) -> str:
    """Say it in one line; ``texts`` gives the settings for ``on``, ``limited`` and ``off``."""
    parts = []
    for item in advice:
        settings = texts[item.kind].format(tokens=item.tokens, below=max(item.world_size // 2, 1))
        where = {
            "off": "fusion does not win at the fewest tokens: ",
            "limited": f"fusion wins up to {item.tokens} tokens: ",
            "on": f"fusion wins at every size timed (up to {item.largest} tokens): ",
        }[item.kind]
        parts.append(f"{item.world_size} ranks: {where}{settings}")
    return "; ".join(parts)
