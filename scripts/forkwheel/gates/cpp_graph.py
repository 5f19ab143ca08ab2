"""Which functions of C++ and CUDA sources call which, within what a file includes."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

from forkwheel.gates.cuda_functions import CppFunction
from forkwheel.gates.cuda_gates import CppFile, Export

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"\n]+)[>\"]", re.MULTILINE)
# How a function is handed to Python: the name there, and the function here.
_EXPORTS = re.compile(
    r"TVM_FFI_DLL_EXPORT_TYPED_FUNC\s*\(\s*(\w+)\s*,\s*([\w:]+)\s*\)"
    r"|\bm\s*\.\s*(?:def|impl)\s*\(\s*\"(\w+)[^\"]*\"\s*,\s*(?:[^;]*?&\s*)?([\w:]+)"
)

CppNode = tuple[str, str, str, int]  # root, path, function, first line


class CppGraph:
    """Finds includes and calls by name."""

    def __init__(self, files: Iterable[CppFile]) -> None:
        self.files = {(file.root, file.path): file for file in files}
        self._by_name: dict[str, list[CppFile]] = {}
        for file in self.files.values():
            self._by_name.setdefault(file.path.rpartition("/")[2], []).append(file)
        self._includes: dict[tuple[str, str], list[CppFile]] = {}
        self._functions: dict[tuple[str, str], dict[str, list[tuple[CppFile, CppFunction]]]] = {}

    def closure(self, file: CppFile) -> list[CppFile]:
        """Return a file and all that it includes, directly or not, from the same tree."""
        seen = {(file.root, file.path): file}
        queue = deque([file])
        while queue:
            for included in self._included(queue.popleft()):
                if (included.root, included.path) not in seen:
                    seen[(included.root, included.path)] = included
                    queue.append(included)
        return list(seen.values())

    def _included(self, file: CppFile) -> list[CppFile]:
        key = (file.root, file.path)
        if key not in self._includes:
            found = (self._resolve(file, name) for name in _INCLUDE.findall(file.raw))
            self._includes[key] = [each for each in found if each is not None]
        return self._includes[key]

    def _resolve(self, file: CppFile, name: str) -> CppFile | None:
        tail = name.replace("../", "").removeprefix("./")
        folder = file.path.rpartition("/")[0]
        candidates = [
            each
            for each in self._by_name.get(tail.rpartition("/")[2], ())
            if each.root == file.root and (each.path == tail or each.path.endswith(f"/{tail}"))
        ]
        return max(candidates, key=lambda each: (_shared(each.path, f"{folder}/{tail}"), -len(each.path)), default=None)

    def reached_files(self) -> list[CppFile]:
        """Return the files that were followed into."""
        followed = (self.files[key] for key in self._functions)
        return list({(each.root, each.path): each for file in followed for each in self.closure(file)}.values())

    def reach(self, file: CppFile, name: str) -> dict[CppNode, int]:
        """Return the functions that a function of a file leads to, with the number of calls between."""
        table = self._table(file)
        found: dict[CppNode, int] = {}
        queue = deque((pair, 0) for pair in table.get(name, []))
        expanded = {name}
        while queue:
            (where, function), distance = queue.popleft()
            node = (where.root, where.path, function.name, function.first)
            if node in found:
                continue
            found[node] = distance
            fresh = (function.words & table.keys()) - expanded
            expanded |= fresh
            queue.extend((pair, distance + 1) for word in fresh for pair in table[word])
        return found

    def _table(self, file: CppFile) -> dict[str, list[tuple[CppFile, CppFunction]]]:
        key = (file.root, file.path)
        if key not in self._functions:
            table: dict[str, list[tuple[CppFile, CppFunction]]] = {}
            for each in self.closure(file):
                for function in each.syntax.functions:
                    table.setdefault(function.name, []).append((each, function))
            self._functions[key] = table
        return self._functions[key]


def may_export(content: bytes) -> bool:
    """Tell whether a file may hand functions to Python."""
    return b"EXPORT_TYPED_FUNC" in content or b".def(" in content or b".impl(" in content


def find_exports(files: Iterable[CppFile]) -> Iterator[Export]:
    """Yield the functions that files hand to Python."""
    for file in files:
        if "EXPORT_TYPED_FUNC" in file.raw or ".def(" in file.raw or ".impl(" in file.raw:
            for match in _EXPORTS.finditer(file.text):
                name, function = match[1] or match[3], match[2] or match[4]
                yield Export(name, file.root, file.path, function.rpartition(":")[2])


def _shared(a: str, b: str) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
