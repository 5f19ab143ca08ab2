"""What a manifest must look like before anything in it is used: it may come from anyone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from forkwheel.release.shapes import (
    Shape,
    fields,
    file_name,
    flag,
    list_of,
    map_of,
    nothing,
    number,
    one_of,
    text,
)

_LATEST = 4_354_819_198  # seconds since 1970: 2107-12-31T23:59:58Z, the last time that a zip can hold
_NAME = text(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", "a name of letters, digits, '.', '_' and '-'")
_WORD = text(r"[a-z][a-z0-9]*", "one lower-case word")
_LINE = text(r"[^\x00-\x1f\x7f]*", "a line of text")
_COMMIT = text(r"[0-9a-f]{40}", "a full commit")
_DIGEST = text(r"[0-9a-f]{64}", "a SHA-256")
_SIZE = number(0, 1 << 40)


def _version(value: Any, place: str) -> None:
    _LINE(value, place)
    Version(value)


_WHEEL: dict[str, Shape] = {"filename": file_name, "sha256": _DIGEST, "size": _SIZE}
_PARTS = map_of(_LINE)
_SOURCE = one_of(
    fields(
        {
            "kind": text("git", "git"),
            "url": _LINE,
            "commit": _COMMIT,
            "tag": one_of(_LINE, nothing),
            "subdirectory": _LINE,
            "submodules": map_of(_COMMIT),
        }
    ),
    fields({"kind": text("sdist|wheel", "sdist, wheel or a whole git pin"), "filename": file_name, "sha256": _DIGEST}),
)
_PACKAGE: dict[str, Shape] = {
    "name": _NAME,
    "version": _version,
    "upstream_version": _version,
    "epoch": number(0, _LATEST),
    "development": flag,
    "requires": map_of(_LINE),
    "patches": list_of(
        fields({"name": file_name, "sha256": _DIGEST}, {"description": text(), "files": list_of(_LINE)})
    ),
    "patched_files": map_of(one_of(_DIGEST, nothing)),
    "inputs": list_of(fields({"name": _NAME, "version": _version, "hashes": list_of(_DIGEST)})),
    "key": _DIGEST,
    "parts": _PARTS,
    "tree": _DIGEST,
    "sources": list_of(_SOURCE),
}
_SEVERAL = fields({**_WHEEL, "key": _DIGEST, "parts": _PARTS, "tree": _DIGEST, "tags": _LINE})
_TAKEN = fields({"name": _NAME, "version": _version, "wheel": fields(_WHEEL)})
_MODULE = fields({"name": file_name, "sha256": _DIGEST, "size": _SIZE, "device": list_of(_DIGEST)})
_COMPILED: dict[str, Shape] = {
    "key": _DIGEST,
    "fast": flag,
    "parts": _PARTS,
    "targets": list_of(_LINE, least=1),
    "modules": list_of(_MODULE, least=1),
}
_KERNELS = fields({**_COMPILED, "wheel": fields(_WHEEL)}, {"recipe": map_of(text())})
_RECIPE = fields({"name": _NAME, "local": _WORD, "revision": number(0, 1 << 31), "target": _LINE})


def _package(value: Any, place: str) -> None:
    """Check a package, which has one wheel or several."""
    several = isinstance(value, dict) and "wheels" in value
    fields({**_PACKAGE, **({"wheels": list_of(_SEVERAL, least=1)} if several else {"wheel": fields(_WHEEL)})})(
        value, place
    )


_MANIFEST = fields({"recipe": _RECIPE, "packages": list_of(_package)}, {"taken": list_of(_TAKEN), "kernels": _KERNELS})


def check_manifest(document: Mapping[str, Any]) -> None:
    """Raise ValueError, with the place, where a document is no manifest, or its wheels are not those it names."""
    _MANIFEST(document, "")
    if not _entries(document):
        raise ValueError("it lists no package")
    _check_distinct((canonicalize_name(entry["name"]) for entry in _entries(document)), what="package")
    _check_distinct((wheel["filename"] for wheel in _wheels(document)), what="wheel")
    for entry in _entries(document):
        for wheel in entry.get("wheels") or [entry["wheel"]]:
            name, version, _, _ = parse_wheel_filename(wheel["filename"])
            if name != canonicalize_name(entry["name"]) or version != Version(entry["version"]):
                raise ValueError(f"{wheel['filename']!r} is no wheel of {entry['name']} {entry['version']}")
    if "kernels" in document:
        check_kernels(document["kernels"])


def check_kernels(document: Mapping[str, Any]) -> None:
    """Raise ValueError, with the place, where a document is no record of a wheel of kernels."""
    _KERNELS(document, "")
    parse_wheel_filename(document["wheel"]["filename"])


def check_compiled(document: Mapping[str, Any]) -> None:
    """Raise ValueError, with the place, where a document is not what a wheel of kernels carries of its compilation."""
    fields(_COMPILED)(document, "")


def _entries(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*document["packages"], *document.get("taken", ())]


def _wheels(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for entry in (*_entries(document), *([document["kernels"]] if "kernels" in document else [])):
        yield from entry.get("wheels") or [entry["wheel"]]


def _check_distinct(names: Iterator[str], *, what: str) -> None:
    counted = Counter(names)
    if twice := sorted(name for name, count in counted.items() if count > 1):
        raise ValueError(f"the {what} {twice[0]!r} is listed twice")
