"""Ask the package index that the person's pip is configured with for a version's wheels and their digests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from forkwheel.errors import FetchError, UnreachableError
from forkwheel.fetch.masking import mask
from forkwheel.wheels.pip import index_settings


def index_files(
    wanted: Mapping[str, str], *, usable: Callable[[str, str], bool], folder: Path
) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return, for each name and version, the file names and SHA-256 (hex) of its wheels, sorted.

    ``usable`` says of a name and a file name whether the file is wanted. ``folder`` is an empty folder to run pip in. Raise FetchError where a version has none.
    """
    settings = index_settings(folder=folder)
    found = {}
    for name, version in wanted.items():
        files: dict[str, str] = {}
        for filename, sha256 in _links(name, version, settings=settings):
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
        found[name] = tuple(sorted(files.items()))
    return found


def _links(name: str, version: str, *, settings: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    from httpx2 import HTTPError
    from unearth import PackageFinder
    from unearth.auth import MultiDomainBasicAuth
    from unearth.fetchers.sync import PyPIClient

    urls = _index_urls(settings)
    trusted = settings.get("PIP_TRUSTED_HOST", "").split()
    timeout = float(settings.get("PIP_TIMEOUT") or settings.get("PIP_DEFAULT_TIMEOUT") or 15)
    verify = settings.get("PIP_CERT") or True
    with PyPIClient(trusted_hosts=trusted, verify=verify, timeout=timeout, proxy=settings.get("PIP_PROXY")) as client:
        client.auth = MultiDomainBasicAuth(index_urls=urls)
        finder = PackageFinder(
            client,
            index_urls=urls,
            find_links=settings.get("PIP_FIND_LINKS", "").split(),
            trusted_hosts=trusted,
            ignore_compatibility=True,
            only_binary=[":all:"],
        )
        try:
            packages = list(finder.find_matches(f"{name}=={version}", allow_yanked=True))
        except (HTTPError, OSError) as error:
            raise UnreachableError(
                f"the package index cannot be asked for {name}: {mask(str(error))}",
                hint="see that the index that pip is configured with can be reached",
            ) from error
    for package in packages:
        sha256: str | list[str] | None = (package.link.hashes or {}).get("sha256")
        if package.link.filename.endswith(".whl") and sha256:
            yield package.link.filename, sha256 if isinstance(sha256, str) else sha256[0]


def _index_urls(settings: Mapping[str, str]) -> list[str]:
    if settings.get("PIP_NO_INDEX", "").lower() in ("1", "true", "yes", "on"):
        return []
    from pip._internal.models.index import PyPI

    first = settings.get("PIP_INDEX_URL") or PyPI.simple_url
    return [first, *settings.get("PIP_EXTRA_INDEX_URL", "").split()]
