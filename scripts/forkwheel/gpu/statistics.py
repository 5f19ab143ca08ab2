"""Medians and spreads of timings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True)
class Timing:
    """A median in microseconds, the quartiles around it, and how far two halves of the samples differ.

    ``drift`` is the difference of the medians of the even and the odd rounds, relative to the
    median: what two measurements of one and the same thing differ by.
    """

    median: float
    low: float
    high: float
    drift: float

    @property
    def noise(self) -> float:
        """The relative noise: half the distance of the quartiles, or the drift where that is larger."""
        return max((self.high - self.low) / 2 / self.median, self.drift)


def timing(rounds: Sequence[Sequence[float]]) -> Timing:
    """Sum up rounds of samples (microseconds); there must be two rounds of two samples at least."""
    samples = [sample for one in rounds for sample in one]
    low, _, high = quantiles(samples, n=4, method="inclusive")
    middle = median(samples)
    even = median(sample for one in rounds[::2] for sample in one)
    odd = median(sample for one in rounds[1::2] for sample in one)
    return Timing(middle, low, high, abs(even - odd) / middle)


def slowest(timings: Sequence[Timing]) -> Timing:
    """Return the ranks' slowest: a collective is done when its last rank is."""
    return max(timings, key=lambda one: one.median)
