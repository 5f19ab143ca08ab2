"""One style for the help of all commands."""

import argparse
from collections.abc import Iterator

import pytest

from forkwheel import cli


def commands() -> dict[str, argparse.ArgumentParser]:
    (found,) = (action for action in cli._parser(None)._actions if isinstance(action, argparse._SubParsersAction))
    return dict(found.choices)


def actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    return (action for action in parser._actions if not isinstance(action, argparse._HelpAction))


@pytest.mark.parametrize("name", list(cli._COMMANDS))
def test_every_help_is_one_plain_phrase(name: str) -> None:
    parser = commands()[name]
    texts = [parser.description, *(action.help for action in actions(parser))]

    for text in texts:
        assert text, texts
        assert not text.endswith("."), text
        first = text.split()[0]
        assert first[0].islower() or first.isupper() or not first[0].isalpha(), text


@pytest.mark.parametrize("name", list(cli._COMMANDS))
def test_every_value_says_what_it_is(name: str) -> None:
    for action in actions(commands()[name]):
        takes_value = action.option_strings and action.nargs != 0 and not action.choices
        assert not takes_value or action.metavar, action.option_strings


def test_options_of_several_commands_have_one_form() -> None:
    found = [action for parser in commands().values() for action in actions(parser)]

    for option in ("--recipe", "--mirror", "--source", "--json"):
        same = [action for action in found if option in action.option_strings]
        texts = {(action.metavar, str(action.help).partition(" (")[0]) for action in same}
        assert len(same) > 1
        assert len(texts) == 1, texts
