"""Bundles: everything that a build needs, in one folder, for a machine without a network.

``DIR/files``        sdists, and the wheels of build requirements, toolchain and forkwheel's own needs
``DIR/git``          repositories, of packages that are pinned by a commit alone
``DIR/bundle.json``  what is in it, with every digest; written last

It serves machines of the kind that it was made on, with any Python that builds run on.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.utils import parse_wheel_filename

from forkwheel.errors import FetchError, PinMismatchError, UsageError
from forkwheel.fetch import FetchContext
from forkwheel.recipe import FileSource, Recipe
from forkwheel.release.hosts import PYTHONS, usable
from forkwheel.release.inputs import Inputs, LockedRequirement
from forkwheel.tree import sha256_file
from forkwheel.wheels.environment import build_environment

FORMAT = 1
RECORD = "bundle.json"


@dataclass(frozen=True)
class Bundle:
    """A bundle's folder, and the SHA-256 (hex) of every file in it by name.

    ``tool_pythons`` are the Python versions ("3.12") that nox and forkwheel can be installed for from it.
    """

    folder: Path
    recipe: str
    files: Mapping[str, str]
    repositories: tuple[str, ...]
    tool_pythons: tuple[str, ...]

    @property
    def file_folder(self) -> Path:
        """Where the archives lie; pip's ``--find-links`` reads it."""
        return self.folder / "files"


def read_bundle(folder: Path, *, recipe: Recipe) -> Bundle:
    """Read a bundle's record; raise UsageError where it is none, or is of another recipe."""
    try:
        document: dict[str, Any] = json.loads((folder / RECORD).read_bytes())
        number = document["format"]
        if number != FORMAT:
            raise UsageError(f"{folder} is a bundle of format {number}, not {FORMAT}", hint="make it anew")
        bundle = Bundle(
            folder.absolute(),
            document["recipe"],
            dict(document["files"]),
            tuple(document["repositories"]),
            tuple(document["tool_pythons"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            f"{folder} is no bundle: {RECORD} cannot be read: {reason}",
            hint="make one with `nox -s fetch -- --recipe RECIPE --bundle DIR`",
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

    for _, source in pinned_files(recipe):
        _check(bundle, source)
        target = archive_of(source, context.store)
        target.parent.mkdir(parents=True, exist_ok=True)
        place(bundle.file_folder / source.filename, target)
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
    for item in installable(requirements):
        names = [filename for filename, _ in item.files]
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


def pinned_files(recipe: Recipe) -> Iterator[tuple[str, FileSource]]:
    """Give the sources of a recipe that are files, with their packages' names."""
    for package in recipe.packages:
        for source in package.sources:
            if isinstance(source, FileSource):
                yield package.name, source


def installable(requirements: Iterable[LockedRequirement]) -> Iterator[LockedRequirement]:
    """Give each requirement with those of its files that install on this kind of machine, under any Python."""
    hosts = [(python, platform.machine()) for python in PYTHONS]
    other = "musllinux" if platform.libc_ver()[0] == "glibc" else "manylinux"
    for item in requirements:
        files = (file for file in item.files if any(usable(file[0], host) for host in hosts))
        yield replace(item, files=tuple(file for file in files if not _is_for(other, file[0])))


def _is_for(libc: str, filename: str) -> bool:
    return all(tag.platform.startswith(libc) for tag in parse_wheel_filename(filename)[3])


def place(archive: Path, target: Path) -> None:
    """Put a file in its place whole, without another copy of it where the disk is the same."""
    part = target.with_name(f".{target.name}.part")
    part.unlink(missing_ok=True)
    try:
        os.link(archive, part)
    except OSError:
        shutil.copyfile(archive, part)
    part.replace(target)
