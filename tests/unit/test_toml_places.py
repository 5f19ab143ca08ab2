"""Where keys and values stand in a TOML text."""

from __future__ import annotations

import pytest

from forkwheel.toml_places import DEEPEST, MOST_DIGITS, find_excess, locate, locate_value

TEXT = '''\
# [not.a.table]
title = "x"  # a comment
  indented.revision = 0x1 # the revision
"quoted \\"key\\"" = 'a # b'

["quo.ted".'in [it]']
"\\u0041" = """
[[package]]
ends with a quote""""
after = 1979-05-27 07:32:00

[[package]]
list = [ # ]
  "]", {a = "}"},
]
inline = {key = 1, other = [{}]}
[ package . source ]
kind = true
[[package]]
source = '''
TEXT += "'''\n[[package]]\n''''\nlast = 1.5"


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("position", "line", "value"),
    [
        (("title",), 2, '"x"'),
        (("indented", "revision"), 3, "0x1"),
        (('quoted "key"',), 4, "'a # b'"),
        (("quo.ted", "in [it]", "A"), 7, '"""\n[[package]]\nends with a quote""""'),
        (("quo.ted", "in [it]", "after"), 10, "1979-05-27 07:32:00"),
        (("package", 0, "list"), 13, '[ # ]\n  "]", {a = "}"},\n]'),
        (("package", 0, "inline"), 16, "{key = 1, other = [{}]}"),
        (("package", 0, "source", "kind"), 18, "true"),
        (("package", 1, "source"), 20, "'''\n[[package]]\n''''"),
        (("package", 1, "last"), 23, "1.5"),
    ],
)
def test_keys_and_values_are_found(position: tuple[str | int, ...], line: int, value: str, line_end: str) -> None:
    text = TEXT.replace("\n", line_end)
    start, end = locate_value(text, position)
    assert text[start:end] == value.replace("\n", line_end)
    assert locate(text)[position] == line


@pytest.mark.parametrize(
    ("position", "line"),
    [(("indented",), 3), (("quo.ted",), 6), (("package",), 12), (("package", 0, "source"), 17), (("package", 1), 19)],
)
def test_tables_are_found_also_where_they_are_only_implied(position: tuple[str | int, ...], line: int) -> None:
    assert locate(TEXT)[position] == line


def test_a_table_stands_at_its_header_rather_than_where_it_was_implied() -> None:
    assert locate("[a.b]\n[a]\n")[("a",)] == 2


@pytest.mark.parametrize("position", [("package", 0, "inline", "key"), ("package", 0), ("quo.ted",), ("none",), ()])
def test_what_has_no_value_of_its_own_is_a_key_error(position: tuple[str | int, ...]) -> None:
    with pytest.raises(KeyError):
        locate_value(TEXT, position)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), "nested more than 100 deep"),
        ("{a=" * (DEEPEST + 1) + "1" + "}" * (DEEPEST + 1), "nested more than 100 deep"),
        ("9" * (MOST_DIGITS + 1), "a number of more than 1000 digits"),
        ("0x" + "f" * MOST_DIGITS, "a number of more than 1000 digits"),
        ("1\n" + "a." * DEEPEST + "b = 1", "a key of more than 100 parts"),
    ],
)
def test_what_no_reader_could_bear_is_found_with_its_line(value: str, what: str) -> None:
    found = find_excess(f"a = 1\nb = {value}\n")
    assert found is not None
    line, text = found
    assert line == (3 if "\n" in value else 2)
    assert what in text


@pytest.mark.parametrize(
    "value",
    [
        "[" * DEEPEST + "]" * DEEPEST,
        '["a", "[", \'[\']' + "  # '" + "[" * 500,
        '"' + "[" * 500 + "9" * 5000 + '"',
        f"1 # {'[' * 500} {'a.' * 500} {'9' * 5000}",
    ],
)
def test_what_a_reader_can_bear_passes(value: str) -> None:
    assert find_excess(f"a = {value}\n") is None


@pytest.mark.parametrize("quote", ['"', "'", '"""', "'''"])
def test_brackets_after_strings_are_counted(quote: str) -> None:
    assert find_excess(f"a = [{quote}x{quote}]\n" * 500) is None


@pytest.mark.parametrize("text", ['"', "'x", '"""x', "'''"])
def test_a_string_that_is_never_closed_is_passed_over(text: str) -> None:
    assert find_excess(f"a = {text}{'[' * 500}") is None
