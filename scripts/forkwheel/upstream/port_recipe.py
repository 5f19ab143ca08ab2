"""The text of a ported recipe: the old one with new pins, so that its comments stay."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timezone
from pathlib import Path

from forkwheel.canonical import source_text, toml_value
from forkwheel.errors import RecipeError, UsageError
from forkwheel.recipe import Package, Recipe, load_recipe
from forkwheel.toml_places import Place, Position, locate_value, places

_COMMIT = re.compile(r"\b[0-9a-f]{40}\b")


def ported_text(
    recipe: Recipe, *, name: str, local: str, packages: Mapping[str, Package], series: Mapping[str, str]
) -> str:
    """Return the recipe ``name`` with some packages replaced.

    ``packages`` are the new ones and ``series`` the folders (relative to the new recipe) of
    every patched package, both by the package's name. Raises UsageError where a value that
    changes stands in an inline table.
    """
    text = _Text(recipe.file.read_text(encoding="utf-8").replace("\r\n", "\n"), recipe.file)
    text.set(("recipe", "name"), json.dumps(name))
    if local != recipe.local:
        text.set(("recipe", "local"), json.dumps(local))
    text.set(("recipe", "revision"), "1")
    for index, old in enumerate(recipe.packages):
        if old.name in series:
            text.set(("package", index, "series"), json.dumps(series[old.name]))
        if old.name in packages:
            _port_package(text, index, old, packages[old.name])
    return text.edited().rstrip("\n") + "\n"


def check_portable(recipe: Recipe, *, packages: Mapping[str, Package], folder: Path) -> None:
    """Raise UsageError where the recipe is written in a way that does not lead to the new ``packages``.

    The recipe is rewritten in the empty folder ``folder``, and read again.
    """
    series = {package.name: str(package.series) for package in recipe.packages if package.series is not None}
    file = folder / "recipe.toml"
    text = ported_text(recipe, name=recipe.name, local=recipe.local, packages=packages, series=series)
    file.write_text(text, encoding="utf-8")
    try:
        made = load_recipe(file).packages
    except RecipeError as error:
        raise _unwritable(recipe.file, f"({error.message})") from error
    for old, found in zip(recipe.packages, made, strict=True):
        new = packages.get(old.name, old)
        kept = replace(new, series=old.series, required_versions=old.required_versions, jit_cache=old.jit_cache)
        for name in (one.name for one in fields(kept) if one.compare):
            if getattr(kept, name) != getattr(found, name):
                raise _unwritable(recipe.file, f"`{name}` of {old.name}")


def _unwritable(file: Path, what: str) -> UsageError:
    return UsageError(
        f"{file} is not written in a way that can be rewritten: {what}",
        hint="write each key on a line of its own, each text as it is, and each source as a [[package.source]] table",
    )


@dataclass
class _Text:
    """A recipe's text, and what is to be changed in it: pairs of a span and what comes in its place."""

    text: str
    file: Path
    _edits: list[tuple[int, int, str]] = field(default_factory=list)

    def span(self, position: Position) -> tuple[int, int]:
        """Return where a value stands."""
        try:
            return locate_value(self.text, position)
        except KeyError:
            raise _unwritable(self.file, f"`{position[-1]}` of {position[0]}") from None

    def set(self, position: Position, value: str, *, with_comment: bool = False) -> None:
        """Put another value in the place of one, and of the comment after it."""
        start, end = self.span(position)
        self.put(start, self.line_end(end) if with_comment else end, value)

    def exchange(self, position: Position, old: str, new: str) -> None:
        """Exchange a text inside a value."""
        start, end = self.span(position)
        for match in re.finditer(re.escape(old), self.text[start:end]):
            self.put(start + match.start(), start + match.end(), new)

    def drop(self, position: Position, item: str) -> None:
        """Take an item out of a list of strings, with its comma, and its line if it has one of its own."""
        start, end = self.span(position)
        quoted = "|".join(re.escape(quote) for quote in (toml_value(item), f"'{item}'"))
        own_line = rf"(?<=\n)[ \t]*(?:{quoted})[ \t]*,?[ \t]*(?:#[^\n]*)?\n"
        for match in re.finditer(rf"{own_line}|(?:{quoted})[ \t]*,?[ \t]*", self.text[start:end]):
            self.put(start + match.start(), start + match.end(), "")

    def put(self, start: int, end: int, new: str) -> None:
        """Put ``new`` in the place of a span."""
        self._edits.append((start, end, new))

    def line_end(self, at: int) -> int:
        """Return where the line ends that an offset is in, without its newline."""
        end = self.text.find("\n", at)
        return len(self.text) if end < 0 else end

    def edited(self) -> str:
        """Return the text with all changes made."""
        text = self.text
        for start, end, new in sorted(self._edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text


def _port_package(text: _Text, index: int, old: Package, new: Package) -> None:
    at: Position = ("package", index)
    text.set((*at, "version"), json.dumps(new.version))
    date = datetime.fromtimestamp(new.epoch, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    text.set((*at, "epoch"), f"{new.epoch}  # {date}, the date of the new source", with_comment=True)
    for before, after in zip(old.requires, new.requires, strict=True):
        if before != after:
            text.exchange((*at, "requires"), before, after)
    for name, patterns, kept in (
        ("include", old.include, new.include),
        ("executable", old.executable, new.executable),
    ):
        for pattern in (pattern for pattern in patterns if pattern not in kept):
            text.drop((*at, name), pattern)
    _port_texts(text, at, old, new)
    _set_sources(text, at, new)


def _port_texts(text: _Text, at: Position, old: Package, new: Package) -> None:
    """Renew what is written into the tree: the commits of generated files, and substitutions."""
    for number, (made, fresh) in enumerate(zip(old.generated, new.generated, strict=True)):
        stale, named = (set(_COMMIT.findall(item.text)) for item in (made, fresh))
        for commit, other in zip(sorted(stale - named), sorted(named - stale), strict=False):
            text.exchange((*at, "generated", number, "text"), commit, other)
    for number, (was, item) in enumerate(zip(old.substitutions, new.substitutions, strict=True)):
        for name in ("text", "replacement"):
            if getattr(was, name) != getattr(item, name):
                text.set((*at, "substitute", number, name), toml_value(getattr(item, name)))


def _set_sources(text: _Text, at: Position, new: Package) -> None:
    """Put the new sources where the first of the old ones was."""
    parts = _source_parts(text, at)
    if not parts:
        raise _unwritable(text.file, f"`source` of {new.name}")
    block = source_text(new.sources).rstrip("\n") + "\n"
    for number, (start, end) in enumerate(parts):
        is_last = end >= len(text.text.rstrip())
        text.put(start, end, ("" if number else block) + ("" if number or is_last else "\n"))


def _source_parts(text: _Text, at: Position) -> list[tuple[int, int]]:
    """Return the spans of a package's sources: whole lines, with the comments right above and blank lines below."""
    found: list[tuple[int, int]] = []
    for group in _groups(list(places(text.text)), (*at, "source")):
        start = text.text.rfind("\n", 0, group[0].start) + 1
        while (above := re.search(r"(?:^|(?<=\n))[ \t]*#[^\n]*\n\Z", text.text[:start])) is not None:
            start = above.start()
        last = group[-1]
        end = text.line_end(last.start if last.value is None else last.value[1])
        blank = re.compile(r"(?:\n[ \t]*)*\n|\Z").match(text.text, end)
        found.append((start, blank.end() if blank else end))
    return found


def _groups(statements: Sequence[Place], prefix: Position) -> Iterator[list[Place]]:
    """Yield the statements of each run of tables below a position; keys in another table's body are none."""
    group: list[Place] = []
    for statement in statements:
        is_inside = statement.position[: len(prefix)] == prefix and len(statement.position) > len(prefix)
        if is_inside:
            group.append(statement)
        elif group:
            yield group
            group = []
    if group:
        yield group
