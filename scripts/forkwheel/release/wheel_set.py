"""A finished set of wheels in a folder: its manifest, its wheels, and what they say of themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name, parse_wheel_filename

from forkwheel.errors import UsageError, VerificationError
from forkwheel.release.manifest import SCHEMA
from forkwheel.release.manifest_shape import check_manifest
from forkwheel.release.shapes import read_object
from forkwheel.tree import sha256_file
from forkwheel.wheels import recorded
from forkwheel.wheels.verify import read_wheel, verify_wheel

SUFFIX = ".manifest.json"
BUILT, TAKEN, KERNELS = "built", "taken", "kernels"
_HINT = "the folder was changed after the build: build the set again, or fetch it again from where it was published"


@dataclass(frozen=True)
class SetWheel:
    """One wheel as its manifest lists it; ``size`` is in bytes.

    ``kind`` tells a wheel that was built of a package (which carries its recipe, and ``key`` is its build
    key) from upstream's own, which was taken as it is and has no key, and from the kernels'.
    """

    path: Path
    package: str
    version: str
    sha256: str
    size: int
    key: str
    development: bool
    kind: str = BUILT

    @property
    def filename(self) -> str:
        """The wheel's file name."""
        return self.path.name


@dataclass(frozen=True)
class WheelSet:
    """A manifest, read, and the wheels that it lists, which lie beside it."""

    manifest: Path
    document: Mapping[str, Any]
    wheels: tuple[SetWheel, ...]

    @property
    def folder(self) -> Path:
        """The folder of the manifest and the wheels."""
        return self.manifest.parent

    @property
    def recipe(self) -> str:
        """The name of the recipe that the set was built from."""
        return str(self.document["recipe"]["name"])

    @property
    def revision(self) -> int:
        """The recipe's revision; 0 where it was never released."""
        return int(self.document["recipe"]["revision"])

    def beside(self, suffix: str) -> Path:
        """Return a record of the set: the file RECIPE.``suffix`` in its folder."""
        return self.folder / f"{self.recipe}.{suffix}"


def find_manifest(where: Path, *, recipe: str | None = None) -> Path:
    """Return the manifest meant by a file, or by a folder that holds one; raise UsageError otherwise."""
    if where.is_file():
        if not where.name.endswith(SUFFIX):
            raise UsageError(f"{where} is no manifest", hint=f"name a file RECIPE{SUFFIX}, or the folder that holds it")
        return where
    known = {file.name.removesuffix(SUFFIX): file for file in sorted(where.glob(f"*{SUFFIX}"))}
    if not known:
        raise UsageError(f"{where} holds no manifest", hint="build the wheels first, or name the folder they are in")
    names = ", ".join(known)
    if recipe is not None and recipe not in known:
        raise UsageError(
            f"{where} has no set of {recipe}; it has those of: {names}", hint=f"build {recipe}, or choose another set"
        )
    if recipe is None and len(known) > 1:
        raise UsageError(f"{where} holds the sets of several recipes: {names}", hint="choose one with --recipe")
    return known[recipe] if recipe is not None else next(iter(known.values()))


def load_set(manifest: Path, *, wheels: Path | None = None) -> WheelSet:
    """Read a manifest; raise VerificationError where it is none, UsageError where it cannot be read.

    ``wheels`` is the folder of the wheels, where they do not lie beside the manifest.
    """
    try:
        document = read_object(manifest.read_bytes())
        number = document.get("schema")
        if number != SCHEMA:
            raise VerificationError(
                f"{manifest.name} has the schema {number!r}, and {SCHEMA} is what is known here",
                hint="use the forkwheel that wrote it",
            )
        check_manifest(document)
    except OSError as error:
        raise UsageError(f"{manifest} cannot be read: {error.strerror}", hint="name a manifest") from error
    except ValueError as error:
        raise VerificationError(f"{manifest.name} is no manifest: {error}", hint=_HINT) from error
    return WheelSet(manifest, document, tuple(_wheels(wheels or manifest.parent, document)))


def package_wheels(package: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the wheels of a manifest's package: it has one, or one for each Python and platform."""
    return list(package["wheels"]) if "wheels" in package else [package["wheel"]]


def other_entries(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return name, version and wheel of what a set has beside its packages: upstream's own wheels, and the kernels'."""
    entries = list(document.get("taken", ()))
    if "kernels" in document:
        wheel = document["kernels"]["wheel"]
        name, version, _, _ = parse_wheel_filename(wheel["filename"])
        entries.append({"name": name, "version": str(version), "wheel": wheel})
    return entries


def _wheels(folder: Path, document: Mapping[str, Any]) -> Iterator[SetWheel]:
    for package in document["packages"]:
        for wheel in package_wheels(package):
            key = wheel.get("key") or package["key"]
            yield _set_wheel(folder, package, wheel, kind=BUILT, key=key, development=package["development"])
    for entry in other_entries(document):
        is_kernels = entry not in document.get("taken", ())
        key = document["kernels"]["key"] if is_kernels else ""
        yield _set_wheel(folder, entry, entry["wheel"], kind=KERNELS if is_kernels else TAKEN, key=key)


def _set_wheel(
    folder: Path, entry: Mapping[str, Any], wheel: Mapping[str, Any], *, kind: str, key: str, development: bool = False
) -> SetWheel:
    path = folder / wheel["filename"]
    return SetWheel(path, entry["name"], entry["version"], wheel["sha256"], wheel["size"], key, development, kind)


def verify_set(wheels: WheelSet) -> None:
    """Check every wheel against the manifest, its own RECORD and its own records; raise VerificationError."""
    for wheel in wheels.wheels:
        check_bytes(wheel.path, sha256=wheel.sha256, said_by=wheels.manifest.name)
        _check_size(wheel, manifest=wheels.manifest.name)
        verify_wheel(wheel.path, must_contain={})
        if wheel.kind == BUILT:
            _check_records(wheel, manifest=wheels.manifest.name)


def check_bytes(file: Path, *, sha256: str, said_by: str) -> None:
    """Raise VerificationError unless a file is there and has the SHA-256 that something says of it."""
    if not file.is_file():
        raise VerificationError(f"{said_by} lists {file.name}, which is not in {file.parent}", hint=_HINT)
    found = sha256_file(file)
    if found != sha256:
        raise VerificationError(f"{file.name} has the SHA-256 {found}, {said_by} says {sha256}", hint=_HINT)


def _check_size(wheel: SetWheel, *, manifest: str) -> None:
    size = wheel.path.stat().st_size
    if size != wheel.size:
        raise VerificationError(f"{wheel.filename} has {size} bytes, {manifest} says {wheel.size}", hint=_HINT)


def _check_records(wheel: SetWheel, *, manifest: str) -> None:
    found = read_key(wheel.path)
    for name, said, recorded_one in (
        ("package", canonicalize_name(wheel.package), canonicalize_name(found["package"])),
        ("version", wheel.version, found["version"]),
        ("key", wheel.key, found["key"]),
    ):
        if said != recorded_one:
            raise VerificationError(
                f"{wheel.filename} records the {name} {recorded_one}, {manifest} says {said}", hint=_HINT
            )


def read_key(wheel: Path) -> Mapping[str, Any]:
    """Return the key that a wheel records: ``package``, ``version``, ``key`` and ``parts``."""
    records = read_wheel(wheel)
    if recorded.KEY not in records.files:
        raise VerificationError(
            f"{wheel.name} was not made by forkwheel: its .dist-info has no {recorded.KEY}",
            hint="name a wheel that forkwheel built",
        )
    return recorded.read_key(records)[0]
