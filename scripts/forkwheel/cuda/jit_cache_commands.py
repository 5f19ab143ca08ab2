"""``forkwheel clear-jit-cache``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forkwheel.console import Console, readable_size
from forkwheel.cuda.jit_cache import (
    CacheFolder,
    Cleared,
    clear,
    describe,
    find_cache,
    fork_versions,
    version_folders,
)
from forkwheel.cuda.outranking import Outranking, outranking
from forkwheel.errors import UsageError
from forkwheel.options import add_recipe_option
from forkwheel.recipe import JitCache, Package, Recipe, find_recipe, load_recipe

if TYPE_CHECKING:
    from forkwheel.cli import Commands

SCHEMA = 1


@dataclass(frozen=True)
class _Task:
    package: Package
    cache: JitCache
    folders: tuple[CacheFolder, ...]
    outranking: tuple[Outranking, ...]


def register(commands: Commands) -> None:
    """Add ``clear-jit-cache``."""
    parser = commands.add("clear-jit-cache", help="remove what a package's JIT compiled, so that it compiles anew")
    add_recipe_option(parser, default="sm120")
    parser.add_argument(
        "--all", action="store_true", help="remove what all versions compiled, not only of those that the recipe builds"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be removed and remove nothing")
    parser.add_argument("--python", type=Path, metavar="PATH", help="warn of what outranks the cache for this python")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    """Find everything, then remove it, so that a refusal comes before the first removal."""
    recipe = load_recipe(find_recipe(options.recipe, recipes=Path("recipes")))
    tasks = [_task(package, package.jit_cache, recipe, options) for package in recipe.packages if package.jit_cache]
    if not tasks:
        raise UsageError(f"no package of recipe {recipe.name} has a JIT cache", hint="choose another recipe")
    results = [_found(task) if options.dry_run else clear(task.folders, cache=task.cache) for task in tasks]
    for task, result in zip(tasks, results, strict=True):
        _report(task, result, console, dry_run=options.dry_run)
    if options.json:
        documents = [
            _document(task, result, dry_run=options.dry_run) for task, result in zip(tasks, results, strict=True)
        ]
        console.data({"schema": SCHEMA, "dry_run": options.dry_run, "packages": documents})
    return 0 if options.dry_run else _exit_code(results, console)


def _found(task: _Task) -> Cleared:
    """Return what a dry run would remove, and what it would leave."""
    free = tuple(folder for folder in task.folders if not folder.in_use)
    return Cleared(free, tuple(folder for folder in task.folders if folder.in_use))


def _exit_code(results: list[Cleared], console: Console) -> int:
    """Show why each folder that is still there was left, and return the exit code."""
    errors = [error for result in results for error in result.failed]
    errors += [
        UsageError(
            f"{folder.path} is in use and was not touched: a process holds {folder.held}",
            hint="wait until nothing compiles, or end the program that does, and try again",
        )
        for result in results
        for folder in result.in_use
    ]
    for error in errors:
        console.error(error)
    return max((error.exit_code for error in errors), default=0)


def _task(package: Package, cache: JitCache, recipe: Recipe, options: argparse.Namespace) -> _Task:
    environment, home = os.environ, Path.home()
    versions = None
    if not options.all:
        found = version_folders(cache, environment=environment, home=home)
        versions = fork_versions(package, recipe=recipe, found=found)
    folders = find_cache(cache, environment=environment, home=home, versions=versions)
    if options.python is None:
        return _Task(package, cache, folders, ())
    version = f"{package.version}+{recipe.local}.{recipe.revision}"
    return _Task(package, cache, folders, outranking(cache, python=options.python, version=version))


def _report(task: _Task, result: Cleared, console: Console, *, dry_run: bool) -> None:
    log = console.bind(task.package.name)
    verb = "would remove" if dry_run else "removed"
    for folder in result.removed:
        log.info(f"{verb} from {describe(folder)}")
    if dry_run:
        for folder in result.in_use:
            log.info(f"would not touch {describe(folder)}")
    total = readable_size(sum(folder.size for folder in result.removed))
    log.info(f"{verb} {total} in all" if task.folders else "the JIT cache holds nothing to remove")
    for item in task.outranking:
        log.warning(f"{item.describe()}: clearing the JIT cache changes nothing there")


def _document(task: _Task, result: Cleared, *, dry_run: bool) -> dict[str, Any]:
    """Describe one package's cache: what was found, removed, left in use, what failed, and what outranks it.

    ``held_lock`` is the lock file that a process holds, or null; ``failed`` holds messages.
    """
    return {
        "package": task.package.name,
        "found": _folders(task.folders),
        "removed": [] if dry_run else _folders(result.removed),
        "in_use": _folders(result.in_use),
        "failed": [error.message for error in result.failed],
        "outranking": [
            {
                "kind": item.kind,
                "name": item.name,
                "version": item.version,
                "is_of_fork": item.is_of_fork,
                "path": str(item.path),
                "files": item.files,
            }
            for item in task.outranking
        ],
    }


def _folders(folders: Iterable[CacheFolder]) -> list[dict[str, Any]]:
    return [
        {
            "path": str(folder.path),
            "version": folder.version,
            "files": folder.files,
            "bytes": folder.size,
            "held_lock": str(folder.held) if folder.held else None,
        }
        for folder in folders
    ]
