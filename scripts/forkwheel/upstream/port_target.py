"""What a package of a recipe becomes when it is ported: new pins, version, date and patterns."""

from __future__ import annotations

import re
import tarfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from forkwheel.errors import UsageError
from forkwheel.fetch import FetchContext, fetch_source
from forkwheel.fetch.index import cached_archive
from forkwheel.patterns import matches
from forkwheel.recipe import FileSource, GitSource, Package, Source, Submodule
from forkwheel.tree import walk
from forkwheel.upstream.archives import guarded
from forkwheel.upstream.history import open_history
from forkwheel.upstream.listing import check_offered, find_release
from forkwheel.upstream.port_goals import Goal
from forkwheel.upstream.revisions import is_of_wheels, version_source
from forkwheel.wheels.metadata import fields

_EARLIEST = 315532800
_COMMIT = re.compile(r"\b[0-9a-f]{40}\b")


@dataclass(frozen=True)
class Target:
    """A package before and after porting, and what a person should know of the change."""

    old: Package
    new: Package
    notes: tuple[str, ...]


def make_target(package: Package, goal: Goal, *, context: FetchContext, work: Path) -> Target:
    """Find the new pins of a package, and adapt what its recipe says of its files.

    ``work`` is an empty folder for what has to be looked at. Raises UsageError or FetchError
    where there is no such revision.
    """
    version = goal.version
    if goal.revision:
        sources, epoch = _git_source(package, goal, context)
    else:
        sources, epoch = _index_sources(package, Version(version), context)
    new = replace(package, version=version, sources=sources, epoch=max(epoch, _EARLIEST))
    root = fetch_source(new, sources[0], work, context=context).root
    names = [name for name in walk(root) if not matches(name, package.exclude)]
    had_git = any(isinstance(source, GitSource) for source in package.sources)
    lost = had_git and not goal.revision
    notes = [f"{package.name}: add a git source by hand, if {version} is to be built from one"] if lost else []
    include, without = _matching(package.include, names)
    if package.include and not include:
        raise UsageError(
            f"{package.name} {version} has none of the files that `include` keeps of {package.version}",
            hint="see whether it is the same project; if all of its files moved, port by hand",
        )
    executable, more = _matching(package.executable, names)
    for field, patterns in (("include", without), ("executable", more)):
        notes += [f"`{field}` no longer has {pattern!r}: it matches nothing in {version}" for pattern in patterns]
    generated, stale = _generated(package, root, sources)
    new = replace(new, include=include, executable=executable, generated=generated)
    return Target(package, new, (*notes, *stale))


def _index_sources(package: Package, version: Version, context: FetchContext) -> tuple[tuple[Source, ...], int]:
    """Return an sdist or, where the package is made of wheels, all wheels; and the date of the newest file in it."""
    check_offered(package.name, version, context=context)
    if is_of_wheels(package) or (source := version_source(package, version, context=context)).kind == "wheel":
        found: tuple[FileSource, ...] = find_release(package.name, version, context=context).wheels
    else:
        found = (source,)
    dates = []
    for source in found:
        archive, _ = cached_archive(package, source, context=context)
        with guarded(archive):
            dates.append(_newest(archive))
    return found, max(dates)


def _newest(archive: Path) -> int:
    """Return the date of the newest file in an archive; those of a zip are taken for UTC."""
    if archive.name.endswith((".whl", ".zip")):
        import calendar

        with zipfile.ZipFile(archive) as opened:
            return max((calendar.timegm((*info.date_time, 0, 0, 0)) for info in opened.infolist()), default=0)
    with tarfile.open(archive) as tar:
        return int(max((member.mtime for member in tar if member.isfile()), default=0))


def _git_source(package: Package, goal: Goal, context: FetchContext) -> tuple[tuple[Source, ...], int]:
    old = next((source for source in package.sources if isinstance(source, GitSource)), None)
    if old is None:
        raise UsageError(f"{package.name} has no git source", hint="port it to a version of the package index")
    history = open_history(package.sources, repository=None, context=context)
    commit = history.find(goal.revision)
    present = history.submodules(commit)
    submodules = tuple(Submodule(one.path, present[one.path]) for one in old.submodules if one.path in present)
    tag = history.tag(goal.revision) if old.tag is not None else None
    return (replace(old, commit=commit, tag=tag, submodules=submodules),), history.epoch(commit)


def _matching(patterns: Sequence[str], names: list[str]) -> tuple[tuple[str, ...], list[str]]:
    kept = [pattern for pattern in patterns if any(matches(name, (pattern,)) for name in names)]
    return tuple(kept), [pattern for pattern in patterns if pattern not in kept]


def _generated(package: Package, root: Path, sources: tuple[Source, ...]) -> tuple[tuple, list[str]]:  # type: ignore[type-arg]
    """Put the new commit into generated files that name the old one, where the new source tells it."""
    old = {source.commit for source in package.sources if isinstance(source, GitSource)}
    generated, notes = [], []
    for item in package.generated:
        if stale := [commit for commit in old if commit in item.text]:
            new = _commit_of(root / item.path, sources)
            if new is None:
                notes.append(f"{item.path} still names the commit {stale[0][:12]}: correct its text in the recipe")
            else:
                item = replace(item, text=item.text.replace(stale[0], new))
        generated.append(item)
    return tuple(generated), notes


def _commit_of(file: Path, sources: tuple[Source, ...]) -> str | None:
    """Return the commit of a git source, or the one commit that an sdist's own copy of a file names."""
    for source in sources:
        if isinstance(source, GitSource):
            return source.commit
    if not file.is_file():
        return None
    found = set(_COMMIT.findall(file.read_text(encoding="utf-8", errors="replace")))
    return found.pop() if len(found) == 1 else None


def with_requires(package: Package, versions: dict[str, str]) -> Package:
    """Let a package's ``requires`` pin the new versions of the recipe's other packages."""

    def renewed(text: str) -> str:
        requirement = Requirement(text)
        new = versions.get(canonicalize_name(requirement.name))
        old = next(iter(requirement.specifier)).version
        return text if new is None else text.replace(f"=={old}", f"=={new}")

    return replace(package, requires=tuple(renewed(text) for text in package.requires))


def check_requires(package: Package, root: Path) -> None:
    """Raise UsageError where the source's own metadata pins another version than the recipe has."""
    file = next((file for file in (root / "PKG-INFO", *root.glob("*.dist-info/METADATA")) if file.is_file()), None)
    if file is None:
        return
    stated = [Requirement(text) for text in fields(file.read_bytes()).get("requires-dist", [])]
    for text in package.requires:
        pin = Requirement(text)
        pinned = [one for one in stated if canonicalize_name(one.name) == canonicalize_name(pin.name)]
        if pinned and not any(str(one.specifier) == str(pin.specifier) for one in pinned):
            version = next(iter(pinned[0].specifier), None)
            raise UsageError(
                f"{package.name} {package.version} requires {pinned[0].name}{pinned[0].specifier}, not {text}",
                hint=f"add --to {canonicalize_name(pin.name)}={version.version if version else 'VERSION'}",
            )
