"""What a wheel says of how it was made: its key, recipe, pins, patches, locks and SBOM."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from forkwheel.errors import VerificationError
from forkwheel.recipe import GitSource, Source
from forkwheel.wheels.agreement import check_recorded
from forkwheel.wheels.recorded import KEY, Recorded, load_recorded
from forkwheel.wheels.verify import WheelRecords, read_wheel, verify_wheel

SCHEMA = 1  # of `show --json`: raised when a field is removed or changes its meaning


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
    """Read a wheel's records, after its RECORD was checked row by row, and the records against one another.

    Raise VerificationError where the wheel is damaged, contradicts itself, or was not made by
    forkwheel.
    """
    verify_wheel(path, must_contain={})
    records = read_wheel(path)
    if KEY not in records.files:
        raise VerificationError(
            f"{records.filename} was not made by forkwheel: its .dist-info has no {KEY}",
            hint="name a wheel that forkwheel built",
        )
    recorded = _recorded(records)
    return ShownWheel(
        filename=records.filename,
        sha256=records.sha256,
        size=records.size,
        package=recorded.package.name,
        version=recorded.version,
        key=recorded.key.digest,
        parts=dict(recorded.key.parts),
        recipe=recorded.recipe.name,
        target=recorded.recipe.target,
        pins=tuple(line for source in recorded.package.sources for line in _pins(source)),
        patches=tuple(ShownPatch(patch.name, patch.header.description) for patch in recorded.series.patches),
        requirements=tuple(
            ShownRequirement(item.name, item.version, item.marker, dict(item.files))
            for item in recorded.inputs.requirements
        ),
        sbom=_sbom(recorded),
    )


def _recorded(records: WheelRecords) -> Recorded:
    try:
        with tempfile.TemporaryDirectory() as temporary:
            recorded = load_recorded(records, Path(temporary))
    except OSError as error:
        raise VerificationError(
            f"{records.filename}: there is no temporary folder for its records: {error.strerror or error}",
            hint="see that the disk of the temporary folder (TMPDIR) has room",
        ) from error
    check_recorded(records, recorded)
    return recorded


def document(wheels: list[ShownWheel]) -> dict[str, Any]:
    """Return what ``show --json`` prints."""
    return {"schema": SCHEMA, "wheels": [asdict(wheel) for wheel in wheels]}


def _pins(source: Source) -> list[str]:
    lines = [f"{source.kind} {source.pin}"]
    if isinstance(source, GitSource):
        lines += [f"git {submodule.path}@{submodule.commit}" for submodule in source.submodules]
    return lines


def _sbom(recorded: Recorded) -> ShownSbom:
    bom = recorded.sbom
    return ShownSbom(
        format=f"{bom.get('bomFormat')} {bom.get('specVersion')}",
        serial_number=str(bom.get("serialNumber")),
        timestamp=str(bom["metadata"].get("timestamp")),
        components=len(bom.get("components", [])),
    )
