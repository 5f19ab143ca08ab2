"""The output folder: wheels, manifest, checksums and what was observed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forkwheel.errors import UsageError
from forkwheel.recipe import Recipe
from forkwheel.release import provenance
from forkwheel.release.install_files import constraints_text, requirements_text
from forkwheel.release.manifest import Built, manifest, observed, read_manifest, wheels_of, write_json
from forkwheel.release.signing import signature_of
from forkwheel.store import UNFINISHED, copy_whole, write_whole
from forkwheel.tree import sha256_file
from forkwheel.wheels.finish import Wheel

KERNEL_RECORDS = ("kernels.json", "kernels.observed.json", "census.json")


@dataclass(frozen=True)
class KernelOutput:
    """A wheel of kernels compiled ahead of time, and its records by the suffix of their names (``KERNEL_RECORDS``)."""

    wheel: Wheel
    records: Mapping[str, dict[str, Any]]


@dataclass(frozen=True)
class Written:
    """The files of an output folder that a run wrote, and the names of those that it removed from there."""

    files: tuple[Path, ...]
    removed: tuple[str, ...]


def write_outputs(
    dist: Path,
    recipe: Recipe,
    built: tuple[Built, ...],
    *,
    started: str,
    finished: str,
    kernels: KernelOutput | None = None,
) -> Written:
    """Write a set of wheels and its records to ``dist``.

    Each file is replaced whole. Wheels that an earlier manifest of the same recipe lists and
    that are not in this set are removed, so that the folder never mixes two sets.
    """
    document = manifest(recipe, built)
    made = [item.wheel for item in built]
    if kernels is not None:
        document["kernels"] = kernels.records["kernels.json"]
        made.append(kernels.wheel)
    manifest_file = dist / f"{recipe.name}.manifest.json"
    with _held(dist):
        for left in (path for path in dist.glob(f".*{UNFINISHED}") if not path.is_dir()):
            left.unlink()
        wheels = {wheel.filename: wheel.sha256 for wheel in made}
        _check_room(dist, manifest_file, wheels)
        stale = _wheels(manifest_file).keys() - wheels.keys()
        if kernels is None and "kernels" in (read_manifest(manifest_file) or {}):
            stale |= {f"{recipe.name}.{suffix}" for suffix in KERNEL_RECORDS}
        files = []
        for wheel in made:
            target = dist / wheel.filename
            if not target.is_file() or sha256_file(target) != wheel.sha256:
                copy_whole(wheel.path, target)
            files.append(target)
        for suffix, record in kernels.records.items() if kernels else ():
            write_whole(dist / f"{recipe.name}.{suffix}", write_json(record))
        write_whole(manifest_file, write_json(document))
        removed = tuple(sorted(name for name in stale if (dist / name).is_file()))
        for name in removed:
            (dist / name).unlink(missing_ok=True)
        files += [manifest_file, *_write_beside(manifest_file, document)]
        observed_file = dist / f"{recipe.name}.observed.json"
        write_whole(observed_file, write_json(observed(recipe, built, started=started, finished=finished)))
        sums = _sums(dist)
        write_whole(dist / "SHA256SUMS", sums.encode())
    return Written((*files, dist / "SHA256SUMS", observed_file), removed)


def _write_beside(manifest_file: Path, document: dict[str, Any]) -> list[Path]:
    """Write what follows from a manifest: its provenance, and the files that make an install safe.

    A signature of another statement than this one is removed.
    """
    name = document["recipe"]["name"]
    said = provenance.statement(document, manifest_name=manifest_file.name, manifest_bytes=manifest_file.read_bytes())
    files = {
        manifest_file.with_name(f"{name}.{provenance.SUFFIX}"): said,
        manifest_file.with_name(f"{name}.requirements.txt"): requirements_text(document).encode(),
        manifest_file.with_name(f"{name}.constraints.txt"): constraints_text(document).encode(),
    }
    for file, content in files.items():
        if not file.is_file() or file.read_bytes() != content:
            signature_of(file).unlink(missing_ok=True)
            write_whole(file, content)
    return list(files)


def _sums(dist: Path) -> str:
    """List every wheel and record but the observed one, of all recipes, in the form that sha256sum checks."""
    listed: set[str] = set()
    for file in dist.glob("*.manifest.json"):
        name = file.name.removesuffix(".manifest.json")
        beside = (provenance.SUFFIX, "requirements.txt", "constraints.txt")
        listed |= {file.name, *_wheels(file), *(f"{name}.{suffix}" for suffix in beside)}
    return "".join(f"{sha256_file(dist / name)}  {name}\n" for name in sorted(listed) if (dist / name).is_file())


def _wheels(manifest_file: Path) -> dict[str, str]:
    """Map the wheels that a manifest lists to their SHA-256."""
    document = read_manifest(manifest_file)
    return {wheel["filename"]: wheel["sha256"] for wheel in wheels_of(document)} if document else {}


def _check_room(dist: Path, manifest_file: Path, wheels: Mapping[str, str]) -> None:
    """Raise UsageError where a folder is in a file's place, or another recipe's wheel has the same name."""
    name = manifest_file.name.removesuffix(".manifest.json")
    records = ("manifest.json", "observed.json", provenance.SUFFIX, "requirements.txt", "constraints.txt")
    for target in (*wheels, *(f"{name}.{suffix}" for suffix in records), "SHA256SUMS"):
        if (dist / target).is_dir():
            raise UsageError(f"{dist / target} is a folder", hint="remove it, or give another output folder with --out")
    for other in dist.glob("*.manifest.json"):
        for filename, sha256 in _wheels(other).items():
            if other != manifest_file and wheels.get(filename, sha256) != sha256:
                raise UsageError(
                    f"{other} lists {filename} with sha256 {sha256}, here it has {wheels[filename]}",
                    hint="two recipes make a wheel of one name: give one of them another `local` word, or use --out",
                )


def check_output_folder(dist: Path) -> None:
    """Raise UsageError where a folder can't be made or written to, before there is anything to write."""
    try:
        there = next(folder for folder in (dist, *dist.absolute().parents) if os.path.lexists(folder))
        if not there.is_dir():
            raise _unusable(dist, f"{there} is no folder")
    except OSError as error:
        raise _unusable(dist, error.strerror) from error
    if not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        raise _unusable(dist, f"no permission to write to {there}")


def _unusable(dist: Path, why: str | None) -> UsageError:
    return UsageError(f"the output folder {dist} cannot be used: {why}", hint="give another one with --out")


@contextmanager
def _held(dist: Path) -> Iterator[None]:
    """Hold the folder against other runs that write to it."""
    try:
        dist.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(dist, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise _unusable(dist, error.strerror) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
