"""Whether a wheel's records agree with one another, and so with the key that they give.

RECORD only says that the files are those that were packed. Here every part of the build key
that can be had from what the wheel carries is computed anew; the digest of the source tree
alone cannot be.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from forkwheel.canonical import canonical_recipe
from forkwheel.errors import ForkwheelError
from forkwheel.key import build_key, development_version, released_version
from forkwheel.patching.series import SERIES
from forkwheel.recipe import Package
from forkwheel.release.inputs import lock_text
from forkwheel.wheels.metadata import fields, rewrite_requirements
from forkwheel.wheels.recorded import INPUTS, KEY, PATCHES, RECIPE, SBOM, Recorded, contradiction, damaged
from forkwheel.wheels.verify import WheelRecords


def check_recorded(records: WheelRecords, recorded: Recorded) -> None:
    """Check each of a wheel's records against the others.

    Raise VerificationError, naming what differs and both values, at the first fault.
    """
    _check_parts(records, recorded)
    _check_names(records, recorded)
    _check_texts(records, recorded)
    _check_sbom(records, recorded)


def _check_parts(records: WheelRecords, recorded: Recorded) -> None:
    computed = build_key(
        recorded.recipe,
        recorded.package,
        tree_digest=dict(recorded.key.parts)["tree"],
        series=recorded.series,
        required=dict(recorded.package.required_versions),
        inputs=recorded.inputs,
    )
    for part, carried, said in computed.changes(dict(recorded.key.parts)):
        raise contradiction(
            records, f"{KEY} gives the part {part} as {said!r}, and what the wheel carries gives {carried!r}"
        )


def _check_names(records: WheelRecords, recorded: Recorded) -> None:
    """Check that the records, METADATA and the file's name speak of one package, version and its requirements."""
    named = recorded.name
    if canonicalize_name(named) != records.name:
        raise contradiction(records, f"{KEY} gives the package {named!r}, and the file is named {records.name}")
    if "METADATA" not in records.files:
        raise contradiction(records, "its .dist-info lacks METADATA")
    metadata = records.files["METADATA"]
    found = fields(metadata)
    names, versions = found.get("name", []), found.get("version", [])
    if [canonicalize_name(name) for name in names] != [records.name]:
        raise contradiction(records, f"METADATA gives the name {', '.join(names) or '-'}, and {KEY} {named}")
    if versions != [recorded.version]:
        raise contradiction(
            records, f"METADATA gives the version {', '.join(versions) or '-'}, and {KEY} {recorded.version}"
        )
    if not _equal(recorded.version, records.version):
        raise contradiction(
            records, f"{KEY} gives the version {recorded.version}, and the file is named {records.version}"
        )
    expected = _versions(recorded)
    if not re.fullmatch(expected, recorded.version):
        raise contradiction(
            records, f"{KEY} gives the version {recorded.version}, and {RECIPE} makes {expected.replace(chr(92), '')}"
        )
    _check_requirements(records, recorded.package, metadata)


def _equal(left: str, right: str) -> bool:
    try:
        return Version(left) == Version(right)
    except InvalidVersion:
        return False


def _versions(recorded: Recorded) -> str:
    """Return a pattern of the versions that a recipe's revision makes.

    The development version of a package that has several wheels is named by the keys of all
    of them, of which one wheel knows its own alone.
    """
    recipe, package = recorded.recipe, recorded.package
    if recipe.revision:
        return re.escape(released_version(package, local=recipe.local, revision=recipe.revision))
    version = development_version(package, local=recipe.local, key=recorded.key)
    if all(source.kind == "wheel" for source in package.sources):
        return re.escape(version[:-7]) + "[0-9a-f]{7}"
    return re.escape(version)


def _check_requirements(records: WheelRecords, package: Package, metadata: bytes) -> None:
    for text, version in package.required_versions:
        requirement = Requirement(text)
        extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
        try:
            rewrite_requirements(metadata, {f"{requirement.name}{extras}=={version}": version})
        except ForkwheelError as error:
            raise contradiction(
                records, f"{KEY} gives the part requires/{text} as {version!r}: {error.message}"
            ) from error


def _check_texts(records: WheelRecords, recorded: Recorded) -> None:
    """Check that the recipe, the lock and the series are what forkwheel writes, with nothing beside it."""
    recipe, package, series = recorded.recipe, recorded.package, recorded.series
    texts = {
        RECIPE: canonical_recipe(
            package if series.patches else replace(package, series=None),
            name=recipe.name,
            local=recipe.local,
            revision=recipe.revision,
            target=recipe.target,
            required=dict(package.required_versions),
        ),
        INPUTS: lock_text([recorded.inputs]),
    }
    if series.patches:
        texts[f"{PATCHES}{SERIES}"] = "".join(f"{patch.name}\n" for patch in series.patches)
    for file, text in texts.items():
        found = records.files[file].split(b"\n")
        for number, line in enumerate(text.encode().split(b"\n"), 1):
            other = found[number - 1] if number <= len(found) else b""
            if line != other:
                raise contradiction(records, f"{file}:{number}: {other!r} is not what forkwheel writes, {line!r}")
        if records.files[file] != text.encode():
            raise contradiction(
                records, f"{file} has {len(found)} lines, and forkwheel writes {text.count(chr(10)) + 1}"
            )


def _check_sbom(records: WheelRecords, recorded: Recorded) -> None:
    from cyclonedx.exception import CycloneDxException  # slow to import, and `show` alone needs it

    from forkwheel.release.sbom import sbom

    if not isinstance(recorded.sbom.get("metadata"), dict) or not isinstance(recorded.sbom.get("components", []), list):
        raise damaged(records, SBOM, "it is no CycloneDX document")
    try:
        text = sbom(
            package=recorded.package,
            version=recorded.version,
            key=recorded.key.digest,
            series=recorded.series,
            inputs=recorded.inputs.requirements,
        )
    except (CycloneDxException, ValueError, OverflowError, OSError) as error:
        raise damaged(records, "what it records", f"no bill of materials can be made of it: {error}") from error
    if difference := _difference(recorded.sbom, json.loads(text), place=""):
        place, found, wanted = difference
        raise contradiction(records, f"{SBOM} gives {place} as {found}, and what the wheel carries gives {wanted}")


def _difference(found: Any, wanted: Any, *, place: str) -> tuple[str, str, str] | None:
    """Return the first place at which two JSON values differ, and both values there, cut short."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        pairs = [(f"{place}/{name}", found.get(name), wanted.get(name)) for name in sorted({*found, *wanted})]
    elif isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        pairs = [(f"{place}/{index}", *pair) for index, pair in enumerate(zip(found, wanted, strict=True))]
    else:
        return None if found == wanted else (place, _short(found), _short(wanted))
    return next((known for name, *pair in pairs if (known := _difference(*pair, place=name))), None)


def _short(value: Any) -> str:
    text = f"a list of {len(value)}" if isinstance(value, list) else repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
