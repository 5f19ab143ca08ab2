"""Complaints about TOML files name the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from forkwheel.errors import RecipeError
from forkwheel.toml_file import locate, read_toml

TEXT = '''\
# a comment with [brackets] and "quotes"
title = "x"  # [not.a.table]

[recipe]
name = "a"
text = """
[not_a_table]
key = 1
"""
list = [
  "one",  # with a comment ]
  "two",
]
after = 1

[[package]]
name = "p"
[package.environment]
A = "1"
"quoted key" = "2"

[[package]]
name = "q"

[[package.source]]
kind = "git"
[[package.source]]
kind = 'sdist'
literal = \'\'\'
[[package]]
\'\'\'
dotted.key = 1
'''


@pytest.mark.parametrize(
    ("position", "line"),
    [
        (("title",), 2),
        (("recipe",), 4),
        (("recipe", "text"), 6),
        (("recipe", "list"), 10),
        (("recipe", "after"), 14),
        (("package", 0), 16),
        (("package", 0, "environment", "A"), 19),
        (("package", 0, "environment", "quoted key"), 20),
        (("package", 1, "name"), 23),
        (("package", 1, "source", 0, "kind"), 26),
        (("package", 1, "source", 1, "kind"), 28),
        (("package", 1, "source", 1, "dotted", "key"), 32),
    ],
)
def test_locate_finds_the_line_of_every_kind_of_key(position: tuple[str | int, ...], line: int) -> None:
    assert locate(TEXT)[position] == line


def test_text_inside_strings_is_not_a_table() -> None:
    assert ("not_a_table",) not in locate(TEXT)
    assert ("package", 2) not in locate(TEXT)


def read(tmp_path: Path, text: str | bytes):
    file = tmp_path / "file.toml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_toml(file)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('a = 1\nb = "unclosed\n', 2, "not valid TOML"),
        ("a = 1\na = 2\n", 2, "not valid TOML"),
        ("[t]\n[t]\n", 2, "not valid TOML"),
        ('x = """\nnever closed\n', 3, "not valid TOML"),
        ("a = 1\nb = " + "[" * 5000 + "]" * 5000, 2, "values nested more than 100 deep"),
        ("a = 1\nb = " + "9" * 5000, 2, "a number of more than 1000 digits"),
        ("a = 1\n" + "a." * 5000 + "b = 1", 2, "a key of more than 100 parts"),
    ],
)
def test_a_syntax_error_names_its_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    with pytest.raises(RecipeError, match=message) as caught:
        read(tmp_path, text)
    assert f"file.toml:{line}:" in caught.value.message


def test_a_file_that_is_not_utf8_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"file.toml:3: not UTF-8: byte 0xff"):
        read(tmp_path, b'a = 1\r\n\nb = "\xff"')


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_named(tmp_path: Path, encoding: str) -> None:
    with pytest.raises(RecipeError, match=r"file.toml:1: starts with a byte order mark \(BOM\)"):
        read(tmp_path, "a = 1".encode(encoding))


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_a_path_that_cannot_be_is_one_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(RecipeError, match="cannot be read"):
        read_toml(tmp_path / name)


def test_a_missing_file_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="no such file"):
        read_toml(tmp_path / "none.toml")


def test_windows_line_ends_are_read(tmp_path: Path) -> None:
    section = read(tmp_path, 'a = "1"\r\nb = 2\r\n')
    assert section.string("a") == "1"
    assert section.line("b") == 2


@pytest.mark.parametrize(
    ("text", "reader", "message"),
    [
        ("a = 1", lambda s: s.string("a"), "file.toml:1: `a` must be a string, not an integer"),
        ("\na = true", lambda s: s.integer("a"), "file.toml:2: `a` must be an integer, not a boolean"),
        ("a = -1", lambda s: s.integer("a"), "`a` is -1, below 0"),
        ('a = ""', lambda s: s.string("a"), "`a` is empty"),
        ("b = 1", lambda s: s.string("a"), "file.toml:1: `a` is missing"),
        ('a = ["x", "x"]', lambda s: s.strings("a"), "lists 'x' twice"),
        ("a = [1]", lambda s: s.strings("a"), "non-empty strings only"),
        ('[a]\nx = "1"\ny = 2', lambda s: s.mapping("a"), "file.toml:3: `a.y` must be a string"),
        ("a = 1.5", lambda s: s.flag("a", default=True), "must be a boolean, not a number"),
        ("a = [1]", lambda s: s.sections("a"), "must be an array of tables"),
        ('a = "xyz"', lambda s: s.string("a", pattern="x+", what="some x"), "`a` is 'xyz', not some x"),
        ("a = 1\n\nbad = 2", lambda s: (s.integer("a"), s.finish()), "file.toml:3: unknown key `bad`"),
        ("a = 5", lambda s: s.integer("a", maximum=4), "file.toml:1: `a` is 5, above 4"),
        ("a = 0x1" + "0" * 900, lambda s: s.integer("a"), "`a` is a number of more than 64 bits"),
        ('a = "x\\u0000"', lambda s: s.string("a"), "`a` holds a NUL character"),
        ('a = ["x\\u0000"]', lambda s: s.strings("a"), "`a` holds a NUL character"),
        ('[a]\nx = "\\u0000"', lambda s: s.mapping("a"), "file.toml:2: `a.x` holds a NUL character"),
        ('a = ["x", ""]', lambda s: s.strings("a"), "non-empty strings only, not an empty one"),
        ('a = "' + "y" * 500 + '"', lambda s: s.string("a", pattern="x"), "yyy'…, not "),
        ("b = 1", lambda s: s.expect({"a": "the first letter"}), "unknown key `b`"),
        ("sorce = 1", lambda s: s.expect({"source": "", "a": ""}), "unknown key `sorce`; did you mean `source`?"),
        ('"\\u001b[31m" = 1', lambda s: s.finish(), r"unknown key '\x1b[31m'"),
    ],
)
def test_a_bad_value_is_one_error_with_its_line(tmp_path: Path, text: str, reader, message: str) -> None:
    section = read(tmp_path, text)
    with pytest.raises(RecipeError) as caught:
        reader(section)
    assert message in caught.value.message
    assert caught.value.hint


def test_a_missing_key_is_described_where_its_meaning_is_known(tmp_path: Path) -> None:
    section = read(tmp_path, "")
    section.expect({"a": "the first letter"})
    with pytest.raises(RecipeError) as caught:
        section.string("a")
    assert caught.value.hint == "add `a`, the first letter"


def test_an_empty_string_is_read_where_it_is_allowed(tmp_path: Path) -> None:
    assert read(tmp_path, 'a = ""').string("a", allow_empty=True) == ""
