"""Find the checks on the host side of C++ and CUDA sources that ask for the GPU's architecture.

An architecture enters through the CUDA runtime; it is followed through locals, members, results
and arguments of functions, by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from forkwheel.gates import c_expressions
from forkwheel.gates.arch import Arch
from forkwheel.gates.cuda_functions import CppCondition, CppFunction, conditions_between
from forkwheel.gates.cuda_gates import CppFile, admits
from forkwheel.gates.model import Gate, Place
from forkwheel.gates.values import Unknown, Value, Varying, holds_unknown, join, negate, per_arch, same, varying

_SOURCE = re.compile(r"cudaDevAttrComputeCapabilityM|CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_M|[dD]eviceProp")
_ATTRIBUTE = re.compile(
    r"&\s*([\w.>-]*?\b\w+)\s*,\s*(?:cudaDevAttrComputeCapability|CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_)(Major|Minor|MAJOR|MINOR)"
)
_PROPERTIES = re.compile(
    r"\b(?:cudaDeviceProp|hipDeviceProp_t)\s*[&*]?\s*(?:const\s*)?[&*]?\s*(\w+)|\bauto\s*[&*]?\s*(\w+)\s*=[^;]*[dD]evicePropert"
)
_PAIR = re.compile(r"\bauto\s*&?\s*\[\s*(\w+)\s*,\s*(\w+)\s*\]\s*=\s*([^;]+);")
_ASSIGNED = re.compile(r"(?<![\w.>=!<])((?:this\s*->\s*|\w+\s*\.\s*)?\w+)\s*(?<![=!<>+\-*/|&^])=(?!=)\s*([^;{}]+);")
_DECLARED = re.compile(
    r"(?<![\w.])(?!return\b|else\b|new\b|delete\b|case\b)[A-Za-z_][\w:]*(?:<[^<>;(){}]*>)?(?:\s+const)?(?:\s*[*&]+\s*|\s+)(\w+)\s*[=;({\[]"
)
_BRACED = re.compile(r"\b(?:int|auto|bool)(?:\s+const)?\s+(\w+)\s*[({]\s*([^;{}]+?)\s*[)}]\s*;")
_MEMBER = re.compile(r"[:,]\s*(\w+)\s*\(\s*([\w:.]+\s*\([^()]*\))\s*\)\s*(?=[,{])")
_RETURNED = re.compile(r"\breturn\s+([^;]+);")
_CALL = re.compile(r"\b(\w+)\s*(?:<[^;(){}]*>)?\s*\(")
_NAME = re.compile(r"[A-Za-z_]\w*")
_ROUNDS = 4
_SHORT = 4  # names this short are shared by functions that have nothing to do with one another
_PAIR_PARTS = frozenset({"first", "second", "major", "minor"})
_COMMON = frozenset({"if", "for", "while", "switch", "return", "sizeof", "static_cast", "major", "minor"})


@dataclass
class Known:
    """Names that depend on the architecture, in all files: members and results of functions."""

    members: dict[str, Value] = field(default_factory=dict)
    results: dict[str, Value] = field(default_factory=dict)
    arguments: dict[tuple[str, int, int], Value] = field(default_factory=dict)  # function, index, how many

    def words(self) -> set[str]:
        """Every name by which a file can mention something architectural."""
        return {*self.members, *self.results, *(name for name, _, _ in self.arguments)} - _COMMON


class HostChecks:
    """Finds comparisons of the architecture in host code."""

    def __init__(self, files: Iterable[CppFile], archs: tuple[Arch, ...]) -> None:
        self.files = tuple(files)
        self.archs = archs
        self.known = Known()
        self._words: frozenset[str] = frozenset()  # of what is known
        self._asks: dict[CppFunction, bool] = {}
        self._declared: dict[CppFile, dict[str, Value]] = {}
        self._wholes = (
            varying(arch.number for arch in archs),
            varying(arch.number * 10 for arch in archs),
            varying(arch.major for arch in archs),
            varying((arch.major, arch.minor) for arch in archs),
        )

    def find(self) -> Iterator[Gate]:
        """Follow the architecture to where it is compared, then yield what differs."""
        concerned = [file for file in self.files if _SOURCE.search(file.raw)]
        done: set[str] = set()
        for _ in range(_ROUNDS):
            for file in concerned:
                self._learn(file)
            self._words = frozenset(self.known.words())
            fresh = self._words - done
            if not fresh:
                break
            done |= fresh
            listed = set(map(id, concerned))
            others = [file for file in self.files if id(file) not in listed]
            whole = re.compile(r"\b(?:" + "|".join(sorted(map(re.escape, fresh))) + r")\b")
            concerned += [f for f in others if any(word in f.raw for word in fresh) and whole.search(f.raw)]
        for file in concerned:
            yield from self._gates(file)

    def _learn(self, file: CppFile) -> None:
        for match in _MEMBER.finditer(file.text):
            self._keep(self.known.members, match[1], self._evaluate(match[2], {}))
        for function in file.syntax.functions:
            if not self._is_concerned(file, function):
                continue
            names = self._names(file, function)
            declared = {match[1] for match in _DECLARED.finditer(function.text)} | set(function.parameters)
            for name, value in names.items():
                if name not in declared and not name.startswith(".") and name not in ("major", "minor"):
                    self._keep(self.known.members, name, value)
            returned = [self._evaluate(match[1], names) for match in _RETURNED.finditer(function.text)]
            if returned and all(same(returned[0], each) for each in returned) and len(function.name) > _SHORT:
                self._keep(self.known.results, function.name, returned[0])
            self._arguments(function, names)

    def _keep(self, table: dict[str, Value], name: str, value: Value) -> None:
        """Keep a name for all files, where its value says the architecture whole."""
        if any(same(value, whole) for whole in self._wholes) and name not in _PAIR_PARTS:
            table.setdefault(name, value)

    def _is_concerned(self, file: CppFile, function: CppFunction) -> bool:
        """Tell whether a function mentions anything that may depend on the architecture."""
        if function not in self._asks:
            self._asks[function] = bool(_SOURCE.search(function.text))
        if self._asks[function] or not function.words.isdisjoint(self._properties(file)):
            return True
        return not function.words.isdisjoint(self._words) or function.name in self._words

    def _properties(self, file: CppFile) -> dict[str, Value]:
        """Return the device properties that a file declares, wherever it does."""
        if file not in self._declared:
            found = _PROPERTIES.finditer(file.text) if "eviceProp" in file.raw else ()
            pair = varying((arch.major, arch.minor) for arch in self.archs)
            self._declared[file] = {match[1] or match[2]: pair for match in found}
        return self._declared[file]

    def _names(self, file: CppFile, function: CppFunction) -> dict[str, Value]:
        """Return the names of a function that depend on the architecture."""
        names = dict(self._properties(file))
        for index, parameter in enumerate(function.parameters):
            value = self.known.arguments.get((function.name, index, len(function.parameters)))
            if isinstance(value, Varying):
                names[parameter] = value
        for match in _ATTRIBUTE.finditer(function.text):
            name = _NAME.findall(match[1])[-1]
            names[name] = varying(a.major if match[2].lower() == "major" else a.minor for a in self.archs)
        for match in _PAIR.finditer(function.text):
            pair = per_arch(self._evaluate(match[3], names), len(self.archs))
            if all(isinstance(each, tuple) and len(each) == 2 for each in pair):
                names[match[1]], names[match[2]] = varying(p[0] for p in pair), varying(p[1] for p in pair)
        for match in sorted(
            [*_ASSIGNED.finditer(function.text), *_BRACED.finditer(function.text)], key=lambda m: m.start()
        ):
            self._assign(match[1], match[2], names)
        return names

    def _assign(self, target: str, text: str, names: dict[str, Value]) -> None:
        found = _NAME.findall(target)
        if not found:
            return
        name = found[-1]
        value = self._evaluate(text, names)
        if isinstance(value, Varying) and not holds_unknown(value.values):
            names[name] = value if name not in names else join(names[name], value, text=name)

    def _evaluate(self, text: str, names: dict[str, Value]) -> Value:
        words = set(_NAME.findall(text))
        if len(text) > 400 or (words.isdisjoint(names) and words.isdisjoint(self._words)):
            return Unknown(text.strip()[:80])
        return varying(
            c_expressions.evaluate(text.strip(), partial(self._lookup, names=names, position=i))
            for i in range(len(self.archs))
        )

    def _lookup(self, name: str, names: dict[str, Value], position: int) -> Value:
        if name.endswith("()"):
            found = self.known.results.get(name[:-2])
        elif name.startswith("."):
            found = self.known.members.get(name[1:])
        else:
            found = names.get(name, self.known.members.get(name))
        return None if found is None else per_arch(found, len(self.archs))[position]

    def _arguments(self, function: CppFunction, names: dict[str, Value]) -> None:
        interesting = {*names, *self.known.members, *self.known.results}
        for match in _CALL.finditer(function.text):
            if match[1] in _COMMON or match[1] == function.name or len(match[1]) <= _SHORT:
                continue
            arguments = _split(function.text, match.end())
            for index, argument in enumerate(arguments):
                if len(argument) < 80 and not interesting.isdisjoint(_NAME.findall(argument)):
                    value = self._evaluate(argument, names)
                    if any(same(value, whole) for whole in self._wholes):
                        self.known.arguments.setdefault((match[1], index, len(arguments)), value)

    def _gates(self, file: CppFile) -> Iterator[Gate]:
        for function in file.syntax.functions:
            if not self._is_concerned(file, function):
                continue
            names = self._names(file, function)
            words = {*names, *self.known.members, *self.known.results}
            if function.words.isdisjoint(words) or function.is_kernel:
                continue
            lines = [
                i
                for i in range(function.first, function.last + 1)
                if not words.isdisjoint(_NAME.findall(file.lines[i - 1]))
            ]
            for condition in conditions_between(file.syntax, function.first, function.last) if lines else ():
                if any(condition.first <= line <= condition.last for line in lines):
                    gate = self._gate(file, function, condition, names)
                    if gate is not None:
                        yield gate

    def _gate(
        self, file: CppFile, function: CppFunction, condition: CppCondition, names: dict[str, Value]
    ) -> Gate | None:
        value = self._evaluate(condition.text, names)
        if not isinstance(value, Varying):
            return None
        if condition.cases:
            value = varying(self._in_cases(each, condition.cases) for each in value.values)
        elif condition.refuses:
            value = varying(map(negate, value.values))
        if not isinstance(value, Varying) or not any(isinstance(each, bool) for each in value.values):
            return None
        return Gate(
            place=Place(file.root, file.path, condition.first),
            first=condition.first,
            last=condition.last,
            kind="host",
            condition=" ".join(condition.text.split()),
            admits=admits(self.archs, value.values),
            others=(),
            symbol=function.name,
            holds=condition.holds,
        )

    def _in_cases(self, value: Value, cases: tuple[str, ...]) -> Value:
        numbers = [c_expressions.evaluate(case, lambda name: None) for case in cases]
        return value in numbers if all(isinstance(number, int) for number in numbers) else Unknown("case")


def _split(text: str, start: int) -> list[str]:
    """Split a call's arguments at its commas; at most two lines' worth are looked at."""
    pieces: list[str] = []
    depth, begin = 0, start
    for position in range(start, min(len(text), start + 2000)):
        char = text[position]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            if depth == 0:
                return [*pieces, text[begin:position].strip()]
            depth -= 1
        elif char == "," and depth == 0:
            pieces.append(text[begin:position].strip())
            begin = position + 1
    return pieces
