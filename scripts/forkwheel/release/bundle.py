"""Bundles: everything that a build needs, in one folder, for a machine without a network.

``DIR/files``        sdists, and the wheels of build requirements, toolchain and forkwheel's own needs
``DIR/git``          repositories, of packages that are pinned by a commit alone
``DIR/bundle.json``  what is in it, with every digest; written last
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forkwheel.errors import FetchError, PinMismatchError, UsageError
from forkwheel.fetch import FetchContext, fetch_source
from forkwheel.recipe import FileSource, GitSource, Package, Recipe
from forkwheel.release.inputs import Inputs, LockedRequirement
from forkwheel.release.manifest import write_json
from forkwheel.release.resolution import PYTHONS, usable
from forkwheel.store import Store, write_whole
from forkwheel.toml_file import read_toml
from forkwheel.tree import sha256_file
from forkwheel.wheels.environment import build_environment
from forkwheel.wheels.pip import pip_environment, run_pip

FORMAT = 1
RECORD = "bundle.json"
NOX = "nox>=2025.2.9"
_AT_ONCE = 4


@dataclass(frozen=True)
class Bundle:
    """A bundle's folder, and the SHA-256 (hex) of every file in it by name."""

    folder: Path
    recipe: str
    files: Mapping[str, str]
    repositories: tuple[str, ...]

    @property
    def file_folder(self) -> Path:
        """Where the archives lie; pip's ``--find-links`` reads it."""
        return self.folder / "files"


def make_bundle(
    recipe: Recipe, folder: Path, *, inputs: Sequence[Inputs], context: FetchContext, tools: Path | None
) -> Bundle:
    """Collect what a build of ``recipe`` needs into ``folder``; what is there already is kept.

    ``inputs`` are the locks of build requirements and toolchain. ``tools`` is the checkout
    whose own needs are collected for this Python; None leaves them out.
    """
    files = folder / "files"
    try:
        files.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"the bundle {folder} cannot be written: {error.strerror}", hint="give another folder"
        ) from error
    wanted = [*_sources(recipe), *_requirements(inputs)]
    with context.log.stage("files"), ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        list(pool.map(lambda item: _collect(item, recipe.packages[0], files, context), wanted))
    digests = {source.filename: source.sha256 for _, source in wanted}
    repositories = tuple(_repositories(recipe, folder, context))
    if tools is not None:
        with context.log.stage("tools"):
            digests |= _tools(tools, files, context.store)
    document = {
        "format": FORMAT,
        "recipe": recipe.name,
        "python": "{}.{}".format(*sys.version_info[:2]),
        "machine": platform.machine(),
        "files": digests,
        "repositories": list(repositories),
    }
    write_whole(folder / RECORD, write_json(document))
    return Bundle(folder, recipe.name, digests, repositories)


def _sources(recipe: Recipe) -> Iterator[tuple[str, FileSource]]:
    for package in recipe.packages:
        for source in package.sources:
            if isinstance(source, FileSource):
                yield package.name, source


def _requirements(inputs: Iterable[Inputs]) -> Iterator[tuple[str, FileSource]]:
    seen: set[str] = set()
    for lock in inputs:
        for _, requirements in lock.packages:
            for item, filename, sha256 in _usable(requirements):
                if filename not in seen:
                    seen.add(filename)
                    yield item.name, FileSource("wheel", filename, sha256)


def _usable(requirements: Iterable[LockedRequirement]) -> Iterator[tuple[LockedRequirement, str, str]]:
    """Yield the locked files that install on this kind of machine, under any Python that builds run on."""
    hosts = [(python, platform.machine()) for python in PYTHONS]
    for item in requirements:
        for filename, sha256 in item.files:
            if any(usable(filename, host) for host in hosts):
                yield item, filename, sha256


def _collect(item: tuple[str, FileSource], package: Package, files: Path, context: FetchContext) -> None:
    from forkwheel.fetch.index import cached_archive

    name, source = item
    target = files / source.filename
    if target.is_file() and sha256_file(target) == source.sha256:
        return
    archive, _ = cached_archive(replace(package, name=name), source, context=context)
    _place(archive, target)


def _place(archive: Path, target: Path) -> None:
    """Put a file in its place whole, without another copy of it where the disk is the same."""
    part = target.with_name(f".{target.name}.part")
    part.unlink(missing_ok=True)
    try:
        os.link(archive, part)
    except OSError:
        shutil.copyfile(archive, part)
    part.replace(target)


def _repositories(recipe: Recipe, folder: Path, context: FetchContext) -> Iterator[str]:
    """Copy the repositories of packages that have no other source."""
    from forkwheel.fetch.git import repository_of

    for package in recipe.packages:
        if any(isinstance(source, FileSource) for source in package.sources):
            continue
        for source in package.sources:
            assert isinstance(source, GitSource)
            with context.store.temporary() as work:
                fetch_source(package, source, work / "tree", context=context)
            for commit in (source.commit, *(submodule.commit for submodule in source.submodules)):
                target = folder / "git" / f"{commit}.git"
                if not target.is_dir():
                    shutil.copytree(repository_of(commit, context.store), target)
                yield commit


def _tools(checkout: Path, files: Path, store: Store) -> dict[str, str]:
    """Have pip collect nox, and what forkwheel itself needs to be installed, for this Python."""
    with store.temporary() as work:
        (work / "empty").mkdir()
        arguments = ["download", "--only-binary", ":all:", "--dest", str(work / "got"), *_needs(checkout)]
        run_pip(arguments, folder=work / "empty", environment=pip_environment())
        found = {}
        for archive in sorted((work / "got").iterdir()):
            found[archive.name] = sha256_file(archive)
            _place(archive, files / archive.name)
    return found


def _needs(checkout: Path) -> list[str]:
    file = checkout / "pyproject.toml"
    if file.is_file():
        table = read_toml(file).table
        return [NOX, "pip", *table["build-system"]["requires"], *table["project"]["dependencies"]]
    required = [text for text in importlib.metadata.requires("forkwheel") or () if "extra ==" not in text]
    return [NOX, "pip", *required]


def read_bundle(folder: Path, *, recipe: Recipe) -> Bundle:
    """Read a bundle's record; raise UsageError where it is none, or is of another recipe."""
    try:
        document: dict[str, Any] = json.loads((folder / RECORD).read_bytes())
        number = document["format"]
        if number != FORMAT:
            raise UsageError(f"{folder} is a bundle of format {number}, not {FORMAT}", hint="make it anew")
        bundle = Bundle(folder.absolute(), document["recipe"], dict(document["files"]), tuple(document["repositories"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{folder} is no bundle: {RECORD} cannot be read: {error}", hint="make one with `nox -s fetch -- --bundle`"
        ) from error
    if bundle.recipe != recipe.name:
        raise UsageError(f"{folder} is a bundle of recipe {bundle.recipe}", hint=f"make one of {recipe.name}")
    return bundle


def fill_cache(bundle: Bundle, recipe: Recipe, *, inputs: Sequence[Inputs], context: FetchContext) -> None:
    """Put a bundle's sources into the cache and make the environments of the locks ``inputs``, without a network.

    Raise FetchError where the bundle lacks something, PinMismatchError where a file of it was altered.
    """
    from forkwheel.fetch.git import repository_of
    from forkwheel.fetch.index import archive_of

    for _, source in _sources(recipe):
        _check(bundle, source)
        target = archive_of(source, context.store)
        target.parent.mkdir(parents=True, exist_ok=True)
        _place(bundle.file_folder / source.filename, target)
    for commit in bundle.repositories:
        target = repository_of(commit, context.store)
        if not target.is_dir():
            with context.store.temporary() as work:
                shutil.copytree(bundle.folder / "git" / target.name, work / "made")
                context.store.publish(work / "made", target)
    for lock in inputs:
        for _, requirements in lock.packages:
            _check_files(bundle, requirements)
    with _pip_reads(bundle):
        for lock in inputs:
            for _, requirements in lock.packages:
                build_environment(requirements, store=context.store, log=context.log)


def _check_files(bundle: Bundle, requirements: Iterable[LockedRequirement]) -> None:
    """Find what pip would say in many lines: that a bundle was made without a lock's files, or for another machine."""
    for item in requirements:
        names = [filename for _, filename, _ in _usable([item])]
        if names and not any((bundle.file_folder / name).is_file() for name in names):
            raise FetchError(
                f"the bundle {bundle.folder} lacks {item.name} {item.version} for {platform.machine()}",
                hint="make it anew on a machine of this kind, from this checkout; for kernels, without --no-toolchain",
            )


def _check(bundle: Bundle, source: FileSource) -> None:
    file = bundle.file_folder / source.filename
    if not file.is_file():
        raise FetchError(
            f"the bundle {bundle.folder} lacks {source.filename}", hint="make the bundle anew from this checkout"
        )
    found = sha256_file(file)
    if found != source.sha256:
        raise PinMismatchError(
            f"{file} has the SHA-256 {found}; the recipe pins {source.sha256}",
            hint="the bundle was damaged or altered: make it anew",
        )


@contextmanager
def _pip_reads(bundle: Bundle) -> Iterator[None]:
    """Let pip read the bundle and nothing else, for the time of a block."""
    wanted = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": bundle.file_folder.as_uri()}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
