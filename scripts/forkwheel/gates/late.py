"""Functions whose bodies are parsed when they are asked for: most of a tree's are never looked at."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator
from typing import cast

_LONG = 16  # lines; shorter functions are kept as they are

Lines = Callable[[int, int], list[str]]  # the first and the last line, which count from 1


def without_bodies(tree: ast.Module, lines: Lines) -> ast.Module:
    """Replace the long functions and methods of a module by such as parse their bodies when these are asked for."""
    for block in _blocks(tree.body):
        for index, node in enumerate(block):
            if type(node) in _LATE and (node.end_lineno or 0) - node.lineno > _LONG:
                block[index] = _LATE[type(node)](node, lines)
    return tree


def _blocks(body: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    yield body
    for node in body:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for inner in (node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())):
                for name in ("body", "orelse", "finalbody"):
                    if block := getattr(inner, name, None):
                        yield from _blocks(block)


def _late(kind: type[ast.stmt]) -> Callable[[ast.stmt, Lines], ast.stmt]:
    """Make a class like an AST node's, of the same name, with a body that is parsed late."""

    def body(self: ast.stmt) -> list[ast.stmt]:
        if "_body" not in self.__dict__:
            self.__dict__["_body"] = _parsed(self, self.__dict__["_lines"])
        found: list[ast.stmt] = self.__dict__["_body"]
        return found

    made = type(kind.__name__, (kind,), {"body": property(body)})

    def make(node: ast.stmt, lines: Lines) -> ast.stmt:
        late = cast(ast.stmt, ast.AST.__new__(made))  # as it is called by itself, it would ask for every field
        late.__dict__.update({name: value for name, value in vars(node).items() if name != "body"}, _lines=lines)
        return late

    return make


def _parsed(node: ast.stmt, lines: Lines) -> list[ast.stmt]:
    """Parse a function's lines alone; an indented one stands in a block, so that columns stay as they are."""
    assert node.end_lineno is not None
    text = lines(node.lineno, node.end_lineno)
    above = ["if 1:"] if node.col_offset else []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ast.parse("\n".join([*above, *text])).body[0]
    function = found.body[0] if isinstance(found, ast.If) else found
    ast.increment_lineno(function, node.lineno - 1 - len(above))
    assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
    return function.body


_LATE: dict[type[ast.stmt], Callable[[ast.stmt, Lines], ast.stmt]] = {
    kind: _late(kind) for kind in (ast.FunctionDef, ast.AsyncFunctionDef)
}
