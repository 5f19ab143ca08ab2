"""JSON documents that others may have changed: read strictly, and checked before anything in them is used."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Shape = Callable[[Any, str], None]
"""Checks a value; raises ShapeError, which names its place in the document."""

_LONGEST_SHOWN = 60


class ShapeError(ValueError):
    """A document is not of the shape that it should have; the message names the place."""


def read_object(content: bytes) -> dict[str, Any]:
    """Read a JSON object in which no key is given twice; raise ValueError saying what is wrong otherwise."""
    try:
        document = json.loads(content, object_pairs_hook=_distinct)
    except RecursionError:
        raise ShapeError("it is nested too deeply") from None
    if not isinstance(document, dict):
        raise ShapeError("it is no JSON object")
    return document


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ShapeError(f"{twice!r} is given twice")
    return found


def text(pattern: str = "(?s).*", what: str = "a text") -> Shape:
    """Return the shape of a text that matches a pattern whole and that can be written anywhere."""

    def check(value: Any, place: str) -> None:
        if not isinstance(value, str) or not re.fullmatch(pattern, value) or not _is_writable(value):
            raise ShapeError(f"{place} is {_shown(value)}, not {what}")

    return check


def _is_writable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def number(least: int, most: int) -> Shape:
    """Return the shape of an integer between two others."""

    def check(value: Any, place: str) -> None:
        if type(value) is not int or not least <= value <= most:
            raise ShapeError(f"{place} is {_shown(value)}, not a number from {least} to {most}")

    return check


def flag(value: Any, place: str) -> None:
    """Check a truth value."""
    if not isinstance(value, bool):
        raise ShapeError(f"{place} is {_shown(value)}, not true or false")


def list_of(shape: Shape, *, least: int = 0) -> Shape:
    """Return the shape of a list with ``least`` items or more, each of one shape."""

    def check(value: Any, place: str) -> None:
        if not isinstance(value, list):
            raise ShapeError(f"{place} is {_shown(value)}, not a list")
        if len(value) < least:
            raise ShapeError(f"{place} has {len(value)} items, fewer than {least}")
        for position, item in enumerate(value):
            shape(item, f"{place}[{position}]")

    return check


def map_of(shape: Shape) -> Shape:
    """Return the shape of an object whose keys are texts of any kind."""

    def check(value: Any, place: str) -> None:
        for name, item in _object(value, place).items():
            text()(name, f"a key of {place}")
            shape(item, f"{place}.{name}")

    return check


def fields(required: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    """Return the shape of an object with named fields; other fields are left to newer versions."""

    def check(value: Any, place: str) -> None:
        document = _object(value, place)
        for name, shape in required.items():
            if name not in document:
                raise ShapeError(f"{place} lacks {name!r}" if place else f"it lacks {name!r}")
            shape(document[name], f"{place}.{name}".lstrip("."))
        for name, shape in (optional or {}).items():
            if name in document:
                shape(document[name], f"{place}.{name}".lstrip("."))

    return check


def one_of(*shapes: Shape) -> Shape:
    """Return the shape of what has one of several; where it has none, the last one's error is raised."""

    def check(value: Any, place: str) -> None:
        for shape in shapes[:-1]:
            try:
                return shape(value, place)
            except ValueError:
                continue
        return shapes[-1](value, place)

    return check


def nothing(value: Any, place: str) -> None:
    """Check that there is no value."""
    if value is not None:
        raise ShapeError(f"{place} is {_shown(value)}, not null")


def file_name(value: Any, place: str) -> None:
    """Check the name of a file that lies in a folder, and nowhere else."""
    text(r"[^/\\\x00-\x1f\x7f]{1,255}", "a file's name")(value, place)
    if value in (".", "..") or Path(value).name != value:
        raise ShapeError(f"{place} is {_shown(value)}, not a file's name")


def _object(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ShapeError(f"{place or 'it'} is {_shown(value)}, not an object")
    return value


def _shown(value: Any) -> str:
    shown = ascii(value)
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"
