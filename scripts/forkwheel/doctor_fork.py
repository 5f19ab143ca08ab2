"""What is in the way of the fork: JIT caches of other versions, and packages that would be used instead of it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.utils import canonicalize_name

from forkwheel.console import readable_size
from forkwheel.cuda.jit_cache import cache_root, find_cache, fork_versions, version_folders
from forkwheel.cuda.outranking import outranking
from forkwheel.doctor_host import INSTALL, SMOKE, Finding
from forkwheel.errors import ForkwheelError
from forkwheel.recipe import JitCache, Package, Recipe

_PROBE = """
import importlib.metadata, json, sys
found = {}
for distribution in importlib.metadata.distributions():
    name = (distribution.metadata["Name"] or "").lower().replace("_", "-").replace(".", "-")
    found.setdefault(name, distribution.version)
print(json.dumps(found))
"""
_SECONDS = 60


def fork_findings(recipe: Recipe, *, python: Path | None, home: Path) -> Iterator[Finding]:
    """Yield every check of what the fork meets where it runs."""
    for package in recipe.packages:
        if package.jit_cache is not None:
            yield jit_cache(package, package.jit_cache, recipe, home=home)
    if python is None:
        yield Finding("installed packages", (INSTALL,), None, "not looked at", "give --python PATH")
        return
    try:
        installed = _installed(python)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        hint = "give the python of the environment that will run the fork"
        yield Finding("installed packages", (INSTALL,), False, f"{python} cannot be asked: {error}", hint)
        return
    for package in recipe.packages:
        yield _version(package, recipe, installed)
        if package.jit_cache is not None:
            yield from _outranking(package, package.jit_cache, recipe, python)


def jit_cache(package: Package, cache: JitCache, recipe: Recipe, *, home: Path) -> Finding:
    """Look for what a JIT compiled for other versions (foreign), or for the fork's own before (stale)."""
    name = f"JIT cache of {package.name}"
    try:
        root = cache_root(cache, environment=os.environ, home=home)
        versions = version_folders(cache, environment=os.environ, home=home)
        own = set(fork_versions(package, recipe=recipe, found=versions))
        folders = find_cache(cache, environment=os.environ, home=home, versions=versions)
    except ForkwheelError as error:
        return Finding(name, (SMOKE,), False, error.message, error.hint)
    filled = [folder for folder in folders if folder.files]
    if not filled:
        return Finding(name, (SMOKE,), True, f"empty ({root})")
    listed = ", ".join(
        f"{folder.version} {readable_size(folder.size)}{'' if folder.version in own else ' (foreign)'}"
        for folder in filled
    )
    stale = any(folder.version in own for folder in filled)
    hint = "`nox -s clear-jit-cache` removes what an earlier build of the fork compiled; foreign ones do no harm"
    return Finding(name, (SMOKE,), not stale, listed, hint)


def _installed(python: Path) -> Mapping[str, str]:
    command = [str(python.absolute()), "-I", "-c", _PROBE]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_SECONDS, check=True, stdin=subprocess.DEVNULL
    )
    found: Mapping[str, str] = json.loads((done.stdout.strip().splitlines() or [""])[-1])
    return found


def _version(package: Package, recipe: Recipe, installed: Mapping[str, str]) -> Finding:
    name = canonicalize_name(package.name)
    found, wanted = installed.get(name), f"{package.version}+{recipe.local}."
    if found is None:
        return Finding(package.name, (INSTALL,), True, "not installed there: nothing is in the fork's way")
    hint = f"install the fork with {recipe.name}.requirements.txt (--no-deps --require-hashes), which replaces it"
    return Finding(package.name, (INSTALL,), found.startswith(wanted), f"{found} is installed there", hint)


def _outranking(package: Package, cache: JitCache, recipe: Recipe, python: Path) -> Iterator[Finding]:
    version = f"{package.version}+{recipe.local}.{recipe.revision}"
    try:
        found = outranking(cache, python=python, version=version)
    except ForkwheelError as error:
        yield Finding(f"what outranks {package.name}", (INSTALL,), False, error.message, error.hint)
        return
    for item in found:
        what = f"pip uninstall {item.name}" if item.kind == "distribution" else f"remove {item.path}"
        hint = f"{what}, or nothing of what the fork compiles is used"
        yield Finding(f"what outranks {package.name}", (INSTALL, SMOKE), item.is_of_fork, item.describe(), hint)
    if not found:
        yield Finding(f"what outranks {package.name}", (INSTALL, SMOKE), True, "nothing")
