"""What a wheel says of how it was made: its key, recipe, pins, patches, locks and SBOM."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from forkwheel.errors import ForkwheelError, VerificationError
from forkwheel.patching.series import Series, load_series
from forkwheel.recipe import GitSource, Package, Recipe, Source, load_recipe
from forkwheel.release.inputs import FILENAME, LockedRequirement, load_inputs
from forkwheel.wheels.verify import WheelRecords, read_wheel, verify_wheel

FORMAT = 1
SCHEMA = 1  # of `show --json`: raised when a field is removed or changes its meaning

_KEY = "forkwheel/key.json"
_RECIPE = "forkwheel/recipe.toml"
_INPUTS = f"forkwheel/{FILENAME}"
_SBOM = "sboms/forkwheel.cdx.json"


@dataclass(frozen=True)
class ShownPatch:
    """A patch of the wheel's series, in its order; the first line of ``description`` is its summary."""

    name: str
    description: str


@dataclass(frozen=True)
class ShownRequirement:
    """A locked build requirement; ``files`` maps wheels to their SHA-256 (hex)."""

    name: str
    version: str
    marker: str | None
    files: dict[str, str]


@dataclass(frozen=True)
class ShownSbom:
    """The bill of materials in short; ``components`` are those beside the wheel itself."""

    format: str
    serial_number: str
    timestamp: str
    components: int


@dataclass(frozen=True)
class ShownWheel:
    """All that a wheel records; ``size`` in bytes, digests in hex, ``parts`` the key's inputs."""

    filename: str
    sha256: str
    size: int
    package: str
    version: str
    key: str
    parts: dict[str, str]
    recipe: str
    target: str
    pins: tuple[str, ...]
    patches: tuple[ShownPatch, ...]
    requirements: tuple[ShownRequirement, ...]
    sbom: ShownSbom


def show_wheel(path: Path) -> ShownWheel:
    """Read a wheel's records, after its RECORD was checked row by row.

    Raise VerificationError where the wheel is damaged or was not made by forkwheel.
    """
    verify_wheel(path, must_contain={})
    records = read_wheel(path)
    if _KEY not in records.files:
        raise VerificationError(
            f"{records.filename} was not made by forkwheel: its .dist-info has no {_KEY}",
            hint="name a wheel that forkwheel built",
        )
    key = _key(records)
    with tempfile.TemporaryDirectory() as temporary:
        recipe, package, series, requirements = _loaded(records, Path(temporary))
    return ShownWheel(
        filename=records.filename,
        sha256=records.sha256,
        size=records.size,
        package=package.name,
        version=key["version"],
        key=key["key"],
        parts=key["parts"],
        recipe=recipe.name,
        target=recipe.target,
        pins=tuple(line for source in package.sources for line in _pins(source)),
        patches=tuple(ShownPatch(patch.name, patch.header.description) for patch in series.patches),
        requirements=tuple(
            ShownRequirement(item.name, item.version, item.marker, dict(item.files)) for item in requirements
        ),
        sbom=_sbom(records),
    )


def document(wheels: list[ShownWheel]) -> dict[str, Any]:
    """Return what ``show --json`` prints."""
    return {"schema": SCHEMA, "wheels": [asdict(wheel) for wheel in wheels]}


def _damaged(records: WheelRecords, file: str, reason: object) -> VerificationError:
    return VerificationError(
        f"{records.filename}: {file} cannot be read: {reason}", hint="use a newer forkwheel, or build the wheel again"
    )


def _json(records: WheelRecords, file: str) -> dict[str, Any]:
    try:
        value = json.loads(records.files[file])
    except KeyError:
        raise _damaged(records, file, "it is missing") from None
    except ValueError as error:
        raise _damaged(records, file, error) from error
    if not isinstance(value, dict):
        raise _damaged(records, file, "it is no JSON object")
    return value


def _key(records: WheelRecords) -> dict[str, Any]:
    key = _json(records, _KEY)
    number = key.get("format")
    if number != FORMAT:
        raise _damaged(records, _KEY, f"its format is {number!r}, and {FORMAT} is what is known here")
    for field, kind in (("key", str), ("version", str), ("parts", dict)):
        if not isinstance(key.get(field), kind):
            raise _damaged(records, _KEY, f"its `{field}` is missing or of another type")
    return key


def _loaded(records: WheelRecords, folder: Path) -> tuple[Recipe, Package, Series, tuple[LockedRequirement, ...]]:
    """Write the records out and load them, as a rebuild would."""
    for name, content in records.files.items():
        if name.startswith("forkwheel/"):
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    try:
        recipe = load_recipe(folder / _RECIPE)
        package = recipe.package(records.name)
        series = load_series(package.series)
        return recipe, package, series, load_inputs(folder / _INPUTS).of(package.name)
    except ForkwheelError as error:
        raise _damaged(
            records, "what it records", error.message.replace(f"{folder.resolve()}/", "").replace(f"{folder}/", "")
        ) from error


def _pins(source: Source) -> list[str]:
    lines = [f"{source.kind} {source.pin}"]
    if isinstance(source, GitSource):
        lines += [f"git {submodule.path}@{submodule.commit}" for submodule in source.submodules]
    return lines


def _sbom(records: WheelRecords) -> ShownSbom:
    bom = _json(records, _SBOM)
    metadata, components = bom.get("metadata"), bom.get("components", [])
    if not isinstance(metadata, dict) or not isinstance(components, list):
        raise _damaged(records, _SBOM, "it is no CycloneDX document")
    return ShownSbom(
        format=f"{bom.get('bomFormat')} {bom.get('specVersion')}",
        serial_number=str(bom.get("serialNumber")),
        timestamp=str(metadata.get("timestamp")),
        components=len(components),
    )
