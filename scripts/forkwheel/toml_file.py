"""Read TOML files so that every complaint about a key names its file and line.

No TOML reader tells on which line a key stands, so a small scanner finds the lines;
the values come from the standard reader.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from forkwheel.errors import RecipeError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_KEY_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_KEY = rf"{_KEY_PART}(?:\s*\.\s*{_KEY_PART})*"
_HEADER = re.compile(rf"^\s*(\[\[?)\s*({_KEY})\s*\]\]?\s*(?:#.*)?$")
_ASSIGNMENT = re.compile(rf"^\s*({_KEY})\s*=")
_TOKENS = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*|[\[\]{}]|\n',
    re.DOTALL,
)
_AT_LINE = re.compile(r"\(at line (\d+), column \d+\)")

Position = tuple[str | int, ...]


def _parts(key: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in re.findall(_KEY_PART, key))


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, first line's text) of each statement, skipping what continues one."""
    depth = 0
    start = 0
    line = 1
    start_line = 1
    for token in _TOKENS.finditer(text):
        value = token.group()
        if value in "[{":
            depth += 1
        elif value in "]}":
            depth -= 1
        elif value == "\n" and depth <= 0:
            yield start_line, text[start : token.start()]
            depth, start, start_line = 0, token.end(), line + 1
        line += value.count("\n")
    yield start_line, text[start:]


def locate(text: str) -> dict[Position, int]:
    """Map the position of each table and key, such as ``("package", 0, "name")``, to its line.

    Lines count from 1. Keys inside an inline table or an array have no position of their own.
    """
    lines: dict[Position, int] = {(): 1}
    counts: dict[Position, int] = {}
    table: Position = ()
    for number, statement in _statements(text):
        first = statement.split("\n", 1)[0]
        if header := _HEADER.match(first):
            table = _resolve(_parts(header[2]), counts, is_array=header[1] == "[[")
            lines.setdefault(table, number)
        elif assignment := _ASSIGNMENT.match(first):
            position = table
            for part in _parts(assignment[1]):
                position = (*position, part)
                lines.setdefault(position, number)
    return lines


def _resolve(parts: tuple[str, ...], counts: dict[Position, int], *, is_array: bool) -> Position:
    position: Position = ()
    for index, part in enumerate(parts):
        position = (*position, part)
        last = index == len(parts) - 1
        if last and is_array:
            counts[position] = counts.get(position, 0) + 1
        if position in counts:
            position = (*position, counts[position] - 1)
    return position


@dataclass
class Section:
    """One table of a TOML file; every reader checks the type and marks the key as known."""

    file: Path
    table: dict[str, Any]
    lines: dict[Position, int]
    position: Position = ()
    known: set[str] = field(default_factory=set)

    def line(self, key: str | None = None) -> int:
        """Return the line of a key, or of the nearest table around it."""
        position: Position = self.position if key is None else (*self.position, key)
        while position not in self.lines:
            position = position[:-1]
        return self.lines[position]

    def fail(self, message: str, *, key: str | None = None, hint: str) -> NoReturn:
        """Raise a RecipeError that names the file and the line of ``key``."""
        raise RecipeError(f"{self.file}:{self.line(key)}: {message}", hint=hint)

    def value(self, key: str, kind: type, *, default: Any = None, required: bool = True) -> Any:
        """Return the value of ``key``, of type ``kind``; fail where it is missing or of another type."""
        self.known.add(key)
        if key not in self.table:
            if required:
                self.fail(f"`{key}` is missing", hint=f"add `{key}` to this table")
            return default
        value = self.table[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self.fail(
                f"`{key}` must be {_NAMES[kind]}, not {_NAMES.get(type(value), type(value).__name__)}",
                key=key,
                hint="correct the value's type",
            )
        return value

    def string(self, key: str, *, default: str | None = None, pattern: str | None = None, what: str = "") -> str:
        """Return a non-empty string, which must match ``pattern`` whole, described by ``what``."""
        value: str = self.value(key, str, default=default, required=default is None)
        if key in self.table and pattern is not None and not re.fullmatch(pattern, value):
            self.fail(f"`{key}` is {value!r}, not {what}", key=key, hint=f"write {what}")
        if key in self.table and not value:
            self.fail(f"`{key}` is empty", key=key, hint=f"give `{key}` a value")
        return value

    def optional(self, key: str, *, pattern: str | None = None, what: str = "") -> str | None:
        """Return a string, or None where the key is missing."""
        return self.string(key, pattern=pattern, what=what) if key in self.table else None

    def integer(self, key: str, *, default: int | None = None, minimum: int = 0) -> int:
        """Return an integer that is at least ``minimum``."""
        value: int = self.value(key, int, default=default, required=default is None)
        if value < minimum:
            self.fail(f"`{key}` is {value}, below {minimum}", key=key, hint=f"use {minimum} or more")
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a boolean."""
        return bool(self.value(key, bool, default=default, required=False))

    def strings(self, key: str) -> tuple[str, ...]:
        """Return a list of distinct, non-empty strings; a missing key is an empty list."""
        values: list[Any] = self.value(key, list, default=[], required=False)
        for value in values:
            if not isinstance(value, str) or not value:
                self.fail(f"`{key}` must hold non-empty strings only, not {value!r}", key=key, hint="quote it")
        if duplicate := next((value for value in values if values.count(value) > 1), None):
            self.fail(f"`{key}` lists {duplicate!r} twice", key=key, hint="remove one of them")
        return tuple(values)

    def mapping(self, key: str) -> tuple[tuple[str, str], ...]:
        """Return a table of strings, in its order; a missing key is an empty table."""
        table: dict[str, Any] = self.value(key, dict, default={}, required=False)
        for name, value in table.items():
            if not isinstance(value, str):
                child = Section(self.file, table, self.lines, (*self.position, key))
                child.fail(f"`{key}.{name}` must be a string, not {value!r}", key=name, hint="quote it")
        return tuple(table.items())

    def section(self, key: str, *, required: bool = True) -> Section | None:
        """Return a table inside this one."""
        table = self.value(key, dict, required=required)
        return None if table is None else Section(self.file, table, self.lines, (*self.position, key))

    def sections(self, key: str) -> list[Section]:
        """Return an array of tables; a missing key is an empty array."""
        tables: list[Any] = self.value(key, list, default=[], required=False)
        children = []
        for index, table in enumerate(tables):
            if not isinstance(table, dict):
                self.fail(f"`{key}` must be an array of tables", key=key, hint=f"write it as [[{key}]]")
            children.append(Section(self.file, table, self.lines, (*self.position, key, index)))
        return children

    def finish(self) -> None:
        """Fail on the first key that no reader asked for."""
        for key in self.table:
            if key not in self.known:
                known = ", ".join(sorted(self.known))
                self.fail(f"unknown key `{key}`", key=key, hint=f"the keys known here are: {known}")


_NAMES: dict[type, str] = {
    str: "a string",
    int: "an integer",
    bool: "a boolean",
    list: "a list",
    dict: "a table",
    float: "a number",
}


def read_toml(file: Path) -> Section:
    """Read a TOML file; a syntax error, a missing file or bad encoding is a RecipeError with its line."""
    try:
        text = file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise RecipeError(f"{file}: no such file", hint="check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{file}: cannot be read: {error}", hint="the file must be UTF-8 text") from error
    text = text.replace("\r\n", "\n")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at_line = _AT_LINE.search(str(error))
        line = int(at_line[1]) if at_line else text.count("\n") + 1
        reason = _AT_LINE.sub("", str(error)).strip()
        raise RecipeError(f"{file}:{line}: not valid TOML: {reason}", hint="correct the syntax") from error
    return Section(file, table, locate(text))
