"""A wheel of kernels as something to be compiled again.

It carries the key, commands and digests of what was compiled. How that is done, and with which
toolkit, the record of its set says (``recipe``: the texts of kernels.toml and the toolchain's
lock); the sources are those of the package's own wheel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from forkwheel.cuda.kernel_config import FILENAME, load_kernels, load_recipe_kernels
from forkwheel.cuda.kernel_documents import RECIPE_FILES
from forkwheel.cuda.toolchain import load_toolchain_lock
from forkwheel.errors import ForkwheelError, UsageError, VerificationError
from forkwheel.recipe import Package, Recipe
from forkwheel.release.carried import Carried, carried_by
from forkwheel.release.manifest_shape import check_compiled, check_kernels
from forkwheel.release.shapes import read_object
from forkwheel.release.wheel_set import WheelSet, check_bytes
from forkwheel.tree import sha256_file
from forkwheel.wheels.metadata import fields
from forkwheel.wheels.verify import read_wheel, verify_wheel

RECORD = "forkwheel/kernels.json"
_HINT = "the wheel or its set's record was changed after the build: do not use it before you know why"


@dataclass(frozen=True)
class CarriedKernels:
    """A wheel of kernels, what it records, and the recipe of its package, with kernels.toml and toolchain beside it."""

    wheel: Path
    version: str
    record: Mapping[str, Any]
    recipe: Recipe
    package: Package


def is_kernels_wheel(wheel: Path) -> bool:
    """Tell whether a wheel holds kernels that forkwheel compiled."""
    return RECORD in read_wheel(wheel).files


def kernels_alone(wheel: Path, work: Path) -> CarriedKernels:
    """Read a wheel of kernels that was named by itself: the rest of its set must lie beside it.

    Raise UsageError, naming what is needed, where it does not.
    """
    verify_wheel(wheel, must_contain={})
    needed = _required(wheel)
    record = next(_records_of(wheel), None)
    packages = [path for path in sorted(wheel.parent.glob("*.whl")) if path != wheel and _is(path, needed)]
    if record is None or not packages:
        lacks = f"the wheel of {needed}" if record is not None else "its set's manifest"
        raise UsageError(
            f"{wheel.name} can be compiled again only with {lacks}, which is not beside it",
            hint=f"put manifest and wheels of the set ({needed}) beside it, or name the set's manifest or index",
        )
    return carried_kernels(wheel, record, [carried_by(packages[0], work / "package")], work=work)


def _required(wheel: Path) -> str:
    return ", ".join(fields(read_wheel(wheel).files["METADATA"]).get("requires-dist", [])) or "its package"


def _is(wheel: Path, requirement: str) -> bool:
    name, _, version = wheel.name.partition("-")
    wanted, _, wanted_version = requirement.partition("==")
    return canonicalize_name(name) == canonicalize_name(wanted) and version.partition("-")[0] == wanted_version


def _records_of(wheel: Path) -> Iterator[Mapping[str, Any]]:
    """Yield what the sets in a wheel's folder say of it; a file that cannot be read says nothing."""
    digest = sha256_file(wheel)
    for pattern in ("*.manifest.json", "*.kernels.json"):
        for file in sorted(wheel.parent.glob(pattern)):
            try:
                document = read_object(file.read_bytes())
                record = document.get("kernels", document)
                check_kernels(record)
            except (OSError, ValueError):
                continue
            if record["wheel"]["sha256"] == digest:
                yield record


def kernels_of_set(wheels: WheelSet, packages: Sequence[Carried], *, work: Path) -> CarriedKernels | None:
    """Read the kernels of a verified set: those that its manifest lists, or that were compiled beside it later."""
    folder = wheels.wheels[0].path.parent
    if "kernels" in wheels.document:
        record = wheels.document["kernels"]
        return carried_kernels(folder / record["wheel"]["filename"], record, packages, work=work)
    file = wheels.beside("kernels.json")
    if not file.is_file():
        return None
    try:
        record = read_object(file.read_bytes())
        check_kernels(record)
    except ValueError as error:
        raise VerificationError(
            f"{file.name} is no record of kernels: {error}", hint="compile the kernels anew, or remove the file"
        ) from error
    wheel = folder / record["wheel"]["filename"]
    check_bytes(wheel, sha256=record["wheel"]["sha256"], said_by=file.name)
    verify_wheel(wheel, must_contain={})
    return carried_kernels(wheel, record, packages, work=work)


def carried_kernels(
    wheel: Path, record: Mapping[str, Any], packages: Sequence[Carried], *, work: Path
) -> CarriedKernels:
    """Read a verified wheel of kernels, what its set's ``record`` says of it, and which of ``packages`` it is of.

    Raise VerificationError where they do not belong together.
    """
    own = _own_record(wheel)
    for name in ("key", "parts", "targets", "fast", "modules"):
        if own[name] != record[name]:
            raise VerificationError(f"{wheel.name} records another `{name}` than its set does", hint=_HINT)
    folder = work / "kernels"
    folder.mkdir()
    for name in RECIPE_FILES:
        text = record.get("recipe", {}).get(name)
        if text is None:
            raise VerificationError(
                f"the record of {wheel.name} does not hold {name}, so that it cannot be compiled again",
                hint="the set was made by an older forkwheel: make it anew, with its kernels",
            )
        (folder / name).write_text(text)
    version = read_wheel(wheel).version
    try:
        name = load_kernels(folder / FILENAME).package
        load_toolchain_lock(folder)
        for carried in packages:
            if canonicalize_name(carried.package.name) == canonicalize_name(name) and carried.key["version"] == version:
                recipe = replace(carried.recipe, file=folder / carried.recipe.file.name)
                load_recipe_kernels(recipe)
                return CarriedKernels(wheel, version, own, recipe, carried.package)
    except ForkwheelError as error:
        raise VerificationError(
            f"the record of {wheel.name} cannot be read: {error.message.replace(f'{folder}/', '')}", hint=_HINT
        ) from error
    raise VerificationError(
        f"{wheel.name} was compiled from {name} {version}, which is not in its set",
        hint="fetch the whole set; or compile the kernels anew, or remove their wheel and record",
    )


def _own_record(wheel: Path) -> Mapping[str, Any]:
    files = read_wheel(wheel).files
    if RECORD not in files:
        raise VerificationError(
            f"{wheel.name} was not made by forkwheel: its .dist-info has no {RECORD}",
            hint="name a wheel that forkwheel built",
        )
    try:
        record = read_object(files[RECORD])
        check_compiled(record)
    except ValueError as error:
        raise VerificationError(f"{wheel.name}: {RECORD} cannot be read: {error}", hint=_HINT) from error
    return record
