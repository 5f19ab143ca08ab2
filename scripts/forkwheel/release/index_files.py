"""Ask the package index that the person's pip is configured with for a version's wheels and their digests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import cast

from unearth import PackageFinder
from unearth.fetchers import Fetcher

from forkwheel.errors import FetchError
from forkwheel.fetch.context import SILENCE_SECONDS
from forkwheel.fetch.http_client import open_client
from forkwheel.fetch.pip_settings import PipSettings, read_pip_settings


def index_files(
    wanted: Mapping[str, str], *, usable: Callable[[str, str], bool]
) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return, for each name and version, the file names and SHA-256 (hex) of its wheels, sorted.

    ``usable`` says of a name and a file name whether the file is wanted. Raise FetchError
    where a version has no such file.
    """
    settings = read_pip_settings()
    default = PackageFinder().sources[0]["url"]
    urls = [] if settings.no_index else [settings.index_url or default, *settings.extra_index_urls]
    found = {}
    with open_client(settings, urls, silence=SILENCE_SECONDS) as client:
        finder = _finder(cast(Fetcher, client), urls, settings)
        for name, version in wanted.items():
            found[name] = _files(finder, name, version, usable=usable)
    return found


def _finder(fetcher: Fetcher, urls: list[str], settings: PipSettings) -> PackageFinder:
    return PackageFinder(
        fetcher,
        index_urls=urls,
        find_links=settings.find_links,
        trusted_hosts=settings.trusted_hosts,
        ignore_compatibility=True,
        only_binary=[":all:"],
    )


def _files(
    finder: PackageFinder, name: str, version: str, *, usable: Callable[[str, str], bool]
) -> tuple[tuple[str, str], ...]:
    files: dict[str, str] = {}
    for filename, sha256 in _links(finder, name, version):
        if usable(name, filename) and files.setdefault(filename, sha256) != sha256:
            raise FetchError(
                f"two indexes serve {filename}, with the SHA-256 {files[filename]} and {sha256}",
                hint="configure pip with the one that you trust",
            )
    if not files:
        raise FetchError(
            f"the index has no wheel of {name} {version} that can be locked",
            hint="it must serve a wheel for Linux, with its SHA-256; choose another version with `constraints`",
        )
    return tuple(sorted(files.items()))


def _links(finder: PackageFinder, name: str, version: str) -> Iterator[tuple[str, str]]:
    for package in finder.find_matches(f"{name}=={version}", allow_yanked=True):
        sha256 = (package.link.hash_option or {}).get("sha256")
        if package.link.filename.endswith(".whl") and sha256:
            yield package.link.filename, sha256[0].lower()
