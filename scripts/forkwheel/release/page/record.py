"""What the page is made of: a verified set, what its wheels carry, and the records of checks that are there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forkwheel.cuda.kernels_lock import load_kernels_lock
from forkwheel.errors import PublishError, VerificationError
from forkwheel.patching.series import Series, load_series
from forkwheel.release.carried import Carried, carried_by
from forkwheel.release.lock import load_lock
from forkwheel.release.publishable import read_record
from forkwheel.release.signing import signature_of
from forkwheel.release.wheel_set import KERNELS, WheelSet

KINDS = ("smoke", "controls", "bench", "census", "audit")


@dataclass(frozen=True)
class Record:
    """The record of a check: its file, what it holds, and whether it is about these wheels (None: it does not say)."""

    file: str
    kind: str
    document: Mapping[str, Any]
    current: bool | None


@dataclass(frozen=True)
class Part:
    """A package of the set: its entry in the manifest, and the recipe and series that its wheel carries."""

    entry: Mapping[str, Any]
    carried: Carried
    series: Series


@dataclass(frozen=True)
class Report:
    """Everything that the page shows."""

    wheels: WheelSet
    parts: tuple[Part, ...]
    records: tuple[Record, ...]
    lock: str
    signed: bool

    def of(self, kind: str) -> tuple[Record, ...]:
        """Return the records of a kind, those about these wheels first."""
        found = [record for record in self.records if record.kind == kind]
        return tuple(sorted(found, key=lambda record: record.current is False))


def collect(wheels: WheelSet, *, recipe_folder: Path, work: Path) -> Report:
    """Read what there is about a set; ``recipe_folder`` has its lock and the evidence that was kept."""
    return Report(
        wheels=wheels,
        parts=tuple(_parts(wheels, work)),
        records=tuple(_records(wheels, recipe_folder / "evidence")),
        lock=_lock_state(wheels, recipe_folder / "wheels.lock.toml"),
        signed=signature_of(wheels.beside("provenance.json")).is_file(),
    )


def _parts(wheels: WheelSet, work: Path) -> Iterator[Part]:
    for entry in wheels.document["packages"]:
        wheel = next(wheel for wheel in wheels.wheels if wheel.package == entry["name"])
        carried = carried_by(wheel.path, work / wheel.filename, verified=True)
        yield Part(entry, carried, load_series(carried.package.series))


def _records(wheels: WheelSet, evidence: Path) -> Iterator[Record]:
    for kind in KINDS:
        document = _read(file := wheels.beside(f"{kind}.json"))
        if document is not None:
            yield Record(file.name, kind, document, _is_about(document, wheels))
    for file in sorted(evidence.rglob("*.json")):
        document = _read(file)
        named = _kind(document, file) if document is not None else None
        if document is not None and named is not None:
            yield Record(f"evidence/{file.relative_to(evidence)}", named, document, _is_about(document, wheels))


def _read(file: Path) -> Mapping[str, Any] | None:
    try:
        return read_record(file)
    except PublishError as error:
        raise VerificationError(error.message, hint=error.hint) from error


def _kind(document: Mapping[str, Any], file: Path) -> str | None:
    named = document.get("kind")
    return named if named in KINDS else next((kind for kind in KINDS if f".{kind}" in file.name), None)


def _is_about(document: Mapping[str, Any], wheels: WheelSet) -> bool | None:
    """Tell whether a check ran a set: a wheel of each of its packages, of which one may have several."""
    listed = document.get("wheels")
    if not isinstance(listed, list):
        return None
    ran = {str(wheel.get("sha256")) for wheel in listed if isinstance(wheel, dict)}
    needed = {wheel.package for wheel in wheels.wheels if wheel.kind != KERNELS}
    return needed <= {wheel.package for wheel in wheels.wheels if wheel.sha256 in ran}


def _lock_state(wheels: WheelSet, file: Path) -> str:
    """Say how the set stands to its recipe's locks: ``locked``, ``released``, ``differs`` or ``unknown``."""
    revision = load_lock(file).revision(wheels.revision)
    if revision is None:
        return "unknown"
    locked: Sequence[tuple[str, str]] = [(wheel.filename, wheel.sha256) for wheel in revision.wheels]
    ours = [(wheel.filename, wheel.sha256) for wheel in wheels.wheels if wheel.kind != KERNELS]
    kernels = {build.sha256 for build in load_kernels_lock(file.parent).builds}
    if sorted(locked) != sorted(ours) or any(
        wheel.sha256 not in kernels for wheel in wheels.wheels if wheel.kind == KERNELS
    ):
        return "differs"
    return "released" if revision.released else "locked"
