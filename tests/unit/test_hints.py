import argparse
import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from forkwheel import cli
from forkwheel.errors import PatchError, UsageError
from forkwheel.hints import complete_hint, recipe_argument

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "scripts" / "forkwheel"
COMMAND = re.compile(r"`((?:nox -s|forkwheel|patches --?)[^`]*)`")
SESSION = re.compile(r"nox -s (\S+)(?: -- (.*))?")


def commands_in(text: str) -> Iterator[str]:
    """Give the commands of a text's hints; a line that says what wrote a file is none."""
    return (match[1] for match in COMMAND.finditer(text) if not text[: match.start()].endswith("Written by "))


def literals(file: Path) -> Iterator[tuple[int, str]]:
    """Give each text of a module with its line; what an f-string fills in becomes VALUE."""
    tree = ast.parse(file.read_text("utf-8"))
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    inside |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    for node in ast.walk(tree):
        if id(node) in inside:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "VALUE" for part in node.values)
            yield node.lineno, "".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def sessions() -> dict[str, list[str]]:
    """Map each session of the noxfile that is a command to the words that it runs."""
    tree = ast.parse((REPOSITORY / "noxfile.py").read_text("utf-8"))
    found = {}
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list):
        name = ast.unparse(function.decorator_list[0]).split("'")[1]
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            if ast.unparse(call.func) == "_forkwheel":
                found[name] = [ast.literal_eval(argument) for argument in call.args[1:]]
    return found


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.py")), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_every_command_that_a_text_names_runs_as_it_is_printed(file: Path) -> None:
    for line, text in literals(file):
        for command in commands_in(complete_hint(text, recipe="demo")):
            words = command.removeprefix("forkwheel ")
            if session := SESSION.fullmatch(command):
                words = shlex.join(sessions()[session[1]]) + f" {session[2] or ''}"
            try:
                cli._parser(words.split()[0]).parse_args(shlex.split(words))
            except (SystemExit, argparse.ArgumentError):
                pytest.fail(f"{file}:{line}: `{command}` is not a whole command")


@pytest.mark.parametrize(("given", "printed"), [("demo", "demo"), ("a b/recipe.toml", "'a b/recipe.toml'")])
def test_a_hint_names_the_recipe_as_it_was_given(given: str, printed: str) -> None:
    hint = "run `nox -s lock -- --recipe RECIPE --inputs` after `patches --edit x.patch`"

    assert complete_hint(hint, recipe=given) == (
        f"run `nox -s lock -- --recipe {printed} --inputs` after `nox -s patches -- --recipe {printed} --edit x.patch`"
    )


@pytest.mark.parametrize("error", [UsageError, PatchError])
def test_whichever_command_fails_its_hint_is_whole(
    error: type[UsageError], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> int:
        raise error("a fault", hint="run `nox -s lock -- --recipe RECIPE`, or `patches --edit x.patch`")

    monkeypatch.setattr("forkwheel.build_commands._build", fail)

    assert cli.run(["build", "--recipe", "my/recipe"]) == error.exit_code
    assert capsys.readouterr().err.endswith(
        "hint: run `nox -s lock -- --recipe my/recipe`, or `nox -s patches -- --recipe my/recipe --edit x.patch`\n"
    )


def test_a_recipe_is_named_by_its_folder_or_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert recipe_argument(tmp_path / "recipes" / "demo") == "demo"
    assert recipe_argument(tmp_path / "mine" / "demo") == "mine/demo"
