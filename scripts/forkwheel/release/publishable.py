"""What must not be published: development builds, bytes that no lock knows, and whatever failed a check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.utils import parse_wheel_filename

from forkwheel.cuda.kernels_lock import load_kernels_lock
from forkwheel.errors import PublishError
from forkwheel.release.lock import load_lock
from forkwheel.release.manifest_shape import check_kernels
from forkwheel.release.provenance import check_provenance
from forkwheel.release.publish import check_install_files
from forkwheel.release.shapes import read_object
from forkwheel.release.wheel_set import BUILT, KERNELS, SetWheel, WheelSet, check_bytes, verify_set
from forkwheel.wheels.verify import verify_wheel

CHECKS = ("smoke.json", "controls.json", "census.json", "audit.json")
"""Records of checks that may lie beside a manifest; one that failed keeps its set from going out."""

_LOCK_AGAIN = "run `nox -s lock -- --recipe RECIPE`, then build again"


def check_publishable(wheels: WheelSet, *, lock: Path) -> None:
    """Raise PublishError or VerificationError, naming what is wrong, unless a set may go out."""
    _check_released(wheels)
    _check_lock(wheels, lock)
    verify_set(wheels)
    check_provenance(wheels)
    check_install_files(wheels)
    for suffix in CHECKS:
        _check_record(wheels.beside(suffix))


def kernel_wheels(wheels: WheelSet, *, recipe_folder: Path) -> tuple[SetWheel, ...]:
    """Return the wheel of compiled kernels that lies beside a set, if there is one.

    Raise PublishError unless it is of the set's version and the kernels' lock has it.
    """
    said_by = wheels.manifest.name
    document = wheels.document.get("kernels")
    if document is None:
        said_by = wheels.beside("kernels.json").name
        document = _kernels_record(wheels)
    if document is None:
        return ()
    made = document["wheel"]
    path = wheels.folder / made["filename"]
    check_bytes(path, sha256=made["sha256"], said_by=said_by)
    verify_wheel(path, must_contain={})
    name, version, _, _ = parse_wheel_filename(path.name)
    hint = "compile the kernels anew with `forkwheel kernels --recipe RECIPE --lock`, or remove their wheel and record"
    if document["fast"] or str(version) not in {wheel.version for wheel in wheels.wheels if wheel.kind == BUILT}:
        raise PublishError(f"{path.name} is a fast build, or of another version than the set's wheels", hint=hint)
    if made["sha256"] not in {build.sha256 for build in load_kernels_lock(recipe_folder).builds}:
        raise PublishError(f"{path.name} is not in the kernels' lock in {recipe_folder}", hint=hint)
    return (
        SetWheel(
            path, name, str(version), made["sha256"], made["size"], document["key"], development=False, kind=KERNELS
        ),
    )


def _kernels_record(wheels: WheelSet) -> Mapping[str, Any] | None:
    """Return the record that lies beside a set whose manifest says nothing of kernels."""
    file = wheels.beside("kernels.json")
    document = read_record(file)
    try:
        if document is not None:
            check_kernels(document)
    except ValueError as error:
        raise PublishError(
            f"{file.name} is no record of kernels: {error}", hint="compile the kernels anew, or remove the file"
        ) from error
    return document


def _check_released(wheels: WheelSet) -> None:
    for wheel in wheels.wheels:
        if wheel.development or ".dev." in wheel.version or ".dev." in wheel.filename:
            raise PublishError(
                f"{wheel.filename} is a development build, which can't be published",
                hint="record it as a revision with `nox -s lock -- --recipe RECIPE`, build again, then publish",
            )


def _check_lock(wheels: WheelSet, lock: Path) -> None:
    if not lock.is_file():
        raise PublishError(
            f"there is no lock {lock}, so nothing says that this is revision {wheels.revision} of {wheels.recipe}",
            hint="run this in the checkout, or name the recipe's wheels.lock.toml with --lock",
        )
    revision = load_lock(lock).revision(wheels.revision)
    if revision is None:
        raise PublishError(f"{lock} has no revision {wheels.revision}", hint=_LOCK_AGAIN)
    locked = {wheel.filename: wheel for wheel in revision.wheels}
    if missing := sorted(locked.keys() - {wheel.filename for wheel in wheels.wheels}):
        raise PublishError(f"the set lacks {missing[0]}, which {lock} lists", hint="build the whole recipe")
    for wheel in wheels.wheels:
        if wheel.kind == KERNELS:  # which have a lock of their own
            continue
        known = locked.get(wheel.filename)
        if known is None:
            raise PublishError(f"{lock} does not list {wheel.filename}", hint=_LOCK_AGAIN)
        if wheel.kind == BUILT:
            _compare(wheel, "key", wheel.key, known.key, lock)
        _compare(wheel, "SHA-256", wheel.sha256, known.sha256, lock)


def _compare(wheel: SetWheel, what: str, found: str, locked: str, lock: Path) -> None:
    if found != locked:
        raise PublishError(
            f"{wheel.filename} has the {what} {found}, {lock} says {locked}",
            hint="build again from this checkout, or record the change with `nox -s lock -- --recipe RECIPE`",
        )


def _check_record(file: Path) -> None:
    document = read_record(file)
    try:
        found = next(problems(document or {}), None)
    except (AttributeError, TypeError) as error:
        raise PublishError(f"{file.name} is no record of a check: {error}", hint="run the check again") from error
    if found is not None:
        raise PublishError(f"{file.name}: {found}", hint="mend what failed and run the check again, then publish")


def read_record(file: Path) -> Mapping[str, Any] | None:
    """Return the record of a check, or None where there is none; raise PublishError where it cannot be read."""
    if not file.is_file():
        return None
    try:
        return read_object(file.read_bytes())
    except ValueError as error:
        raise PublishError(f"{file.name} cannot be read: {error}", hint="run the check again") from error


def problems(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a record of a check says that failed: its failures, its failed checks, then its verdict."""
    for failure in document.get("failures") or ():
        yield str(failure)
    for check in document.get("checks") or ():
        if check.get("status") == "FAIL":
            yield f"{check.get('name')} failed: {check.get('detail', '')}"
    for change in document.get("difference") or ():
        if change.get("change") == "newly closed":
            yield f"the series closes the gate {change.get('place')}: {change.get('condition')}"
    if document.get("verdict", "PASS") != "PASS":
        yield f"the verdict is {document['verdict']}"
