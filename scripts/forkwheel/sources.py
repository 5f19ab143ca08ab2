"""Source trees from the cache, or fetched and projected into it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from forkwheel.errors import UsageError, VerificationError
from forkwheel.fetch import FetchContext, fetch_package
from forkwheel.patching.apply import PatchedTree, check_series, write_changes
from forkwheel.patching.series import load_series
from forkwheel.projection import copy_tree, project, projection_id
from forkwheel.recipe import GitSource, Package, Source
from forkwheel.store import Store
from forkwheel.tree import REGULAR, Entry, Tree


@dataclass(frozen=True)
class SourceTree:
    """A projected tree in the cache, which nobody writes to, and where it came from."""

    tree: Tree
    source: Source
    observed: tuple[tuple[str, str], ...]


def source_tree(package: Package, *, context: FetchContext, kind: str | None = None) -> SourceTree:
    """Return a package's projected tree.

    A tree that is in the cache already is used, whichever source it came from, since the
    projection is equal from all; ``kind`` insists on one kind of source.
    """
    sources = [source for source in package.sources if kind in (None, source.kind)]
    if not sources:
        raise UsageError(
            f"{package.name} has no source of kind {kind!r}",
            hint="its kinds are: " + ", ".join(source.kind for source in package.sources),
        )
    for source in sources:
        slot = _slot(context.store, package, source)
        if (found := _read(slot, source, store=context.store)) is not None:
            context.store.used(slot)
            return found
    with context.store.temporary() as work:
        with context.log.stage("fetch"):
            fetched = fetch_package(package, work / "tree", context=context, kind=kind)
        with context.log.stage("project"):
            tree = project(fetched.root, package)
        made = work / "slot"
        made.mkdir()
        fetched.root.rename(made / "tree")
        record = {"observed": fetched.observed, "entries": [[e.path, e.mode, e.sha256] for e in tree.entries]}
        (made / "tree.json").write_text(json.dumps(record))
        slot = context.store.publish(made, _slot(context.store, package, fetched.source))
    return SourceTree(Tree(slot / "tree", tree.entries), fetched.source, fetched.observed)


@contextmanager
def mending(source: SourceTree, store: Store) -> Iterator[None]:
    """Remove a tree from the cache where it turns out to be altered, so that the next run fetches it again."""
    try:
        yield
    except VerificationError as error:
        slot = source.tree.root.parent
        if slot.parent != store.path("trees", "x").parent:
            raise
        store.discard(slot)
        raise VerificationError(
            error.message, hint="it was removed from the cache: run again, and it is fetched anew"
        ) from error


def archive_tree(package: Package, *, context: FetchContext) -> SourceTree:
    """Return the tree of a package whose one wheel is taken as it is: the archive alone, not unpacked."""
    from forkwheel.fetch.context import observed
    from forkwheel.fetch.index import cached_archive

    (source,) = package.sources
    assert not isinstance(source, GitSource)
    archive, served_by = cached_archive(package, source, context=context)
    tree = Tree(archive.parent, (Entry(source.filename, REGULAR, source.sha256),))
    return SourceTree(tree, source, observed(source, served_by=served_by))


@contextmanager
def patched_tree(package: Package, *, context: FetchContext, kind: str | None = None) -> Iterator[PatchedTree]:
    """Give a private copy of a package's tree with its whole series applied, gone afterwards."""
    source = source_tree(package, context=context, kind=kind)
    series = load_series(package.series)
    changes = check_series(series, source.tree)
    with context.store.temporary() as work:
        yield write_changes(changes, copy_tree(source.tree, work / "tree"))


def _slot(store: Store, package: Package, source: Source) -> Path:
    name = sha256(f"{package.name} {source!r} {projection_id(package)}".encode()).hexdigest()
    return store.path("trees", name)


def _read(slot: Path, source: Source, *, store: Store) -> SourceTree | None:
    """Read a tree of the cache; one whose record is damaged is removed."""
    if not slot.exists():
        return None
    try:
        record = json.loads((slot / "tree.json").read_bytes())
        entries = tuple(Entry(*fields) for fields in record["entries"])
        kind, served_by = dict(record["observed"])["kind"], dict(record["observed"])["from"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        store.discard(slot)
        return None
    observed = (("kind", kind), ("from", served_by), ("cached", "yes"))
    return SourceTree(Tree(slot / "tree", entries), source, observed)
