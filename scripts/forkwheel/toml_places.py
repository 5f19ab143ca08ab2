"""Where the keys and values of a TOML text stand, which no TOML reader tells.

The text is taken to be valid TOML: a reader checks it first.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEEPEST = 100
"""How deep arrays, inline tables and dotted keys may be nested: readers stop or hang not far beyond."""
MOST_DIGITS = 1000

Position = tuple[str | int, ...]

_BASIC = r'"(?:\\.|[^"\\\n])*"'
_LITERAL = r"'[^'\n]*'"
_KEY_PART = rf"(?:[A-Za-z0-9_-]+|{_BASIC}|{_LITERAL})"
_DOT = r"[ \t]*\.[ \t]*"
# Up to two quotation marks may stand right before the closing three.
_LONG_STRING = r'"""(?:\\.|[^\\])*?"""(?:"{0,2})|\'\'\'.*?\'\'\'(?:\'{0,2})'
_NO_VALUE = rf"{_LONG_STRING}|{_BASIC}|{_LITERAL}|\#[^\n]*"

_BLANK = re.compile(r"(?:\s|#[^\n]*)*")
_HEADER = re.compile(rf"(\[\[?)[ \t]*({_KEY_PART}(?:{_DOT}{_KEY_PART})*)[ \t]*\]\]?")
_ASSIGNMENT = re.compile(rf"({_KEY_PART}(?:{_DOT}{_KEY_PART})*)[ \t]*=[ \t]*")
_STRING = re.compile(rf"{_LONG_STRING}|{_BASIC}|{_LITERAL}", re.DOTALL)
_BARE = re.compile(r"[^#\r\n]*")
_PIECE = re.compile(rf"{_NO_VALUE}|[\[\]{{}}]", re.DOTALL)
# In a text that is no TOML, a string that is never closed is passed over whole, and once.
_UNCLOSED = r'"""(?:\\.|[^\\])*\Z|"(?:\\.|[^"\\\n])*"?|\'\'\'.*\Z|\'[^\'\n]*\'?'
_EXCESS = re.compile(
    rf"(?P<key>(?<![\w-]){_KEY_PART}(?:{_DOT}{_KEY_PART}){{{DEEPEST},}})"
    rf"|(?P<number>(?<![\w-])[0-9][0-9A-Fa-fxob_]{{{MOST_DIGITS},}})"
    rf"|{_LONG_STRING}|{_UNCLOSED}|\#[^\n]*|[\[\]{{}}]",
    re.DOTALL,
)


@dataclass(frozen=True)
class Place:
    """A statement: the position it gives, the offset at which it starts, and its value's span; a table has none."""

    position: Position
    start: int
    value: tuple[int, int] | None


def locate(text: str) -> dict[Position, int]:
    """Map the position of each table and key, such as ``("package", 0, "name")``, to its line.

    Lines count from 1. Keys inside an inline table or an array have no position of their own;
    a table that is only implied stands where it is first implied.
    """
    stated: dict[Position, int] = {(): 1}
    implied: dict[Position, int] = {}
    line, counted = 1, 0
    for place in places(text):
        line += text.count("\n", counted, place.start)
        counted = place.start
        stated.setdefault(place.position, line)
        for length in range(1, len(place.position)):
            implied.setdefault(place.position[:length], line)
    return implied | stated


def locate_value(text: str, position: Position) -> tuple[int, int]:
    """Return the start and end offsets of the text of a key's value, without blanks and comment.

    Raise KeyError where the key is missing, is a table, or stands in an inline table.
    """
    for place in places(text):
        if place.position == position and place.value is not None:
            return place.value
    raise KeyError(position)


def find_excess(text: str) -> tuple[int, str] | None:
    """Return the line and a description of what a reader could not bear, even in a text that is no TOML."""
    depth = 0
    for piece in _EXCESS.finditer(text):
        value = piece.group()
        depth += (value in ("[", "{")) - (value in ("]", "}"))
        what = (
            (piece["key"] and f"a key of more than {DEEPEST} parts")
            or (piece["number"] and f"a number of more than {MOST_DIGITS} digits")
            or (depth > DEEPEST and f"values nested more than {DEEPEST} deep")
        )
        if what:
            return text.count("\n", 0, piece.start()) + 1, what
    return None


def places(text: str) -> Iterator[Place]:
    """Give every table's header and every assignment, in the text's order."""
    counts: dict[Position, int] = {}
    table: Position = ()
    at = _end(_BLANK, text, 0)
    while at < len(text):
        if header := _HEADER.match(text, at):
            table = _resolve(_parts(header[2]), counts, is_array=header[1] == "[[")
            yield Place(table, at, None)
            at = header.end()
        elif assignment := _ASSIGNMENT.match(text, at):
            value = (assignment.end(), _value_end(text, assignment.end()))
            yield Place((*table, *_parts(assignment[1])), at, value)
            at = value[1]
        else:
            at = _end(_BARE, text, at) + 1
        at = _end(_BLANK, text, at)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _value_end(text: str, start: int) -> int:
    if text[start : start + 1] in ("[", "{"):
        depth = 0
        for piece in _PIECE.finditer(text, start):
            value = piece.group()
            depth += (value in ("[", "{")) - (value in ("]", "}"))
            if depth == 0:
                return piece.end()
        return len(text)
    if string := _STRING.match(text, start):
        return string.end()
    return start + len(text[start : _end(_BARE, text, start)].rstrip())


def _parts(key: str) -> tuple[str, ...]:
    return tuple(_unquoted(part) for part in re.findall(_KEY_PART, key))


def _unquoted(part: str) -> str:
    if part[0] not in "\"'":
        return part
    value: str = tomllib.loads(f"key = {part}")["key"]
    return value


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
