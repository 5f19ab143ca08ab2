"""Clear what a package compiled on first use, so that the next use compiles the patched sources.

A JIT that writes its build files once, and then trusts dates, goes on with objects of the
sources before; only removing them makes a rebuild certain. What else lies in the cache
(downloaded cubins, logs) stays.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from forkwheel.console import readable_size
from forkwheel.cuda import jit_cache_files
from forkwheel.cuda.jit_cache_locks import LockHeldError, held_lock, locked
from forkwheel.errors import ForkwheelError, UsageError
from forkwheel.hints import recipe_argument
from forkwheel.recipe import JitCache, Package, Recipe

if TYPE_CHECKING:
    from forkwheel.console import Log


@dataclass(frozen=True)
class CacheFolder:
    """The folder of one version: how many files of it can be removed, and their size in bytes.

    ``held`` is a lock file of the JIT that a process holds, or None.
    """

    path: Path
    version: str
    files: int
    size: int
    held: Path | None = None

    @property
    def in_use(self) -> bool:
        """Tell whether a process compiles into the folder now."""
        return self.held is not None


@dataclass(frozen=True)
class Cleared:
    """What was removed, what was left because it is in use, and why the rest could not be removed."""

    removed: tuple[CacheFolder, ...] = ()
    in_use: tuple[CacheFolder, ...] = ()
    failed: tuple[ForkwheelError, ...] = ()


def cache_root(cache: JitCache, *, environment: Mapping[str, str], home: Path) -> Path:
    """Return the resolved folder that holds a folder for each version; it may not exist.

    Links in the way to it are followed, for the JIT itself follows them. Raise UsageError
    where it is no place to remove anything from.
    """
    named = environment.get(cache.variable)
    origin = cache.variable if named is not None else "HOME"
    base = Path(named) if named is not None else home
    if not base.is_absolute():
        raise UsageError(
            f"{origin} is {str(named if named is not None else home)!r}, no absolute path: "
            "the JIT cache depends on the folder in which a program was started",
            hint=f"set {origin} to an absolute path" + (", or unset it to use HOME" if named is not None else ""),
        )
    with jit_cache_files.refusing(base):
        resolved_base, resolved_home, root = (
            Path(os.path.realpath(path))
            for path in (base, home, base / cache.path)  # resolve() raises on a loop
        )
    if resolved_base == Path(resolved_base.anchor):
        raise UsageError(f"{origin} is {base}, the root of the file system", hint=f"set {origin} to another folder")
    if root in (resolved_home, *resolved_home.parents) or root in (resolved_base, *resolved_base.parents):
        raise UsageError(
            f"{base / cache.path} leads to {root}, which holds more than a JIT cache",
            hint="correct the link, or clear the cache by hand",
        )
    for folder in (base, root):
        _refuse_file(folder)
    return root


def version_folders(cache: JitCache, *, environment: Mapping[str, str], home: Path) -> tuple[str, ...]:
    """List the versions that have a folder in the cache; other folders, such as of cubins, are no versions."""
    root = cache_root(cache, environment=environment, home=home)
    with jit_cache_files.refusing(root):
        names = [path.name for path in root.iterdir() if path.is_symlink() or path.is_dir()] if root.exists() else []
    return tuple(sorted(name for name in names if _version(name) is not None))


def fork_versions(package: Package, *, recipe: Recipe, found: Iterable[str]) -> tuple[str, ...]:
    """Pick the versions that the recipe's builds of a package have: every revision, every development build."""
    versions = []
    for name in found:
        version = _version(name)
        if version is None or version.local is None or Version(version.public) != Version(package.version):
            continue
        if version.local.split(".")[0] == recipe.local:
            versions.append(name)
    return tuple(versions)


def find_cache(
    cache: JitCache, *, environment: Mapping[str, str], home: Path, versions: tuple[str, ...] | None
) -> tuple[CacheFolder, ...]:
    """Find the folders of ``versions`` (None: of all) that hold something to remove; nothing is written.

    Raise UsageError where the cache is in no safe place, or where a link leads out of it.
    """
    root = cache_root(cache, environment=environment, home=home)
    names = version_folders(cache, environment=environment, home=home)
    folders = []
    for name in names if versions is None else [name for name in names if name in versions]:
        path = root / name
        layout = jit_cache_files.survey(path, cache)
        if layout.pieces:
            folders.append(_described(path, layout, held=held_lock(path, layout)))
    return tuple(folders)


def clear(folders: Iterable[CacheFolder], *, cache: JitCache) -> Cleared:
    """Remove what ``cache`` says from the folders that ``find_cache`` gave.

    A folder in which any lock of the JIT is held is left as it is. The locks are held for
    as long as files are taken away, so that a compilation that starts meanwhile waits, and
    then starts afresh. A folder that cannot be cleared keeps no other from being cleared.
    """
    removed: list[CacheFolder] = []
    in_use: list[CacheFolder] = []
    failed: list[ForkwheelError] = []
    for folder in folders:
        try:
            removed.append(_clear_folder(folder.path, cache))
        except LockHeldError as error:
            in_use.append(replace(folder, held=error.path))
        except ForkwheelError as error:
            failed.append(error)
    return Cleared(tuple(removed), tuple(in_use), tuple(failed))


def clear_after_build(
    package: Package, *, recipe: Recipe, version: str, environment: Mapping[str, str], home: Path, log: Log
) -> Cleared:
    """Clear the JIT cache of the version that was just built; a refusal is a warning and fails no build."""
    if package.jit_cache is None:
        return Cleared()
    try:
        folders = find_cache(package.jit_cache, environment=environment, home=home, versions=(version,))
        cleared = clear(folders, cache=package.jit_cache)
    except ForkwheelError as error:
        folders, cleared = (), Cleared(failed=(error,))
    for failure in cleared.failed:
        log.warning(f"the JIT cache was not cleared: {failure.message} (hint: {failure.hint})")
    if not folders and not cleared.failed:
        log.info(f"the JIT cache holds nothing of {version}")
    for folder in cleared.removed:
        log.info(f"JIT cache cleared: {describe(folder)}")
    for folder in cleared.in_use:
        again = f"run `forkwheel clear-jit-cache --recipe {recipe_argument(recipe.folder)}` when it has ended"
        log.warning(f"the JIT cache is in use: {describe(folder)}; {again}")
    return cleared


def describe(folder: CacheFolder) -> str:
    """Say which folder it is, how much of it can be removed, and which lock is held."""
    count = "1 file" if folder.files == 1 else f"{folder.files} files"
    text = f"{folder.path}: {count}, {readable_size(folder.size)}"
    return text + (f" (a process holds {folder.held})" if folder.in_use else "")


def _clear_folder(path: Path, cache: JitCache) -> CacheFolder:
    trash = []
    try:
        with locked(path, cache) as layout:
            for piece in layout.pieces:
                if (renamed := jit_cache_files.rename_away(path, piece)) is not None:
                    trash.append(renamed)
    finally:
        for parts in trash:
            jit_cache_files.delete(path, parts)
    return _described(path, layout, held=None)


def _described(path: Path, layout: jit_cache_files.Layout, *, held: Path | None) -> CacheFolder:
    files = sum(piece.files for piece in layout.pieces)
    return CacheFolder(path, path.name, files, sum(piece.size for piece in layout.pieces), held)


def _version(name: str) -> Version | None:
    try:
        return Version(name)
    except InvalidVersion:
        return None


def _refuse_file(folder: Path) -> None:
    with jit_cache_files.refusing(folder):
        is_other = folder.exists() and not folder.is_dir()
    if is_other:
        raise UsageError(f"{folder} is a file, not a folder", hint="the JIT cache is a folder; move the file away")
