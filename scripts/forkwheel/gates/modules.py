"""The Python modules of source trees: where a dotted name is defined, without importing anything."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from forkwheel.gates.files import FileKey, SourceFile
from forkwheel.gates.late import without_bodies

_WORD = re.compile(r"[A-Za-z_]\w*")
_GLOBAL = re.compile(r"^[ \t]+global[ \t]+([\w, \t]+)", re.MULTILINE)


@dataclass(eq=False)
class Binding:
    """One way in which a name gets its value in a module."""

    kind: str  # import, value, element, function, class
    node: ast.AST
    target: str = ""  # the dotted name that an import means
    index: int | None = None  # the place in an unpacked tuple
    depth: int = 0  # 1 where it stands in an `except` or `else`


@dataclass(eq=False)
class Module:
    """One Python file, which is read and parsed when it is asked for."""

    name: str
    root: str
    path: str
    read: Callable[[], str]
    is_package: bool
    failures: list[str] = field(default_factory=list)

    @cached_property
    def text(self) -> str:
        """The file's text."""
        return self.read()

    @cached_property
    def every_word(self) -> tuple[str, ...]:
        """Every identifier-like word of the file, once; equal words of all files are one object."""
        return tuple(map(sys.intern, set(_WORD.findall(self.text))))

    def release(self) -> None:
        """Keep no text; it is read again when it is asked for."""
        for name in ("text", "lines", "words", "_starts"):
            self.__dict__.pop(name, None)

    @cached_property
    def words(self) -> frozenset[str]:
        """The words, to look one up."""
        return frozenset(self.every_word)

    @cached_property
    def lines(self) -> list[str]:
        """The file's lines, without their ends."""
        return self.text.split("\n")

    @cached_property
    def _starts(self) -> list[int]:
        """Where each line starts in the text."""
        return [0, *accumulate(len(line) + 1 for line in self.lines)]

    def lines_with(self, words: Collection[str]) -> list[int]:
        """Return the lines, which count from 1, that hold any of some words."""
        found: set[int] = set()
        for word in self.words.intersection(words):
            found.update(bisect_right(self._starts, place) for place in _places(word, self.text, 0, len(self.text)))
        return sorted(found)

    def mentions(self, word: str, first: int, last: int) -> bool:
        """Tell whether some lines hold a word."""
        if word not in self.words:
            return False
        end = self._starts[min(last, len(self.lines))]
        return next(_places(word, self.text, self._starts[first - 1], end), None) is not None

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree; a file that does not parse is an empty one and says so in ``failures``."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return without_bodies(ast.parse(self.text), lambda first, last: self.lines[first - 1 : last])
        except (SyntaxError, ValueError, RecursionError) as error:
            line = getattr(error, "lineno", None) or 1
            self.failures.append(f"{self.path}:{line}: does not parse: {getattr(error, 'msg', error)}")
            return ast.Module(body=[], type_ignores=[])

    @cached_property
    def bindings(self) -> dict[str, list[Binding]]:
        """What each top-level name is bound to, in order."""
        found: dict[str, list[Binding]] = {}
        for name, binding in _bindings(self, self.tree.body, 0):
            found.setdefault(name, []).append(binding)
        return found

    @cached_property
    def changeable(self) -> frozenset[str]:
        """The top-level names that functions bind anew."""
        return frozenset(name.strip() for match in _GLOBAL.finditer(self.text) for name in match[1].split(","))

    @cached_property
    def stars(self) -> tuple[str, ...]:
        """The modules whose names all become this one's."""
        return tuple(binding.target for binding in self.bindings.get("*", ()))

    def absolute(self, name: str | None, level: int) -> str:
        """Return the dotted name that a ``from`` clause means."""
        if not level:
            return name or ""
        parts = self.name.split(".")
        parts = parts[: len(parts) - level + (1 if self.is_package else 0)]
        return ".".join([*parts, *([name] if name else [])])

    def source(self, node: ast.AST) -> str:
        """Return a node's text on one line."""
        start, end = node.lineno - 1, node.end_lineno - 1  # type: ignore[attr-defined]
        if start == end and self.lines[start].isascii():
            line: str = self.lines[start]
            return line[node.col_offset : node.end_col_offset]  # type: ignore[attr-defined]
        lines = [line.encode() for line in self.lines[start : end + 1]]
        lines[-1] = lines[-1][: node.end_col_offset]  # type: ignore[attr-defined]
        lines[0] = lines[0][node.col_offset :]  # type: ignore[attr-defined]
        text = b"\n".join(lines).decode("utf-8", "replace")
        return " ".join(re.sub(r"#[^\n]*\n", "\n", text).split()) if "\n" in text else text


def _bindings(module: Module, body: list[ast.stmt], depth: int) -> Iterator[tuple[str, Binding]]:
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from _imports(module, node, depth)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, Binding("function", node, depth=depth)
        elif isinstance(node, ast.ClassDef):
            yield node.name, Binding("class", node, depth=depth)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            for target_node in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield from _targets(target_node, node, depth)
        else:
            yield from _inner_bindings(module, node, depth)


def _imports(module: Module, node: ast.Import | ast.ImportFrom, depth: int) -> Iterator[tuple[str, Binding]]:
    base = module.absolute(node.module, node.level) if isinstance(node, ast.ImportFrom) else ""
    for alias in node.names:
        if isinstance(node, ast.Import):
            target = alias.name if alias.asname else alias.name.split(".")[0]
            yield alias.asname or target, Binding("import", node, target, depth=depth)
        else:
            target = base if alias.name == "*" else f"{base}.{alias.name}"
            yield alias.asname or alias.name, Binding("import", node, target, depth=depth)


def _inner_bindings(module: Module, node: ast.stmt, depth: int) -> Iterator[tuple[str, Binding]]:
    for field_name in ("body", "handlers", "orelse", "finalbody", "cases"):
        for index, child in enumerate(getattr(node, field_name, [])):
            deeper = depth + (field_name in ("handlers", "orelse") or (field_name == "cases" and index > 0))
            block = child.body if isinstance(child, (ast.ExceptHandler, ast.match_case)) else [child]
            yield from _bindings(module, block, deeper)


def _targets(target: ast.expr, node: ast.stmt, depth: int) -> Iterator[tuple[str, Binding]]:
    if isinstance(target, ast.Name):
        yield target.id, Binding("value", node, depth=depth)
    elif isinstance(target, (ast.Tuple, ast.List)):
        for index, element in enumerate(target.elts):
            if isinstance(element, ast.Name):
                yield element.id, Binding("element", node, index=index, depth=depth)


def _places(word: str, text: str, start: int, end: int) -> Iterator[int]:
    """Yield where a word stands as a whole word."""
    place = text.find(word, start, end)
    while place >= 0:
        after = place + len(word)
        if not (_continues(text[place - 1 : place]) or _continues(text[after : after + 1])):
            yield place
        place = text.find(word, after, end)


def _continues(char: str) -> bool:
    return char.isalnum() or char == "_"


class Modules:
    """All Python modules of some trees, found by dotted name."""

    def __init__(self, files: Iterable[SourceFile], shelf: dict[FileKey, Module] | None = None) -> None:
        """Take the Python files; what is on the ``shelf`` by tree, path and digest is not read again."""
        self.by_name: dict[str, Module] = {}
        self.all: list[Module] = []
        shelf = {} if shelf is None else shelf
        paths: dict[str, set[str]] = {}
        for file in files:
            self.all.append(shelf.setdefault(file.key, _module(file)))
            paths.setdefault(file.root, set()).add(file.path)
        for module in self.all:
            for name in _names(module.path, paths[module.root]):
                self.by_name.setdefault(name, module)

    def find(self, dotted: str) -> tuple[Module, str] | None:
        """Split a dotted name into the longest module that exists and what is left."""
        parts = dotted.split(".")
        for length in range(len(parts), 0, -1):
            module = self.by_name.get(".".join(parts[:length]))
            if module is not None:
                return module, ".".join(parts[length:])
        return None


def _module(file: SourceFile) -> Module:
    parts = file.path[:-3].split("/")
    is_package = parts[-1] == "__init__"
    return Module(".".join(parts[:-1] if is_package else parts), file.root, file.path, file.text, is_package)


def _names(path: str, files: set[str]) -> Iterator[str]:
    """Yield a file's dotted names: from the tree's root, and from the folder that holds its package."""
    parts = path[:-3].split("/")
    if parts[-1] == "__init__":
        parts = parts[:-1]
    yield ".".join(parts)
    for start in range(1, len(parts)):
        folder = "/".join(parts[:start])
        if f"{folder}/__init__.py" not in files and f"{folder}/{parts[start]}/__init__.py" in files:
            yield ".".join(parts[start:])
