"""Find the checks on the host side of C++ and CUDA sources that ask for the GPU's architecture.

An architecture enters through the CUDA runtime; it is followed through locals, members, results
and arguments of functions, by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from forkwheel.gates import c_expressions
from forkwheel.gates.arch import Arch
from forkwheel.gates.cuda_facts import COMMON, SHORT, asks, may_define, mentions
from forkwheel.gates.cuda_functions import CppCondition, CppFunction, conditions_in
from forkwheel.gates.cuda_gates import CppFile, admits
from forkwheel.gates.model import Gate, Place
from forkwheel.gates.values import Unknown, Value, Varying, holds_unknown, join, negate, per_arch, same, varying

_NAME = re.compile(r"[A-Za-z_]\w*")
_ROUNDS = 4
_LARGEST = 1 << 20  # characters; a larger file is generated: what is passed to others is not followed into it
_COMMON = 200  # files; a name that more of them mention stands for many things
_PAIR_PARTS = frozenset({"first", "second", "major", "minor"})


@dataclass(frozen=True)
class Words:
    """Names that depend on the architecture, and functions that something of it is passed to.

    The latter concern their own definitions alone: what else calls them says nothing new.
    """

    mentions: frozenset[str] = frozenset()
    called: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.mentions or self.called)

    def without(self, known: Words) -> Words:
        """Leave out what was known before."""
        return Words(self.mentions - known.mentions, self.called - known.called)

    def concern(self, function: CppFunction) -> bool:
        """Tell whether a function mentions a name, or is called with one."""
        return function.name in self.called or not function.words.isdisjoint(self.mentions)


@dataclass
class Known:
    """Names that depend on the architecture, in all files: members and results of functions."""

    members: dict[str, Value] = field(default_factory=dict)
    results: dict[str, Value] = field(default_factory=dict)
    arguments: dict[tuple[str, int, int], Value] = field(default_factory=dict)  # function, index, how many

    common: set[str] = field(default_factory=set)  # names that stand for many things, and are not followed

    def forget(self, name: str) -> None:
        """Follow a name no further."""
        self.common.add(name)
        self.members.pop(name, None)
        self.results.pop(name, None)

    def words(self) -> Words:
        """Every name by which a function can be concerned."""
        called = {name for name, _, _ in self.arguments}
        return Words(frozenset({*self.members, *self.results} - COMMON), frozenset(called - COMMON))


class HostChecks:
    """Finds comparisons of the architecture in host code."""

    def __init__(self, files: Iterable[CppFile], archs: tuple[Arch, ...]) -> None:
        self.files = tuple(files)
        self.archs = archs
        self.known = Known()
        self._words = Words()  # of what is known
        self._declared: dict[CppFile, dict[str, Value]] = {}
        self._wholes = (
            varying(arch.number for arch in archs),
            varying(arch.number * 10 for arch in archs),
            varying(arch.major for arch in archs),
            varying((arch.major, arch.minor) for arch in archs),
        )

    def find(self) -> Iterator[Gate]:
        """Follow the architecture to where it is compared, then yield what differs."""
        concerned = dict.fromkeys(file for file in self.files if asks(file.raw))
        fresh: Words | None = None  # what was learnt in the last round
        for _ in range(_ROUNDS):
            for file in concerned:
                self._learn(file, fresh)
            concerned.update(dict.fromkeys(self._reached(self.known.words().without(self._words))))
            known = self.known.words()
            fresh, self._words = known.without(self._words), known
            if not fresh:
                break
        for file in concerned:
            yield from self._gates(file)

    def _reached(self, fresh: Words) -> list[CppFile]:
        """Return the files that something new may concern; forget the names that too many of them mention."""
        files = [file for file in self.files if len(file.raw) <= _LARGEST]
        reached = {file for name in fresh.called for file in files if may_define(file.raw, name)}
        for name in sorted(fresh.mentions):
            mentioning = (file for file in files if mentions(file.raw, name))
            some = list(islice(mentioning, _COMMON + 1))
            if len(some) > _COMMON:
                self.known.forget(name)
            else:
                reached.update(some)
        return [file for file in files if file in reached]

    def _learn(self, file: CppFile, fresh: Words | None) -> None:
        """Learn what a file says of the architecture; of a file that was read before, what concerns something new."""
        for name, text in file.members:
            self._keep(self.known.members, name, self._evaluate(text, {}))
        for function in file.syntax.functions:
            if function.is_kernel or (fresh is not None and not fresh.concern(function)):
                continue
            if self._is_concerned(file, function):
                self._learn_function(file, function)

    def _learn_function(self, file: CppFile, function: CppFunction) -> None:
        names, facts = self._names(file, function), function.facts
        for name, value in names.items():
            local = name in facts.declared or name in function.parameters or name in ("major", "minor")
            if not local and not name.startswith("."):
                self._keep(self.known.members, name, value)
        returned = [self._evaluate(text, names) for text in facts.returned]
        if returned and all(same(returned[0], each) for each in returned) and len(function.name) > SHORT:
            self._keep(self.known.results, function.name, returned[0])
        self._arguments(function, names)

    def _keep(self, table: dict[str, Value], name: str, value: Value) -> None:
        """Keep a name for all files, where its value says the architecture whole."""
        if any(same(value, whole) for whole in self._wholes) and name not in (_PAIR_PARTS | self.known.common):
            table.setdefault(name, value)

    def _is_concerned(self, file: CppFile, function: CppFunction) -> bool:
        """Tell whether a function mentions anything that may depend on the architecture."""
        if function.asks or not function.words.isdisjoint(self._properties(file)):
            return True
        return self._words.concern(function)

    def _properties(self, file: CppFile) -> dict[str, Value]:
        """Return the device properties that a file declares, wherever it does."""
        if file not in self._declared:
            pair = varying((arch.major, arch.minor) for arch in self.archs)
            self._declared[file] = dict.fromkeys(file.properties, pair)
        return self._declared[file]

    def _names(self, file: CppFile, function: CppFunction) -> dict[str, Value]:
        """Return the names of a function that depend on the architecture."""
        names = dict(self._properties(file))
        for index, parameter in enumerate(function.parameters):
            value = self.known.arguments.get((function.name, index, len(function.parameters)))
            if isinstance(value, Varying):
                names[parameter] = value
        for name, part in function.facts.attributes:
            names[name] = varying(a.major if part == "major" else a.minor for a in self.archs)
        for first, second, text in function.facts.pairs:
            pair = per_arch(self._evaluate(text, names), len(self.archs))
            if all(isinstance(each, tuple) and len(each) == 2 for each in pair):
                names[first], names[second] = varying(p[0] for p in pair), varying(p[1] for p in pair)
        for name, text in function.facts.assigned:
            value = self._evaluate(text, names)
            if isinstance(value, Varying) and not holds_unknown(value.values):
                names[name] = value if name not in names else join(names[name], value, text=name)
        return names

    def _evaluate(self, text: str, names: dict[str, Value]) -> Value:
        words = set(_NAME.findall(text))
        if len(text) > 400 or (words.isdisjoint(names) and words.isdisjoint(self._words.mentions)):
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
        for called, arguments in function.facts.calls:
            if called == function.name:
                continue
            for index, argument in enumerate(arguments):
                if len(argument) < 80 and not interesting.isdisjoint(_NAME.findall(argument)):
                    value = self._evaluate(argument, names)
                    if any(same(value, whole) for whole in self._wholes):
                        self.known.arguments.setdefault((called, index, len(arguments)), value)

    def _gates(self, file: CppFile) -> Iterator[Gate]:
        for function in file.syntax.functions:
            if function.is_kernel or not self._is_concerned(file, function):
                continue
            names = self._names(file, function)
            words = {*names, *self.known.members, *self.known.results}
            if function.words.isdisjoint(words):
                continue
            text = enumerate(function.text.split("\n"), function.first)
            lines = [number for number, line in text if not words.isdisjoint(_NAME.findall(line))]
            for condition in conditions_in(function) if lines else ():
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
