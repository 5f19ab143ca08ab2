"""The text of a ported recipe: the old one with new pins, so that its comments stay."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timezone

from forkwheel.canonical import source_text
from forkwheel.recipe import Package, Recipe
from forkwheel.toml_file import Position, locate


def ported_text(recipe: Recipe, *, name: str, packages: Mapping[str, Package], series: Mapping[str, str]) -> str:
    """Return the recipe ``name`` with some packages replaced.

    ``packages`` are the new ones and ``series`` the folders (relative to the new recipe) of
    every patched package, both by the package's name.
    """
    lines = recipe.file.read_text(encoding="utf-8").replace("\r\n", "\n").split("\n")
    where = locate("\n".join(lines))
    headers = sorted({line - 1 for line in where.values() if lines[line - 1].lstrip().startswith("[")})
    lines = _set(lines, where, ("recipe", "name"), json.dumps(name))
    lines = _set(lines, where, ("recipe", "revision"), "1")
    for index in reversed(range(len(recipe.packages))):
        old = recipe.packages[index]
        if old.name in series:
            lines = _set(lines, where, ("package", index, "series"), json.dumps(series[old.name]))
        if old.name in packages:
            lines = _ported_package(lines, where, headers, index, packages[old.name], old=old)
    return "\n".join(lines).rstrip("\n") + "\n"


def _ported_package(
    lines: list[str], where: Mapping[Position, int], headers: list[int], index: int, new: Package, *, old: Package
) -> list[str]:
    at: Position = ("package", index)
    date = datetime.fromtimestamp(new.epoch, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    lines = _set(lines, where, (*at, "version"), json.dumps(new.version))
    lines = _set(lines, where, (*at, "epoch"), f"{new.epoch}  # {date}, the date of the new source")
    start, end = where[at] - 1, where.get(("package", index + 1), len(lines) + 1) - 1
    sources = _source_lines(headers, where, index, end)
    replaced = {item: fresh for item, fresh in zip(old.requires, new.requires, strict=True) if item != fresh}
    for before, after in zip(old.generated, new.generated, strict=True):
        named, names = (set(re.findall(r"\b[0-9a-f]{40}\b", item.text)) for item in (before, after))
        replaced |= dict(zip(sorted(named - names), sorted(names - named), strict=False))
    unmatched = {json.dumps(pattern) for pattern in set(old.include) - set(new.include)}
    kept = []
    for number in range(start, end):
        if number in sources or lines[number].strip().rstrip(",") in unmatched:
            continue
        line = lines[number]
        for text, fresh in replaced.items():
            line = line.replace(text, fresh)
        kept.append(line)
    tail = _trailing(kept)
    block = ["", *source_text(new.sources).rstrip("\n").split("\n"), *([""] if end < len(lines) else [])]
    return [*lines[:start], *kept[: len(kept) - len(tail)], *block, *(line for line in tail if line), *lines[end:]]


def _trailing(lines: list[str]) -> list[str]:
    """Return the blank lines, and comments after one, that lead over to the next table."""
    count = 0
    while count < len(lines) and (not lines[-1 - count].strip() or lines[-1 - count].lstrip().startswith("#")):
        count += 1
    return lines[len(lines) - count :]


def _source_lines(headers: list[int], where: Mapping[Position, int], index: int, end: int) -> set[int]:
    """Return the numbers (from 0) of all lines that belong to a package's sources."""
    starts = [
        line - 1
        for position, line in where.items()
        if position[:3] == ("package", index, "source") and line - 1 in headers
    ]
    found: set[int] = set()
    for start in starts:
        stop = next((header for header in headers if header > start), end)
        found |= set(range(start, stop))
    return found


def _set(lines: list[str], where: Mapping[Position, int], position: Position, value: str) -> list[str]:
    if position not in where:
        return lines
    number = where[position] - 1
    key = lines[number].partition("=")[0].rstrip()
    return [*lines[:number], f"{key} = {value}", *lines[number + 1 :]]
