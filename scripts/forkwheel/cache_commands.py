"""The command ``cache``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from forkwheel.cache import CacheEntry, disk_size, list_cache, prune
from forkwheel.console import Console, plural, readable_size
from forkwheel.errors import UsageError
from forkwheel.store import Store

if TYPE_CHECKING:
    from forkwheel.cli import Commands

SCHEMA = 1


def register(commands: Commands) -> None:
    """Add ``cache``."""
    parser = commands.add("cache", help="list what the cache holds, with sizes and ages, or free what is old")
    parser.add_argument("--prune", type=float, metavar="DAYS", help="remove what was not used for so many days")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    """List the cache, or prune it."""
    store, now = Store.default(), time.time()
    if options.prune is not None:
        if not options.prune >= 0:
            raise UsageError(f"--prune {options.prune:g} is no number of days", hint="give 0 or more")
        before = disk_size(store.root)
        removed = prune(store, days=options.prune, now=now)
        _show(removed, console, now=now)
        if not removed:
            console.line(f"nothing to free: there is nothing that was unused for {options.prune:g} days", kind="done")
            return 0
        console.line(
            f"freed {readable_size(before - disk_size(store.root))} in {plural(len(removed), 'entry')}", kind="done"
        )
        return 0
    entries = list_cache(store)
    _show(entries, console, now=now)
    console.line(
        f"{store.root}: {readable_size(disk_size(store.root))} in {plural(len(entries), 'entry')}; some share files"
    )
    return 0


def _show(entries: Iterable[CacheEntry], console: Console, *, now: float) -> None:
    entries = list(entries)
    if console.json_mode:
        console.data({"schema": SCHEMA, "entries": [_document(entry, now) for entry in entries]})
    if not entries:
        return
    rows = [(entry.kind, entry.name, readable_size(entry.size), f"{entry.age(now):.1f} days") for entry in entries]
    console.table(("kind", "entry", "size", "unused for"), rows)


def _document(entry: CacheEntry, now: float) -> dict[str, Any]:
    return {
        "kind": entry.kind,
        "name": entry.name,
        "path": str(entry.path),
        "bytes": entry.size,
        "unused_days": round(entry.age(now), 3),
    }
