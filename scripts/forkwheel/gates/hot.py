"""Which lines can hold a gate: those with a word that may depend on the architecture."""

from __future__ import annotations

import ast
from bisect import bisect_left

from forkwheel.gates import primitives
from forkwheel.gates.modules import Module


class Hot:
    """Keeps the words that may depend on the architecture, and tells which parts of a file have one."""

    def __init__(self) -> None:
        self.hot: set[str] = set(primitives.WORDS)
        self.own: dict[Module, set[str]] = {}  # words that are hot in one file only
        self._hot_lines: dict[Module, list[int]] = {}

    def forget(self) -> None:
        """Drop what was found, because more is known to depend on the architecture."""
        self._hot_lines.clear()

    def is_hot(self, node: ast.AST, module: Module) -> bool:
        """Tell whether a node's lines mention anything that may depend on the architecture."""
        lines = self._hot_lines.get(module)
        if lines is None:
            lines = module.lines_with(self.hot | self.own.get(module, set()))
            self._hot_lines[module] = lines
        first, last = span(node)
        return holds_line(lines, first, last)


def holds_line(lines: list[int], first: int, last: int) -> bool:
    """Tell whether any of some sorted lines lies between two."""
    position = bisect_left(lines, first)
    return position < len(lines) and lines[position] <= last


def span(node: ast.AST) -> tuple[int, int]:
    """Return the first and last line of a node, with its decorators."""
    if isinstance(node, ast.Module):
        return 1, 1 << 30
    first: int = node.lineno  # type: ignore[attr-defined]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.decorator_list:
        first = min(first, node.decorator_list[0].lineno)
    return first, node.end_lineno or first  # type: ignore[attr-defined]
