"""Read TOML files so that every complaint about a key names its file and line.

No TOML reader tells on which line a key stands, so a small scanner (toml_places) finds the
lines; the values come from the standard reader.
"""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from forkwheel.errors import RecipeError
from forkwheel.toml_places import Position, find_excess, locate, locate_value

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Position", "Section", "locate", "locate_value", "read_toml", "shown"]

_AT_LINE = re.compile(r"\(at line (\d+), column \d+\)")
_LONGEST_SHOWN = 100
_LARGEST = 2**63 - 1
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def shown(text: str) -> str:
    """Quote a text for a message: control characters escaped, and cut where it is long."""
    return repr(text) if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]!r}…"


def _key_shown(key: str) -> str:
    return f"`{key}`" if key.isprintable() and len(key) <= _LONGEST_SHOWN else shown(key)


def _kind_of(value: object) -> str:
    return _NAMES.get(type(value), type(value).__name__)


@dataclass
class Section:
    """One table of a TOML file; every reader checks the type and marks the key as known."""

    file: Path
    table: dict[str, Any]
    lines: dict[Position, int]
    position: Position = ()
    known: set[str] = field(default_factory=set)
    meanings: Mapping[str, str] = field(default_factory=dict)

    def expect(self, meanings: Mapping[str, str]) -> None:
        """Declare all the keys of this table and what each means; fail on the first that is none of them.

        Done before anything is read, so that a misspelt key is named as such, and not
        another one as missing.
        """
        self.meanings = meanings
        self.known = set(meanings)
        self.finish()

    def line(self, key: str | None = None) -> int:
        """Return the line of a key, or of the nearest table around it."""
        position: Position = self.position if key is None else (*self.position, key)
        while position not in self.lines:
            position = position[:-1]
        return self.lines[position]

    def place(self, key: str | None = None) -> str:
        """Return the file and the line of a key, or of the table, as errors name them."""
        return f"{self.file}:{self.line(key)}"

    def fail(self, message: str, *, key: str | None = None, hint: str) -> NoReturn:
        """Raise a RecipeError that names the file and the line of ``key``."""
        raise RecipeError(f"{self.place(key)}: {message}", hint=hint)

    def value(self, key: str, kind: type, *, default: Any = None, required: bool = True) -> Any:
        """Return the value of ``key``, of type ``kind``; fail where it is missing or of another type."""
        self.known.add(key)
        if key not in self.table:
            if required:
                meaning = self.meanings.get(key)
                hint = f"add `{key}`, {meaning}" if meaning else f"add `{key}` to this table"
                self.fail(f"`{key}` is missing", hint=hint)
            return default
        value = self.table[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self.fail(
                f"`{key}` must be {_NAMES[kind]}, not {_kind_of(value)}", key=key, hint="correct the value's type"
            )
        return value

    def string(
        self,
        key: str,
        *,
        default: str | None = None,
        pattern: str | None = None,
        what: str = "",
        allow_empty: bool = False,
    ) -> str:
        """Return a non-empty string, which must match ``pattern`` whole, described by ``what``."""
        value: str = self.value(key, str, default=default, required=default is None)
        if key not in self.table:
            return value
        if pattern is not None and not re.fullmatch(pattern, value):
            self.fail(f"`{key}` is {shown(value)}, not {what}", key=key, hint=f"write {what}")
        if not value and not allow_empty:
            self.fail(f"`{key}` is empty", key=key, hint=f"give `{key}` a value")
        self._refuse_nul(key, value)
        return value

    def _refuse_nul(self, key: str, value: str) -> None:
        if "\0" in value:
            self.fail(
                f"`{key}` holds a NUL character", key=key, hint="remove it: no file, path or variable can hold it"
            )

    def optional(self, key: str, *, pattern: str | None = None, what: str = "") -> str | None:
        """Return a string, or None where the key is missing."""
        return self.string(key, pattern=pattern, what=what) if key in self.table else None

    def integer(self, key: str, *, default: int | None = None, minimum: int = 0, maximum: int = _LARGEST) -> int:
        """Return an integer from ``minimum`` to ``maximum``."""
        value: int = self.value(key, int, default=default, required=default is None)
        if value < minimum:
            self.fail(f"`{key}` is {value}, below {minimum}", key=key, hint=f"use {minimum} or more")
        if value > maximum:
            number = value if value <= _LARGEST else "a number of more than 64 bits"
            self.fail(f"`{key}` is {number}, above {maximum}", key=key, hint=f"use {maximum} or less")
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a boolean."""
        return bool(self.value(key, bool, default=default, required=False))

    def strings(self, key: str) -> tuple[str, ...]:
        """Return a list of distinct, non-empty strings; a missing key is an empty list."""
        values: list[Any] = self.value(key, list, default=[], required=False)
        seen = set()
        for value in values:
            if not isinstance(value, str) or not value:
                found = "an empty one" if value == "" else _kind_of(value)
                self.fail(f"`{key}` must hold non-empty strings only, not {found}", key=key, hint="correct or quote it")
            if value in seen:
                self.fail(f"`{key}` lists {shown(value)} twice", key=key, hint="remove one of them")
            self._refuse_nul(key, value)
            seen.add(value)
        return tuple(values)

    def mapping(self, key: str) -> tuple[tuple[str, str], ...]:
        """Return a table of strings, in its order; a missing key is an empty table."""
        table: dict[str, Any] = self.value(key, dict, default={}, required=False)
        child = Section(self.file, table, self.lines, (*self.position, key))
        for name, value in table.items():
            if not isinstance(value, str):
                label = _key_shown(f"{key}.{name}")
                child.fail(f"{label} must be a string, not {_kind_of(value)}", key=name, hint="quote it")
            if "\0" in name + value:
                label = _key_shown(f"{key}.{name}")
                child.fail(f"{label} holds a NUL character", key=name, hint="remove it: no variable can hold it")
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
                close = get_close_matches(key[:_LONGEST_SHOWN], sorted(self.known), n=1)
                meant = f"; did you mean `{close[0]}`?" if close else ""
                known = ", ".join(sorted(self.known))
                self.fail(f"unknown key {_key_shown(key)}{meant}", key=key, hint=f"the keys known here are: {known}")


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
    text = _text(file)
    if excess := find_excess(text):
        line, what = excess
        raise RecipeError(f"{file}:{line}: {what}", hint="no file of this kind needs that: correct the syntax")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at_line = _AT_LINE.search(str(error))
        line = int(at_line[1]) if at_line else text.count("\n") + 1
        reason = _AT_LINE.sub("", str(error)).strip()
        raise RecipeError(f"{file}:{line}: not valid TOML: {reason}", hint="correct the syntax") from error
    return Section(file, table, locate(text))


def _text(file: Path) -> str:
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        raise RecipeError(f"{file}: no such file", hint="check the path") from None
    except (OSError, ValueError) as error:
        raise RecipeError(
            f"{shown(str(file))} cannot be read: {error}", hint="check the path and its rights"
        ) from error
    if content.startswith(_MARKS):
        raise RecipeError(
            f"{file}:1: starts with a byte order mark (BOM)", hint="save the file as UTF-8 without a byte order mark"
        )
    try:
        return content.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RecipeError(
            f"{file}:{line}: not UTF-8: byte 0x{content[error.start]:02x}", hint="save the file as UTF-8"
        ) from error
