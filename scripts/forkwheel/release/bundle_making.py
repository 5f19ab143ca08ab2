"""Make a bundle: collect what a build needs into one folder."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from forkwheel.errors import UsageError
from forkwheel.fetch import FetchContext, fetch_source
from forkwheel.fetch.git import repository_of
from forkwheel.fetch.index import cached_archive
from forkwheel.recipe import FileSource, GitSource, Package, Recipe
from forkwheel.release.bundle import FORMAT, RECORD, Bundle, installable, pinned_files, place
from forkwheel.release.hosts import served_pythons
from forkwheel.release.inputs import Inputs, LockedRequirement
from forkwheel.release.manifest import write_json
from forkwheel.release.resolution import resolve_here
from forkwheel.store import write_whole
from forkwheel.toml_file import read_toml
from forkwheel.tree import sha256_file

NOX = "nox>=2025.2.9"
_AT_ONCE = 4


def make_bundle(
    recipe: Recipe, folder: Path, *, inputs: Sequence[Inputs], context: FetchContext, tools: Path | None
) -> Bundle:
    """Collect what a build of ``recipe`` needs into ``folder``; what is there already is kept.

    ``inputs`` are the locks of build requirements and toolchain. ``tools`` is the checkout whose
    own needs are collected, for every Python that they have files for; None leaves them out.
    """
    files = folder / "files"
    try:
        files.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"the bundle {folder} cannot be written: {error.strerror}", hint="give another folder"
        ) from error
    own = _tools(tools, context) if tools is not None else ()
    locked = [item for lock in inputs for _, requirements in lock.packages for item in requirements]
    wanted = [*pinned_files(recipe), *_wheels([*installable(locked), *own])]
    with context.log.stage("files"), ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        list(pool.map(lambda item: _collect(item, recipe.packages[0], files, context), wanted))
    served = served_pythons(own, machine=platform.machine()) if own else ()
    bundle = Bundle(
        folder,
        recipe.name,
        {source.filename: source.sha256 for _, source in wanted},
        tuple(_repositories(recipe, folder, context)),
        tuple(f"{major}.{minor}" for major, minor in served),
    )
    _record(bundle)
    return bundle


def _record(bundle: Bundle) -> None:
    document = {
        "format": FORMAT,
        "recipe": bundle.recipe,
        "machine": platform.machine(),
        "tool_pythons": list(bundle.tool_pythons),
        "files": dict(bundle.files),
        "repositories": list(bundle.repositories),
    }
    write_whole(bundle.folder / RECORD, write_json(document))


def _wheels(requirements: Iterable[LockedRequirement]) -> Iterator[tuple[str, FileSource]]:
    """Give each wheel of the requirements once, with its distribution's name."""
    found = {filename: (item.name, sha256) for item in requirements for filename, sha256 in item.files}
    for filename, (name, sha256) in found.items():
        yield name, FileSource("wheel", filename, sha256)


def _collect(item: tuple[str, FileSource], package: Package, files: Path, context: FetchContext) -> None:
    name, source = item
    target = files / source.filename
    if target.is_file() and sha256_file(target) == source.sha256:
        return
    archive, _ = cached_archive(replace(package, name=name), source, context=context)
    place(archive, target)


def _repositories(recipe: Recipe, folder: Path, context: FetchContext) -> Iterator[str]:
    """Copy the repositories of packages that have no other source."""
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


def _tools(checkout: Path, context: FetchContext) -> tuple[LockedRequirement, ...]:
    """Choose nox, and what forkwheel itself needs to be installed: one version of each for every Python."""
    with context.log.stage("tools"):
        chosen = resolve_here(_needs(checkout), machine=platform.machine(), store=context.store, log=context.log)
    return tuple(installable(chosen))


def _needs(checkout: Path) -> list[str]:
    file = checkout / "pyproject.toml"
    table = read_toml(file).table if file.is_file() else {}
    if table.get("project", {}).get("name") == "forkwheel":
        return [NOX, "pip", *table["build-system"]["requires"], *table["project"]["dependencies"]]
    required = [text for text in importlib.metadata.requires("forkwheel") or () if "extra ==" not in text]
    return [NOX, "pip", *required]
