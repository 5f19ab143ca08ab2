"""The pages of a package index: PEP 503 in HTML, PEP 691 in JSON, from one list of files.

The JSON page of a project is what the index knows of it; the HTML page follows from it. Both
are the same bytes whenever the same files are listed, in whatever order they were added.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any
from urllib.parse import quote

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from forkwheel.release.shapes import fields, file_name, flag, list_of, number, one_of, read_object, text

API_VERSION = "1.1"

_DIGEST = text(r"[0-9a-f]{64}", "a SHA-256")
_LINE = text(r"[^\x00-\x1f\x7f]*", "a line of text")
_PROJECT_NAME = text(r"[a-z0-9]+(?:-[a-z0-9]+)*", "a project's normalised name")
_RECIPE_NAME = text(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", "a recipe's name")


@dataclass(frozen=True)
class IndexedFile:
    """One wheel of an index; ``metadata_sha256`` is of the metadata file beside it (PEP 658).

    ``size`` is in bytes; ``yanked`` is the reason (PEP 592), or None.
    """

    filename: str
    sha256: str
    size: int
    requires_python: str | None
    metadata_sha256: str
    yanked: str | None = None


@dataclass(frozen=True)
class IndexedSet:
    """A published set: its recipe and revision, and the digest of its manifest."""

    recipe: str
    revision: int
    sha256: str

    @property
    def folder(self) -> str:
        """The set's folder, relative to the index's root."""
        return f"sets/{self.recipe}/{self.revision}"

    @property
    def manifest(self) -> str:
        """The set's manifest, relative to the index's root."""
        return f"{self.folder}/{self.recipe}.manifest.json"


def _ordered(files: Iterable[IndexedFile]) -> list[IndexedFile]:
    return sorted(files, key=lambda file: (_version(file.filename), file.filename))


@cache
def _version(filename: str) -> Version:
    return parse_wheel_filename(filename)[1]


def project_json(name: str, files: Iterable[IndexedFile]) -> bytes:
    """Return a project's JSON page (PEP 691, and the sizes and versions of PEP 700)."""
    ordered = _ordered(files)
    versions = dict.fromkeys(str(_version(file.filename)) for file in ordered)
    return _json(
        {
            "meta": {"api-version": API_VERSION},
            "name": name,
            "versions": list(versions),
            "files": [_file(file) for file in ordered],
        }
    )


def _file(file: IndexedFile) -> dict[str, Any]:
    document = {
        "filename": file.filename,
        "url": _url(file),
        "hashes": {"sha256": file.sha256},
        "size": file.size,
        "core-metadata": {"sha256": file.metadata_sha256},
        "dist-info-metadata": {"sha256": file.metadata_sha256},
        "yanked": False if file.yanked is None else file.yanked or True,
    }
    if file.requires_python is not None:
        document["requires-python"] = file.requires_python
    return document


def _url(file: IndexedFile) -> str:
    """Return a file's URL from its project's page; ``+`` is quoted, since some servers read it as a space."""
    return f"../../{quote(file.filename)}"


_FILE = fields(
    {
        "filename": file_name,
        "hashes": fields({"sha256": _DIGEST}),
        "size": number(0, 1 << 40),
        "core-metadata": fields({"sha256": _DIGEST}),
        "yanked": one_of(flag, _LINE),
    },
    {"requires-python": _LINE},
)
_PROJECT = fields({"name": _PROJECT_NAME, "files": list_of(_FILE)})


def read_project(page: bytes) -> tuple[str, tuple[IndexedFile, ...]]:
    """Read a JSON page that ``project_json`` wrote; raise ValueError where it is another document."""
    document = read_object(page)
    _PROJECT(document, "")
    files = tuple(_indexed(item) for item in document["files"])
    for file in files:
        if parse_wheel_filename(file.filename)[0] != document["name"]:
            raise ValueError(f"{file.filename!r} is no wheel of {document['name']}")
    if len({file.filename for file in files}) < len(files):
        raise ValueError("a file is listed twice")
    return document["name"], files


def _indexed(item: Mapping[str, Any]) -> IndexedFile:
    yanked = item["yanked"]
    return IndexedFile(
        filename=item["filename"],
        sha256=item["hashes"]["sha256"],
        size=item["size"],
        requires_python=item.get("requires-python"),
        metadata_sha256=item["core-metadata"]["sha256"],
        yanked=None if yanked is False else "" if yanked is True else yanked,
    )


def project_html(name: str, files: Iterable[IndexedFile]) -> bytes:
    """Return a project's HTML page (PEP 503)."""
    return _html(f"Links for {name}", [_anchor(file) for file in _ordered(files)])


def _anchor(file: IndexedFile) -> str:
    attributes = {"href": f"{_url(file)}#sha256={file.sha256}"}
    if file.requires_python is not None:
        attributes["data-requires-python"] = file.requires_python
    attributes["data-core-metadata"] = f"sha256={file.metadata_sha256}"
    attributes["data-dist-info-metadata"] = f"sha256={file.metadata_sha256}"
    if file.yanked is not None:
        attributes["data-yanked"] = file.yanked
    text = "".join(f' {name}="{escape(value)}"' for name, value in attributes.items())
    return f"<a{text}>{escape(file.filename)}</a><br>"


def root_json(names: Iterable[str], sets: Iterable[IndexedSet]) -> bytes:
    """Return the JSON page that lists the projects; ``_sets`` is ours, as PEP 691 allows."""
    return _json(
        {
            "meta": {"api-version": API_VERSION},
            "projects": [{"name": name} for name in sorted(names)],
            "_sets": [
                {"recipe": one.recipe, "revision": one.revision, "manifest": f"../{one.manifest}", "sha256": one.sha256}
                for one in sorted(sets, key=lambda one: (one.recipe, one.revision))
            ],
        }
    )


_ROOT = fields(
    {
        "projects": list_of(fields({"name": _PROJECT_NAME})),
        "_sets": list_of(fields({"recipe": _RECIPE_NAME, "revision": number(0, 1 << 31), "sha256": _DIGEST})),
    }
)


def read_root(page: bytes) -> tuple[tuple[str, ...], tuple[IndexedSet, ...]]:
    """Read the page that ``root_json`` wrote; raise ValueError where it is another document."""
    document = read_object(page)
    _ROOT(document, "")
    sets = tuple(IndexedSet(one["recipe"], one["revision"], one["sha256"]) for one in document["_sets"])
    return tuple(item["name"] for item in document["projects"]), sets


def root_html(names: Iterable[str]) -> bytes:
    """Return the HTML page that lists the projects."""
    return _html("Simple index", [f'<a href="{quote(name)}/">{escape(name)}</a><br>' for name in sorted(names)])


def _html(title: str, lines: Iterable[str]) -> bytes:
    head = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        '<head><meta charset="utf-8">',
        f'<meta name="pypi:repository-version" content="{API_VERSION}">',
        f"<title>{escape(title)}</title></head>",
        f"<body><h1>{escape(title)}</h1>",
    ]
    return "\n".join([*head, *lines, "</body>", "</html>", ""]).encode()


def _json(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()
