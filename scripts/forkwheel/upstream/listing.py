"""What the person's package index has of a package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import httpx2
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version
from unearth import Link, PackageFinder, Source
from unearth.fetchers import Fetcher

from forkwheel.errors import FetchError, UnreachableError, UsageError
from forkwheel.fetch import FetchContext
from forkwheel.fetch.http_client import explain_http, open_client
from forkwheel.fetch.index import index_locations
from forkwheel.fetch.masking import mask
from forkwheel.fetch.pip_settings import read_pip_settings
from forkwheel.recipe import FileSource
from forkwheel.tree import sha256_file


@dataclass(frozen=True)
class Release:
    """One version of a package on the index, with the files that are pinned by a SHA-256.

    ``yanked`` says why it was withdrawn, and is None for one that was not.
    """

    version: Version
    files: tuple[FileSource, ...]
    yanked: str | None

    @property
    def sdist(self) -> FileSource | None:
        """The source archive, where there is one."""
        return next((file for file in self.files if file.kind == "sdist"), None)

    @property
    def wheels(self) -> tuple[FileSource, ...]:
        """All wheels, sorted by name."""
        return tuple(file for file in self.files if file.kind == "wheel")


def list_releases(name: str, *, context: FetchContext) -> dict[Version, Release]:
    """Return all releases of a package, oldest first; raise FetchError where the index has none."""
    if context.offline:
        raise FetchError(f"the releases of {name} are on the package index", hint="run without --offline")
    settings = read_pip_settings()
    locations = index_locations(settings, context)
    found: dict[str, tuple[Version, FileSource, str | None]] = {}
    with open_client(settings, [url for url, _ in locations], silence=context.silence) as client:
        for url, kind in locations:
            finder = PackageFinder(cast(Fetcher, client), ignore_compatibility=True)
            finder.sources = [Source(url=url, type="find_links" if kind == "find_links" else "index")]
            try:
                packages = list(finder.find_all_packages(name, allow_yanked=True))
            except httpx2.HTTPError as error:
                raise explain_http(error, url) from error
            for item in packages:
                if (file := _file(item.link)) is not None and item.version:
                    found.setdefault(file.filename, (_version(item.version), file, _yanked(item.link)))
    if not found:
        where = ", ".join(mask(url) for url, _ in locations)
        raise FetchError(f"no package index has {name}: {where}", hint="check the package's name and pip's index-url")
    return _grouped(found)


def _grouped(found: dict[str, tuple[Version, FileSource, str | None]]) -> dict[Version, Release]:
    versions: dict[Version, list[tuple[FileSource, str | None]]] = {}
    for _, (version, file, yanked) in sorted(found.items()):
        versions.setdefault(version, []).append((file, yanked))
    releases = {}
    for version, files in sorted(versions.items()):
        reasons = [yanked for _, yanked in files]
        withdrawn = next((reason for reason in reasons if reason is not None), None) if None not in reasons else None
        releases[version] = Release(version, tuple(file for file, _ in files), withdrawn)
    return releases


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")


def _yanked(link: object) -> str | None:
    if not getattr(link, "is_yanked", False):
        return None
    return getattr(link, "yank_reason", None) or "without a reason"


def _file(link: Link) -> FileSource | None:
    """Return a link's file with the SHA-256 that its page gives, or that it has where it is on this machine."""
    name = link.filename
    kind = "wheel" if name.endswith(".whl") else "sdist" if name.endswith((".tar.gz", ".zip")) else ""
    sha256 = (link.hash_option or {}).get("sha256", [""])[0].lower()
    if kind and not sha256 and link.is_file:
        sha256 = sha256_file(link.file_path)
    return FileSource(kind, name, sha256) if kind and sha256 else None


def find_release(name: str, version: Version, *, context: FetchContext) -> Release:
    """Return a release that exists and was not yanked; raise UsageError or FetchError otherwise."""
    releases = list_releases(name, context=context)
    if version not in releases:
        near = sorted(releases, key=lambda other: (abs(_rank(releases, other, version)), other))[:4]
        shown = ", ".join(map(str, sorted(near)))
        raise UsageError(f"the package index has no {name} {version}", hint=f"near it are: {shown}")
    release = releases[version]
    if release.yanked is not None:
        raise FetchError(f"{name} {version} was yanked by its authors: {release.yanked}", hint="choose another version")
    return release


def check_offered(name: str, version: Version, *, context: FetchContext) -> None:
    """Raise as ``find_release`` does, though the cache may have the release; unless the index cannot be asked."""
    if not context.offline:
        try:
            find_release(name, version, context=context)
        except UnreachableError as error:
            context.log.warning(f"whether {name} {version} was yanked is not known: {error.message}")


def _rank(releases: dict[Version, Release], other: Version, wanted: Version) -> int:
    ordered = sorted({*releases, wanted})
    return ordered.index(other) - ordered.index(wanted)


def cached_file(name: str, version: Version, *, kind: str, context: FetchContext) -> FileSource | None:
    """Return a version's sdist, or one of its wheels, that the cache has already."""
    pattern = f"*/*-{version}.tar.gz" if kind == "sdist" else f"*/*-{version}-*.whl"
    for file in sorted((context.store.root / "archives").glob(pattern)):
        stem = file.name.removesuffix(f"-{version}.tar.gz") if kind == "sdist" else file.name.split("-")[0]
        if canonicalize_name(stem) == canonicalize_name(name):
            return FileSource(kind, file.name, file.parent.name)
    return None
