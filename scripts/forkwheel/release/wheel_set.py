"""A finished set of wheels in a folder: its manifest, its wheels, and what they say of themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name, parse_wheel_filename

from forkwheel.errors import UsageError, VerificationError
from forkwheel.key import Key
from forkwheel.release.manifest import SCHEMA
from forkwheel.tree import sha256_file
from forkwheel.wheels.verify import read_wheel, verify_wheel

SUFFIX = ".manifest.json"
_KEY = "forkwheel/key.json"
_HINT = "the folder was changed after the build: build the set again, or fetch it again from where it was published"


@dataclass(frozen=True)
class SetWheel:
    """One wheel as its manifest lists it; ``size`` is in bytes.

    ``taken`` tells that it is upstream's own, or the kernels': it has no build key and no recipe in it.
    """

    path: Path
    package: str
    version: str
    sha256: str
    size: int
    key: str
    development: bool
    taken: bool = False

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
        return where
    found = sorted(where.glob(f"{recipe or '*'}{SUFFIX}"))
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(f"{where} holds no manifest", hint="build the wheels first, or name the folder they are in")
    names = ", ".join(file.name.removesuffix(SUFFIX) for file in found)
    raise UsageError(f"{where} holds the sets of several recipes: {names}", hint="choose one with --recipe")


def load_set(manifest: Path, *, wheels: Path | None = None) -> WheelSet:
    """Read a manifest; raise VerificationError where it is none, UsageError where it cannot be read.

    ``wheels`` is the folder of the wheels, where they do not lie beside the manifest.
    """
    try:
        document = json.loads(manifest.read_bytes())
    except OSError as error:
        raise UsageError(f"{manifest} cannot be read: {error.strerror}", hint="name a manifest") from error
    except ValueError as error:
        raise VerificationError(f"{manifest.name} is no manifest: {error}", hint=_HINT) from error
    number = document.get("schema") if isinstance(document, dict) else None
    if number != SCHEMA:
        raise VerificationError(
            f"{manifest.name} has the schema {number!r}, and {SCHEMA} is what is known here",
            hint="use the forkwheel that wrote it",
        )
    try:
        listed = tuple(_wheels(wheels or manifest.parent, document))
        str(document["recipe"]["name"]), int(document["recipe"]["revision"])
    except (KeyError, TypeError, ValueError) as error:
        raise VerificationError(f"{manifest.name} is no manifest: it lacks {error}", hint=_HINT) from error
    return WheelSet(manifest, document, listed)


def package_wheels(package: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the wheels of a manifest's package: it has one, or one for each Python and platform."""
    return list(package["wheels"]) if "wheels" in package else [package["wheel"]]


def other_entries(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return name, version and wheel of what a set has beside its packages: upstream's own wheels, and the kernels'."""
    entries = list(document.get("taken", ()))
    wheel = (document.get("kernels") or {}).get("wheel")
    if wheel is not None:
        name, version, _, _ = parse_wheel_filename(_plain_name(wheel["filename"]))
        entries.append({"name": name, "version": str(version), "wheel": wheel})
    return entries


def _wheels(folder: Path, document: Mapping[str, Any]) -> Iterator[SetWheel]:
    for package in (*document["packages"], *other_entries(document)):
        for wheel in package_wheels(package):
            taken = "key" not in package
            yield SetWheel(
                path=folder / _plain_name(wheel["filename"]),
                package=package["name"],
                version=package["version"],
                sha256=wheel["sha256"],
                size=int(wheel["size"]),
                key="" if taken else wheel.get("key") or package["key"],
                development=not taken and bool(package["development"]),
                taken=taken,
            )


def _plain_name(name: str) -> str:
    if Path(name).name != name or not name.endswith(".whl"):
        raise VerificationError(f"the manifest lists {name!r}, which is no wheel's file name", hint=_HINT)
    return name


def verify_set(wheels: WheelSet) -> None:
    """Check every wheel against the manifest, its own RECORD and its own records; raise VerificationError."""
    for wheel in wheels.wheels:
        check_bytes(wheel.path, sha256=wheel.sha256, said_by=wheels.manifest.name)
        verify_wheel(wheel.path, must_contain={})
        if not wheel.taken:
            _check_records(wheel, manifest=wheels.manifest.name)


def check_bytes(file: Path, *, sha256: str, said_by: str) -> None:
    """Raise VerificationError unless a file is there and has the SHA-256 that something says of it."""
    if not file.is_file():
        raise VerificationError(f"{said_by} lists {file.name}, which is not in {file.parent}", hint=_HINT)
    found = sha256_file(file)
    if found != sha256:
        raise VerificationError(f"{file.name} has the SHA-256 {found}, {said_by} says {sha256}", hint=_HINT)


def _check_records(wheel: SetWheel, *, manifest: str) -> None:
    recorded = read_key(wheel.path)
    for name, said, found in (
        ("package", canonicalize_name(wheel.package), canonicalize_name(str(recorded.get("package")))),
        ("version", wheel.version, recorded.get("version")),
        ("key", wheel.key, recorded.get("key")),
    ):
        if said != found:
            raise VerificationError(f"{wheel.filename} records the {name} {found}, {manifest} says {said}", hint=_HINT)


def read_key(wheel: Path) -> Mapping[str, Any]:
    """Return the key that a wheel records: ``package``, ``version``, ``key`` and ``parts``."""
    files = read_wheel(wheel).files
    if _KEY not in files:
        raise VerificationError(
            f"{wheel.name} was not made by forkwheel: its .dist-info has no {_KEY}",
            hint="name a wheel that forkwheel built",
        )
    try:
        key = json.loads(files[_KEY])
    except ValueError as error:
        raise VerificationError(f"{wheel.name}: {_KEY} cannot be read: {error}", hint=_HINT) from error
    if not isinstance(key, dict) or not isinstance(key.get("parts"), dict):
        raise VerificationError(f"{wheel.name}: {_KEY} is no record of a key", hint=_HINT)
    found = Key(tuple(sorted(key["parts"].items()))).digest
    if key.get("key") != found:
        raise VerificationError(
            f"{wheel.name} records the key {key.get('key')}, the digest of its parts is {found}", hint=_HINT
        )
    return key
