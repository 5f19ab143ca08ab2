"""Run pieces of a real Python file alone, with stand-ins for what it imports.

The files import torch, CUDA libraries and much else, which a test of their conditions does
not need. A piece sees the names that the file itself imports or defines, so that a name the
file forgot to import is an error here too.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Namespace = dict[str, Any]
Wanted = Callable[[ast.stmt], bool]


@functools.cache
def parse(file: Path) -> ast.Module:
    """Parse a file once; nothing here changes a tree."""
    return ast.parse(file.read_text(encoding="utf-8"))


def imported(module: ast.Module, stand_ins: Mapping[str, Any]) -> Namespace:
    """Return the stand-ins of the names that the module imports at its top."""
    aliases = [alias for node in module.body if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names]
    names = {alias.asname or alias.name for alias in aliases}
    return {name: value for name, value in stand_ins.items() if name in names}


def run(statements: list[ast.stmt], namespace: Namespace) -> Namespace:
    """Execute the statements in the namespace, and return it."""
    assert statements, "the piece is not in the file any more"
    exec(compile(ast.Module(body=statements, type_ignores=[]), "<piece>", "exec"), namespace)
    return namespace


def run_top_level(file: Path, names: set[str], stand_ins: Mapping[str, Any]) -> Namespace:
    """Run the assignments and functions of these names at the top of a file."""
    module = parse(file)
    statements = [node for node in module.body if _defined(node) & names]
    assert set().union(*map(_defined, statements)) >= names, f"{file.name} lacks one of {sorted(names)}"
    return run(statements, imported(module, stand_ins))


@functools.cache
def function(module: ast.AST, name: str) -> ast.FunctionDef:
    """Return the function or method of that name, or fail."""
    found = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef) and node.name == name]
    assert len(found) == 1, f"{len(found)} functions are called {name}"
    return found[0]


def _defined(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef):
        return {node.name}
    if isinstance(node, ast.Assign):
        return {target.id for target in node.targets if isinstance(target, ast.Name)}
    return set()
