"""Sdists and wheels: found through the person's package index, kept in the cache."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import httpx2
from unearth import Link, PackageFinder, Source
from unearth.collector import is_secure_origin
from unearth.fetchers import Fetcher

from forkwheel.errors import FetchError, PinMismatchError, UnreachableError
from forkwheel.fetch.context import FetchContext, Fetched, observed
from forkwheel.fetch.download import download
from forkwheel.fetch.http_client import IndexClient, explain_http, open_client
from forkwheel.fetch.masking import mask
from forkwheel.fetch.pip_settings import PipSettings, read_pip_settings
from forkwheel.fetch.unpack import unpack_sdist, unpack_wheel
from forkwheel.recipe import FileSource, Package
from forkwheel.store import Store
from forkwheel.tree import sha256_file


def archive_of(source: FileSource, store: Store) -> Path:
    """Return where the cache keeps, or would keep, an archive."""
    return store.root / "archives" / source.sha256 / source.filename


def is_cached(source: FileSource, store: Store) -> bool:
    """Tell whether an archive is in the cache; whether it is whole is found on use."""
    return archive_of(source, store).is_file()


def fetch_file(package: Package, source: FileSource, dest: Path, *, context: FetchContext) -> Fetched:
    """Have an archive in the cache, check its SHA-256, and unpack it to ``dest``/tree."""
    archive, served_by = cached_archive(package, source, context=context)
    root = unpack_sdist(archive, dest) if source.kind == "sdist" else unpack_wheel(archive, dest)
    return Fetched(root, source, observed(source, served_by=served_by))


def cached_archive(package: Package, source: FileSource, *, context: FetchContext) -> tuple[Path, str]:
    """Return an archive's verified file, and the URL that served it if it was not cached.

    A damaged file in the cache is fetched again; ``offline`` that is an error.
    """
    archive = archive_of(source, context.store)

    def waiting() -> None:
        context.log.info(f"another run fetches {source.filename}; waiting for it")

    with context.store.lock(f"archive-{source.sha256}", waiting=waiting):
        if archive.is_file():
            found = sha256_file(archive)
            if found == source.sha256:
                return archive, ""
            _report_damage(archive, source, found, context)
        if context.offline:
            raise FetchError(f"{source.filename} is not in the cache", hint="run once without --offline")
        archive.parent.mkdir(parents=True, exist_ok=True)
        return archive, _from_index(package, source, archive, context)


def _report_damage(archive: Path, source: FileSource, found: str, context: FetchContext) -> None:
    message = f"the cached {source.filename} is damaged: its SHA-256 is {found}, not {source.sha256}"
    if context.offline:
        raise PinMismatchError(message, hint=f"remove {archive} and run again without --offline")
    context.log.warning(f"{message}; fetching it again")
    archive.unlink()


def _from_index(package: Package, source: FileSource, archive: Path, context: FetchContext) -> str:
    context.log.info(f"fetching {source.filename} from the package index")
    settings = read_pip_settings()
    locations = index_locations(settings, context)
    with open_client(settings, [url for url, _ in locations], silence=context.silence) as client:
        link = find_link(package, source, locations, client=client)
        download(link.url_without_fragment, archive, source=source, client=client, context=context)
    return mask(link.url_without_fragment)


def find_link(package: Package, source: FileSource, locations: list[tuple[str, str]], *, client: IndexClient) -> Link:
    """Find the pinned file at the first location that has it, yanked or for another platform too.

    A location that can't be asked is passed over while another has the file. Raise
    PinMismatchError if only other hashes are announced for that name, UnreachableError if
    some location could not be reached, and FetchError otherwise.
    """
    problems: list[FetchError] = []
    announced = ""
    for url, kind in locations:
        try:
            for link in _links(package, source, url, kind, client=client):
                found = _announced_sha256(link)
                if found in ("", source.sha256):
                    return link
                announced = announced or f"{found} at {mask(url)}"
        except FetchError as error:
            problems.append(error)
    if announced:
        message = f"{source.at}{source.filename} has the SHA-256 {announced}; the recipe pins {source.sha256}"
        raise PinMismatchError(message, hint="the file was replaced or the pin is wrong: do not use it before you know")
    if problems:
        raise min(problems, key=lambda problem: isinstance(problem, UnreachableError))
    where = ", ".join(mask(url) for url, _ in locations)
    raise FetchError(f"no package index has {source.filename}: {where}", hint="check pip's index-url and the file name")


def index_locations(settings: PipSettings, context: FetchContext) -> list[tuple[str, str]]:
    """List where to look, in pip's order: link pages and folders, then the indexes."""
    locations = []
    for link in settings.find_links:
        path = link if "://" in link else str(Path(link).expanduser().absolute())
        if "://" in link or Path(path).exists():
            locations.append((path, "find_links"))
        else:
            context.log.warning(f"pip's find-links names {link}, which does not exist")
    if not settings.no_index:
        default = PackageFinder().sources[0]["url"]
        indexes = [settings.index_url or default, *settings.extra_index_urls]
        locations += [(Path(url).absolute().as_uri() if "://" not in url else url, "index") for url in indexes]
    if not locations:
        raise FetchError(
            "pip is configured with no-index and no find-links", hint="give it a find-links or an index-url"
        )
    return locations


def _links(package: Package, source: FileSource, url: str, kind: str, *, client: IndexClient) -> list[Link]:
    fetcher = cast(Fetcher, client)
    if "://" in url and not is_secure_origin(fetcher, Link(url)):
        message = f"{mask(url)} is neither HTTPS nor a trusted host, so pip would not use it"
        raise FetchError(message, hint="use an https:// index, or name its host in pip's trusted-host")
    finder = PackageFinder(fetcher, ignore_compatibility=True)
    finder.sources = [Source(url=url, type=kind)]
    try:
        packages = finder.find_all_packages(package.name, allow_yanked=True)
        return [found.link for found in packages if found.link.filename == source.filename]
    except httpx2.HTTPError as error:
        raise explain_http(error, url) from error
    except (OSError, ValueError, LookupError, AttributeError, TypeError) as error:
        message = f"{mask(url)} cannot be read as a package index: {error}"
        raise FetchError(message, hint="check pip's index-url and find-links") from error


def _announced_sha256(link: Link) -> str:
    values = (link.hash_option or {}).get("sha256", [""])
    return str(values[0]).lower()
