"""A recipe's text in one fixed form, for the records inside a wheel and for digests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from forkwheel.recipe import FORMAT, GitSource, Package, Source

_Value = str | int | bool | tuple[str, ...]


def toml_value(value: _Value) -> str:
    """Write a value as TOML; a JSON string is a TOML basic string but for DEL and surrogate pairs."""
    if isinstance(value, tuple):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    if not isinstance(value, str):
        return json.dumps(value)
    pieces = re.split("([\U00010000-\U0010ffff])", value)
    pieces[0::2] = [json.dumps(piece)[1:-1].replace("\x7f", "\\u007f") for piece in pieces[0::2]]
    pieces[1::2] = [f"\\U{ord(piece):08x}" for piece in pieces[1::2]]
    return '"' + "".join(pieces) + '"'


def toml_table(header: str, fields: Iterable[tuple[str, _Value | None]], *, keep_empty: bool = False) -> str:
    """Write a table under its header, without the fields that are None or empty; ``keep_empty`` keeps empty strings."""
    lines = [header]
    for name, value in fields:
        if value is not None and value != () and (value != "" or keep_empty):
            lines.append(f"{name} = {toml_value(value)}")
    return "\n".join(lines) + "\n"


def _pairs(header: str, pairs: Iterable[tuple[str, str]]) -> list[str]:
    fields = [(toml_value(name), value) for name, value in pairs]
    return [toml_table(header, fields, keep_empty=True)] if fields else []


def _source_tables(source: Source) -> list[str]:
    header = "[[package.source]]"
    if not isinstance(source, GitSource):
        fields = [("kind", source.kind), ("filename", source.filename), ("sha256", source.sha256)]
        return [toml_table(header, fields)]
    tables = [
        toml_table(
            header,
            [
                ("kind", source.kind),
                ("url", source.url),
                ("commit", source.commit),
                ("tag", source.tag),
                ("subdirectory", source.subdirectory),
            ],
        )
    ]
    for submodule in source.submodules:
        fields = [("path", submodule.path), ("commit", submodule.commit)]
        tables.append(toml_table("[[package.source.submodule]]", fields))
    return tables


def source_text(sources: Iterable[Source]) -> str:
    """Write sources as the tables of a recipe."""
    return "\n".join(table for source in sources for table in _source_tables(source))


def package_settings(package: Package) -> dict[str, str]:
    """Map each setting of a package that its wheel depends on to its canonical text."""
    tables = {
        "sources": source_text(package.sources),
        "generated": "\n".join(
            toml_table("[[package.generated]]", [("path", item.path), ("text", item.text)], keep_empty=True)
            for item in package.generated
        ),
        "substitute": "\n".join(
            toml_table(
                "[[package.substitute]]",
                [("path", item.path), ("text", item.text), ("replacement", item.replacement)],
                keep_empty=True,
            )
            for item in package.substitutions
        ),
        "environment": "\n".join(_pairs("[package.environment]", package.environment)),
        "config_settings": "\n".join(_pairs("[package.config_settings]", package.config_settings)),
    }
    return {name: toml_value(value) for name, value in _plain(package) if value not in (None, ())} | {
        name: text for name, text in tables.items() if text
    }


def _plain(package: Package) -> list[tuple[str, _Value | None]]:
    return [
        ("name", package.name),
        ("version", package.version),
        ("epoch", package.epoch),
        ("include", package.include),
        ("exclude", package.exclude),
        ("executable", package.executable),
        ("manifest_file", package.manifest_file),
        ("version_file", package.version_file),
        ("requires", package.requires),
        ("must_contain", package.must_contain),
        ("not_shipped", package.not_shipped),
    ]


def canonical_recipe(
    package: Package, *, name: str, local: str, revision: int, target: str, required: Mapping[str, str]
) -> str:
    """Write the recipe of one wheel: its package alone, its series in the folder ``patches`` beside it.

    ``required`` maps each of the package's ``requires`` to the version that it was built for.
    """
    head: list[tuple[str, _Value | None]] = [
        ("format", FORMAT),
        ("name", name),
        ("local", local),
        ("revision", revision),
        ("target", target),
    ]
    series = "patches" if package.series is not None else None
    tables = [
        toml_table("[recipe]", head),
        toml_table("[[package]]", [*_plain(package), ("series", series)]),
        *_pairs("[package.required_versions]", sorted(required.items())),
    ]
    settings = package_settings(package)
    for table in ("environment", "config_settings", "generated", "substitute", "sources"):
        tables += [settings[table]] if table in settings else []
    return "\n".join(tables)
