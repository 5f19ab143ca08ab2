"""Fetch pinned sources: git, sdist and wheel behind one interface, kept in one cache."""

from __future__ import annotations

from pathlib import Path

from forkwheel.errors import FetchError, PinMismatchError, UnreachableError, UsageError
from forkwheel.fetch.context import FetchContext, Fetched
from forkwheel.fetch.masking import mask
from forkwheel.fetch.mirrors import parse_mirrors
from forkwheel.recipe import GitSource, Package, Source

__all__ = ["FetchContext", "Fetched", "fetch_package", "fetch_source", "parse_mirrors"]


def fetch_package(package: Package, dest: Path, *, context: FetchContext, kind: str | None = None) -> Fetched:
    """Fetch the first of a package's sources, or of those of one ``kind``, that can be reached.

    Another source is tried only after UnreachableError. With ``offline`` the first one that
    is in the cache is used. Raise UsageError if the package has no source of that kind.
    """
    sources = [source for source in package.sources if kind in (None, source.kind)]
    if not sources:
        kinds = ", ".join(dict.fromkeys(source.kind for source in package.sources))
        raise UsageError(f"{package.name} has no {kind} source", hint=f"its sources are: {kinds}")
    if context.offline:
        return fetch_source(package, _first_cached(package, sources, context), dest, context=context)
    unreachable: list[UnreachableError] = []
    for source, following in zip(sources, [*sources[1:], None], strict=True):
        try:
            return fetch_source(package, source, dest, context=context)
        except UnreachableError as error:
            unreachable.append(error)
            if following is not None:
                context.log.warning(f"{source.kind}: {error.message}; trying the {following.kind}")
    if len(unreachable) == 1:
        raise unreachable[0]
    reasons = "; ".join(error.message for error in unreachable)
    raise UnreachableError(f"no source of {package.name} can be reached: {reasons}", hint=unreachable[-1].hint)


def fetch_source(package: Package, source: Source, dest: Path, *, context: FetchContext) -> Fetched:
    """Fetch one source from the cache or its origin, verify its pin, and unpack it below ``dest``."""
    if isinstance(source, GitSource):
        from forkwheel.fetch.git import fetch_git

        try:
            return fetch_git(source, dest, context=context)
        except PinMismatchError as error:
            raise PinMismatchError(f"{source.at}{error.message}", hint=error.hint) from error
    from forkwheel.fetch.index import fetch_file

    return fetch_file(package, source, dest, context=context)


def _first_cached(package: Package, sources: list[Source], context: FetchContext) -> Source:
    from forkwheel.fetch import git, index

    for source in sources:
        if isinstance(source, GitSource):
            if git.is_cached(source, context.store):
                return source
        elif index.is_cached(source, context.store):
            return source
    needed = " or ".join(mask(source.pin) for source in sources)
    raise FetchError(f"the cache has no source of {package.name}; it needs {needed}", hint="run once without --offline")
