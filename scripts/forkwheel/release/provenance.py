"""Provenance of a set: an in-toto statement with a SLSA provenance v1 predicate.

The statement says of every wheel and of the manifest what they were made from: inputs only, so
that it is the same on every machine. https://slsa.dev/spec/v1.0/provenance describes its form.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from forkwheel import __version__
from forkwheel.errors import VerificationError
from forkwheel.key import BUILD_FORMAT
from forkwheel.release.manifest import write_json
from forkwheel.release.shapes import read_object
from forkwheel.release.wheel_set import WheelSet, check_bytes, other_entries, package_wheels
from forkwheel.tree import sha256_file

SUFFIX = "provenance.json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
_HINT = "build the set again, or fetch it again from where it was published"


def statement(manifest: Mapping[str, Any], *, manifest_name: str, manifest_bytes: bytes) -> bytes:
    """Return the statement on a manifest's wheels and on the manifest itself."""
    subjects = [
        _subject(wheel["filename"], wheel["sha256"])
        for package in (*manifest["packages"], *other_entries(manifest))
        for wheel in package_wheels(package)
    ]
    subjects.append(_subject(manifest_name, sha256(manifest_bytes).hexdigest()))
    return write_json(
        {
            "_type": STATEMENT,
            "subject": subjects,
            "predicateType": PREDICATE,
            "predicate": {
                "buildDefinition": {
                    "buildType": f"urn:forkwheel:build:{BUILD_FORMAT}",
                    "externalParameters": {
                        "recipe": manifest["recipe"],
                        "packages": {package["name"]: _parameters(package) for package in manifest["packages"]},
                    },
                    "internalParameters": {},
                    "resolvedDependencies": [one for each in manifest["packages"] for one in _dependencies(each)],
                },
                "runDetails": {"builder": {"id": "urn:forkwheel:builder", "version": {"forkwheel": __version__}}},
            },
        }
    )


def _subject(name: str, digest: str) -> dict[str, Any]:
    return {"name": name, "digest": {"sha256": digest}}


def _parameters(package: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "version": package["version"],
        "key": package["key"],
        "epoch": package["epoch"],
        "tree": package["tree"],
        "patches": [{"name": patch["name"], "sha256": patch["sha256"]} for patch in package["patches"]],
    }


def _dependencies(package: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the package's pinned sources, any of which gives the same tree, and its build requirements."""
    for source in package["sources"]:
        if source["kind"] == "git":
            uri = f"git+{source['url']}@{source['commit']}"
            yield {"name": package["name"], "uri": uri, "digest": {"gitCommit": source["commit"]}}
            for path, commit in source["submodules"].items():
                yield {"name": f"{package['name']}/{path}", "digest": {"gitCommit": commit}}
        else:
            uri = f"pkg:pypi/{package['name']}@{package['upstream_version']}?file_name={source['filename']}"
            yield {"name": source["filename"], "uri": uri, "digest": {"sha256": source["sha256"]}}
    for item in package["inputs"]:
        for digest in item["hashes"]:
            uri = f"pkg:pypi/{item['name']}@{item['version']}"
            yield {"name": item["name"], "uri": uri, "digest": {"sha256": digest}}


def check_provenance(wheels: WheelSet) -> Path:
    """Check that the statement beside a manifest is about this set, and return its file.

    Raise VerificationError naming the subject that differs.
    """
    file = wheels.beside(SUFFIX)
    said = _read(file)
    subjects = _subjects(said, file)
    manifest = wheels.manifest.name
    for wheel in wheels.wheels:
        if subjects.get(wheel.filename) != wheel.sha256:
            found = subjects.get(wheel.filename, "nothing")
            raise VerificationError(
                f"{file.name} says {found} of {wheel.filename}, {manifest} says {wheel.sha256}", hint=_HINT
            )
    if manifest not in subjects:
        raise VerificationError(f"{file.name} is not about {manifest}", hint=_HINT)
    check_bytes(wheels.manifest, sha256=subjects[manifest], said_by=file.name)
    wanted = statement(wheels.document, manifest_name=manifest, manifest_bytes=wheels.manifest.read_bytes())
    if _without_writer(said) != _without_writer(json.loads(wanted)):
        raise VerificationError(
            f"{file.name} (sha256 {sha256_file(file)}) does not say what the manifest says of the build", hint=_HINT
        )
    return file


def _read(file: Path) -> dict[str, Any]:
    try:
        return read_object(file.read_bytes())
    except FileNotFoundError:
        raise VerificationError(f"{file.name} is missing: the set has no provenance", hint=_HINT) from None
    except (OSError, ValueError) as error:
        raise VerificationError(f"{file.name} cannot be read as a statement: {error}", hint=_HINT) from error


def _subjects(document: Mapping[str, Any], file: Path) -> dict[str, str]:
    if (document.get("_type"), document.get("predicateType")) != (STATEMENT, PREDICATE):
        raise VerificationError(f"{file.name} is no provenance of SLSA v1", hint=_HINT)
    try:
        return {item["name"]: item["digest"]["sha256"] for item in document["subject"]}
    except (KeyError, TypeError) as error:
        raise VerificationError(f"{file.name} cannot be read as a statement: {error}", hint=_HINT) from error


def _without_writer(document: Mapping[str, Any]) -> Any:
    """Return what a statement claims: the forkwheel that wrote it may be of another version than this one."""
    try:
        details = document["predicate"]["runDetails"]
        builder = {name: value for name, value in details["builder"].items() if name != "version"}
        predicate = {**document["predicate"], "runDetails": {**details, "builder": builder}}
    except (KeyError, TypeError, AttributeError):
        return document  # which is then found to differ
    return {**document, "predicate": predicate}
