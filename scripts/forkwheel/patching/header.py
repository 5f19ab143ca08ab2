"""A patch's header: DEP-3 style fields that say what it is for and where it stands upstream."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from packaging.version import InvalidVersion, Version

from forkwheel.patching.fault import Place
from forkwheel.patching.model import Header

REQUIRED = ("Description", "Origin", "Forwarded", "Last-Update")
OPTIONAL = ("Applied-Upstream", "Drop-After", "Requires")
TODO = "TODO"

_FIELD = re.compile(r"([A-Za-z][A-Za-z-]*):(.*)")
_FORWARDED = re.compile(r"yes|no|not-needed|https?://\S+")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_DIFF_STARTS = (b"diff --git ", b"--- ", b"+++ ", b"@@ ")
PATCH_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*\.patch")
"""A patch's plain name: no folder, nothing hidden."""


@dataclass
class _Field:
    place: Place
    value: str


def read_header(lines: Sequence[bytes], *, file: Path, allow_todo: bool = False) -> Header:
    """Read and check the header at the start of a patch's lines.

    ``allow_todo`` accepts a header that is yet to be filled in. Raises PatchError, with file
    and line, at the first fault.
    """
    fields, end = _fields(lines, file)
    for name, field in fields.items():
        if name not in REQUIRED + OPTIONAL:
            known = ", ".join(REQUIRED + OPTIONAL)
            field.place.fail(f"unknown field `{name}`", hint=f"the fields known here are: {known}")
        if not field.value:
            field.place.fail(f"`{name}` is empty", hint="fill it in, or remove it where it is optional")
    for name in REQUIRED:
        if name not in fields:
            Place(file, 1).fail(f"the header lacks `{name}:`", hint=f"required are: {', '.join(REQUIRED)}")
    todo = tuple(name for name, field in fields.items() if _is_todo(field))
    if todo and not allow_todo:
        place = fields[todo[0]].place
        place.fail(f"`{todo[0]}` is still to be filled in", hint=f"fill in {', '.join(todo)} in {file}")
    version, commit = _upstream(fields.get("Applied-Upstream"))
    return Header(
        description=fields["Description"].value,
        origin=fields["Origin"].value,
        forwarded=_forwarded(fields["Forwarded"]),
        last_update=_date(fields["Last-Update"]),
        applied_upstream=version,
        applied_commit=commit,
        drop_after=_drop_after(fields.get("Drop-After")),
        requires=_requires(fields.get("Requires")),
        lines=tuple((name, field.place.line) for name, field in fields.items()),
        text=b"".join(lines[:end]),
        todo=todo,
    )


def _is_todo(field: _Field) -> bool:
    return any(line.startswith(TODO) for line in field.value.split("\n"))


def _fields(lines: Sequence[bytes], file: Path) -> tuple[dict[str, _Field], int]:
    """Return the fields, and how many lines the header has with the blank line after it."""
    fields: dict[str, _Field] = {}
    last: _Field | None = None
    for number, line in enumerate(lines, 1):
        place = Place(file, number)
        if line == b"\n":
            return fields, number
        text = _header_text(line, place)
        if text.startswith(" "):
            if last is None:
                place.fail("a continuation line without a field before it", hint="start with `Description:`")
            last.value = f"{last.value}\n{text[1:]}"
            continue
        match = _FIELD.fullmatch(text)
        if match is None:
            place.fail(f"{text[:60]!r} is no header line", hint="write `Field: value`; a text goes on after a space")
        if match[1] in fields:
            place.fail(
                f"`{match[1]}` is given twice; first at line {fields[match[1]].place.line}", hint="remove one of them"
            )
        last = fields[match[1]] = _Field(place, match[2].strip())
    end = Place(file, max(len(lines), 1))
    return end.fail("no blank line ends the header", hint="a blank line stands before the diff")


def _header_text(line: bytes, place: Place) -> str:
    if line.startswith(_DIFF_STARTS):
        place.fail("the diff starts inside the header", hint="a header and a blank line stand before the diff")
    if line.endswith(b"\r\n"):
        place.fail("the line ends in CRLF, so the patch was damaged", hint="convert the patch's own lines to LF")
    try:
        text = line.rstrip(b"\n").decode("utf-8")
    except UnicodeDecodeError:
        place.fail("the header is not UTF-8", hint="write the header in UTF-8; the diff may hold any bytes")
    if not text.strip():
        place.fail("a line of spaces", hint="leave the line that ends the header empty; a text's empty line is ` .`")
    return text


def _forwarded(field: _Field) -> str:
    if not _FORWARDED.fullmatch(field.value) and not field.value.startswith(TODO):
        field.place.fail(f"`Forwarded` is {field.value!r}", hint="write yes, no, not-needed, or the URL it was sent to")
    return field.value


def _date(field: _Field) -> date:
    try:
        if _DATE.fullmatch(field.value):
            return date.fromisoformat(field.value)
    except ValueError:
        pass
    return field.place.fail(f"`Last-Update` is {field.value!r}, which is no date", hint="write YYYY-MM-DD")


def _drop_after(field: _Field | None) -> Version | None:
    if field is None:
        return None
    version = _version(field.value)
    if version is None:
        field.place.fail(f"`Drop-After` is {field.value!r}, which is no version", hint="write upstream's version")
    return version


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _upstream(field: _Field | None) -> tuple[Version | None, str | None]:
    """Read a version, a commit or both; seven or more hexadecimal digits alone are a commit."""
    if field is None:
        return None, None
    version: Version | None = None
    commit: str | None = None
    for word in re.findall(r"[^\s,()]+", field.value):
        if _COMMIT.fullmatch(word) and commit is None:
            commit = word
        elif (parsed := _version(word)) is not None and version is None:
            version = parsed
        else:
            field.place.fail(
                f"`Applied-Upstream` is {field.value!r}",
                hint="write upstream's version, its commit (lower-case hexadecimal digits), or both",
            )
    return version, commit


def _requires(field: _Field | None) -> tuple[str, ...]:
    if field is None:
        return ()
    names = re.findall(r"[^\s,]+", field.value)
    for name in names:
        if not PATCH_NAME.fullmatch(name) or names.count(name) > 1:
            field.place.fail(f"`Requires` names {name!r}", hint="name each required patch file once")
    return tuple(names)


def new_header(*, today: date) -> bytes:
    """Return the header of a new patch, to be filled in."""
    return (
        f"Description: {TODO} what the patch changes, in one line\n"
        f" {TODO} why it is needed\n"
        f"Origin: {TODO} who wrote it, or the URL or commit that it was taken from\n"
        f"Forwarded: {TODO} yes, no, not-needed, or the URL that it was sent to\n"
        f"Last-Update: {today.isoformat()}\n\n"
    ).encode()


def with_date(text: bytes, *, today: date) -> bytes:
    """Return a header's bytes with another date of the last update."""
    return re.sub(rb"(?m)^Last-Update:.*$", f"Last-Update: {today.isoformat()}".encode(), text, count=1)
