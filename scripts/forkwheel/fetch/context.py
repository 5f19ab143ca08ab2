"""What every kind of source is given, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forkwheel.console import Log
from forkwheel.recipe import Source
from forkwheel.store import Store

SILENCE_SECONDS = 50.0
"""How long a remote may say nothing: a hung one must end in an error within a minute."""


@dataclass(frozen=True)
class FetchContext:
    """Where fetched things are kept and reported, and how remotes are reached.

    ``mirrors`` are pairs of a git remote's URL and the URL or path used in its place.
    ``silence`` is the number of seconds after which a silent remote counts as hung.
    """

    store: Store
    log: Log
    offline: bool = False
    mirrors: tuple[tuple[str, str], ...] = ()
    silence: float = SILENCE_SECONDS


@dataclass(frozen=True)
class Fetched:
    """An unpacked source.

    ``root`` holds the complete upstream tree (of a git source: the content of its
    ``subdirectory``). ``observed`` is what differs from run to run, for the record
    beside the wheels: where the source came from, and whether it was cached.
    """

    root: Path
    source: Source
    observed: tuple[tuple[str, str], ...]


def observed(source: Source, *, served_by: str) -> tuple[tuple[str, str], ...]:
    """Describe how a source was had; an empty ``served_by`` means the cache."""
    cached = not served_by
    return (("kind", source.kind), ("from", served_by or "cache"), ("cached", "yes" if cached else "no"))
