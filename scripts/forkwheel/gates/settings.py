"""Read a recipe's ``gates.toml``: entries, layers, and the gates that stay closed on purpose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forkwheel.errors import UsageError
from forkwheel.gates.arch import Arch, parse_arch
from forkwheel.gates.model import Entry, Expectation, Layer
from forkwheel.toml_file import Section, read_toml

FORMAT = 1
_SYMBOL = r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*"
_ARCH = r"\d{1,2}\.\d"


@dataclass(frozen=True)
class Settings:
    """What is audited, and what is expected of it."""

    references: tuple[Arch, ...]
    entries: tuple[Entry, ...]
    layers: tuple[Layer, ...]
    expectations: tuple[Expectation, ...]


def load_settings(file: Path) -> Settings:
    """Read ``gates.toml``; raise RecipeError, with file and line, at the first fault."""
    top = read_toml(file)
    number = top.integer("format", default=FORMAT, minimum=1)
    if number > FORMAT:
        top.fail(
            f"format {number} is newer than {FORMAT}, the newest known", key="format", hint="use a newer forkwheel"
        )
    references = _references(top)
    settings = Settings(
        references=references,
        entries=tuple(_entry(section) for section in top.sections("entry")),
        layers=tuple(_layer(section) for section in top.sections("layer")),
        expectations=tuple(_expectation(section) for section in top.sections("expected")),
    )
    top.finish()
    return settings


def _references(top: Section) -> tuple[Arch, ...]:
    texts = top.strings("references")
    if not texts:
        top.fail("`references` is missing or empty", key="references", hint='write references = ["9.0", "10.0"]')
    try:
        return tuple(map(parse_arch, texts))
    except UsageError as error:
        top.fail(error.message, key="references", hint=error.hint)


def _entry(section: Section) -> Entry:
    symbol = section.string("symbol", pattern=_SYMBOL, what="package.module:Class.function")
    entry = Entry(symbol, section.optional("concerns", pattern=r"\w+", what="the name of an attribute or a function"))
    section.finish()
    return entry


def _layer(section: Section) -> Layer:
    layer = Layer(section.string("name"), section.strings("files"))
    if not layer.files:
        section.fail(f"layer {layer.name!r} has no files", key="files", hint="list the files as globs")
    section.finish()
    return layer


def _expectation(section: Section) -> Expectation:
    expectation = Expectation(
        file=section.string("file"),
        symbol=section.string("symbol", default=""),
        condition=section.string("condition", default=""),
        reason=section.string("reason"),
        exact=section.flag("exact", default=False),
        optional=section.flag("optional", default=False),
    )
    section.finish()
    return expectation


def parse_entry(text: str) -> Entry:
    """Read ``package.module:function`` or ``package.module:function@NAME`` from the command line."""
    symbol, _, concerns = text.partition("@")
    if ":" not in symbol:
        raise UsageError(
            f"{text!r} is no entry", hint="write it as package.module:Class.function, with @NAME to narrow it"
        )
    return Entry(symbol, concerns or None)
