"""The revisions that a series is judged against: what `--to` may name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from forkwheel.errors import FetchError, UsageError
from forkwheel.fetch import FetchContext
from forkwheel.fetch.index import cached_archive
from forkwheel.recipe import FileSource, Package, wheel_tags
from forkwheel.sources import source_tree
from forkwheel.tree import Tree
from forkwheel.upstream.archives import open_archive
from forkwheel.upstream.files import Files
from forkwheel.upstream.history import home_path, is_version, open_history
from forkwheel.upstream.listing import cached_file, find_release, list_releases

_RANGE = re.compile(r"([^/]*?)\.\.([^/]*)")


@dataclass(frozen=True)
class Revision:
    """A revision of a package: how it is shown, its version (None for a commit), and its files."""

    name: str
    version: str | None
    files: Files


def base_tree(package: Package, context: FetchContext) -> Tree:
    """Return the tree that a package's series is made for; files of the index are quicker to have than git."""
    kinds = [source.kind for source in package.sources]
    kind = next((kind for kind in ("sdist", "wheel") if kind in kinds), None)
    return source_tree(package, context=context, kind=kind).tree


def expand(
    specifications: Sequence[str], package: Package, *, context: FetchContext, repository: str | None = None
) -> list[str]:
    """Replace each range ``A..B`` by the final releases from A to B that were not yanked.

    They are those of the package index, or the tags of the repository that is given.
    """
    named: list[str] = []
    for text in specifications:
        match = _RANGE.fullmatch(text)
        if match is None:
            named.append(text)
            continue
        first, last = _bound(match[1], text), _bound(match[2], text)
        known = _versions(package, context, repository)
        found = [str(version) for version in known if first <= version <= last and not version.is_prerelease]
        if not found:
            raise UsageError(f"{package.name} has no final release from {first} to {last}", hint="check the range")
        named += found
    return list(dict.fromkeys(named))


def _versions(package: Package, context: FetchContext, repository: str | None) -> list[Version]:
    if repository is not None:
        return list(open_history(package.sources, repository=repository, context=context).releases())
    releases = list_releases(package.name, context=context)
    return [version for version, release in releases.items() if release.yanked is None]


def _bound(text: str, whole: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion as error:
        raise UsageError(f"{whole!r} is no range of versions", hint="write VERSION..VERSION, both included") from error


def open_revision(
    text: str, package: Package, *, wanted: Iterable[str], context: FetchContext, repository: str | None = None
) -> Revision:
    """Open what ``--to`` names: an sdist or wheel, a version, or a git revision.

    A version is the package index's or, where a ``repository`` is given, its tag's.
    ``wanted`` are the paths that will be read. Raises UsageError or FetchError where there is
    no such revision.
    """
    wanted = list(wanted)
    path = home_path(text)
    if path.suffix in (".whl", ".gz", ".zip", ".tgz") or _is_file(path):
        version = _file_version(path, package)
        return Revision(path.name, version, open_archive(path, store=context.store, wanted=wanted))
    if is_version(text) and repository is None:
        source = version_source(package, Version(text), context=context)
        archive, _ = cached_archive(package, source, context=context)
        files = open_archive(archive, store=context.store, wanted=wanted, sha256=source.sha256)
        return Revision(text, text, files)
    if not text or (repository is None and not any(source.kind == "git" for source in package.sources)):
        raise UsageError(
            f"{text!r} is no version and no file, and {package.name} has no git source whose revision it could be",
            hint=f"give {_spelled(text) or 'an sdist, a wheel, a version'}, or a git revision and its --repository",
        )
    history = open_history(package.sources, repository=repository, context=context)
    commit = history.find(text)
    name = text if text != commit else commit[:12]
    return Revision(name, text if is_version(text) else None, history.files(commit))


def _spelled(text: str) -> str:
    """Spell a version as the index does; nothing for what is none."""
    try:
        return str(Version(text))
    except InvalidVersion:
        return ""


def _is_file(path: Path) -> bool:
    """Tell whether a path is a file; one that cannot exist, because of its length, is none."""
    try:
        return path.is_file()
    except OSError:
        return False


def version_source(package: Package, version: Version, *, context: FetchContext) -> FileSource:
    """Return a file of a version: one like those that the package is made of, if there is one.

    What is in the cache already comes first.
    """
    kinds = ("wheel", "sdist") if is_of_wheels(package) else ("sdist", "wheel")
    if (cached := cached_file(package.name, version, kind=kinds[0], context=context)) is not None:
        return cached
    release = find_release(package.name, version, context=context)
    for kind in kinds:
        if files := [file for file in release.files if file.kind == kind]:
            return max(files, key=lambda file: _likeness(file, package))
    raise FetchError(f"the index gives no SHA-256 for {package.name} {version}", hint="give the file itself")


def is_of_wheels(package: Package) -> bool:
    """Tell whether all sources of a package are wheels."""
    return all(source.kind == "wheel" for source in package.sources)


def _likeness(file: FileSource, package: Package) -> int:
    """Count the tags that a wheel's name shares with that of the package's first wheel."""
    first = next((source.filename for source in package.sources if isinstance(source, FileSource)), "")
    tags = [wheel_tags(name).split("-")[-3:] for name in (first, file.filename)]
    return sum(mine == its for mine, its in zip(*tags, strict=False))


def _file_version(path: Path, package: Package) -> str:
    if not _is_file(path):
        raise UsageError(f"{path}: no such file", hint="give an sdist, a wheel, a version or a git revision")
    try:
        parse = parse_wheel_filename if path.suffix == ".whl" else parse_sdist_filename
        name, version = parse(path.name)[:2]
    except ValueError as error:
        raise UsageError(
            f"{path.name} is no sdist's or wheel's file name: {error}", hint="keep the name it had"
        ) from error
    if name != canonicalize_name(package.name):
        raise UsageError(
            f"{path.name} is of {name}, and the series is for {package.name}", hint="give the package with --package"
        )
    return str(version)
