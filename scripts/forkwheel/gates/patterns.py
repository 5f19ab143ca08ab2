"""Tell for every architecture whether the patterns of a `match` statement match."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Callable

from forkwheel.gates import operators
from forkwheel.gates.calls import Caller
from forkwheel.gates.objects import ClassRef, External, Instance, Scope
from forkwheel.gates.values import Unknown, Value, conjunction, holds_unknown, lift, truth

_PLAIN = {"bool": bool, "dict": dict, "float": float, "int": int, "list": list, "str": str, "tuple": tuple}


class Patterns(Caller):
    """Matches values against patterns, binding what a pattern captures."""

    def case(self, case: ast.match_case, subject: Value, scope: Scope) -> tuple[Value, Value]:
        """Tell whether a case's pattern matches, and whether its guard holds then; bind its names."""
        matched = self._matches(case.pattern, subject, scope)
        return matched, True if case.guard is None else lift(truth, self.settle(case.guard, scope))

    @abstractmethod
    def settle(self, node: ast.expr, scope: Scope) -> Value:
        """Evaluate an expression, unless nothing architectural can come of it."""

    def _matches(self, pattern: ast.pattern, value: Value, scope: Scope) -> Value:
        handler: Callable[[ast.pattern, Value, Scope], Value] | None = self.handler("_as_", pattern)
        return handler(pattern, value, scope) if handler else self._open(pattern, scope)

    def _open(self, pattern: ast.pattern, scope: Scope) -> Unknown:
        return Unknown(f"case {scope.module.source(pattern)}")

    def _as_matchvalue(self, pattern: ast.MatchValue, value: Value, scope: Scope) -> Value:
        return lift(lambda a, b: operators.compare(ast.Eq, a, b), value, self.evaluate(pattern.value, scope))

    def _as_matchsingleton(self, pattern: ast.MatchSingleton, value: Value, scope: Scope) -> Value:
        return lift(lambda each: operators.compare(ast.Is, each, pattern.value), value)

    def _as_matchas(self, pattern: ast.MatchAs, value: Value, scope: Scope) -> Value:
        matched = True if pattern.pattern is None else self._matches(pattern.pattern, value, scope)
        if pattern.name is not None:
            scope.names[pattern.name] = value
        return matched

    def _as_matchor(self, pattern: ast.MatchOr, value: Value, scope: Scope) -> Value:
        ways = [self._matches(each, value, scope) for each in pattern.patterns]
        return lift(lambda *each: truth(conjunction(each, every=False)), *ways)

    def _as_matchsequence(self, pattern: ast.MatchSequence, value: Value, scope: Scope) -> Value:
        stars = [index for index, each in enumerate(pattern.patterns) if isinstance(each, ast.MatchStar)]
        parts = len(pattern.patterns) - len(stars)
        tests = [lift(lambda each: self._has_length(each, parts, bool(stars), pattern, scope), value)]
        for index, part in enumerate(pattern.patterns):
            if isinstance(part, ast.MatchStar):
                if part.name is not None:
                    scope.names[part.name] = Unknown(part.name)
                continue
            place = index - len(pattern.patterns) if stars and index > stars[0] else index
            text = scope.module.source(part)
            item = lift(lambda each, i=place, t=text: operators.subscript(each, i, t), value)
            tests.append(self._matches(part, item, scope))
        return all_of(*tests)

    def _has_length(self, value: Value, parts: int, more: bool, pattern: ast.pattern, scope: Scope) -> Value:
        if isinstance(value, (tuple, list)):
            return len(value) >= parts if more else len(value) == parts
        return self._open(pattern, scope) if holds_unknown(value) else False

    def _as_matchmapping(self, pattern: ast.MatchMapping, value: Value, scope: Scope) -> Value:
        tests: list[Value] = [lift(lambda each: self._is_mapping(each, pattern, scope), value)]
        for key_node, part in zip(pattern.keys, pattern.patterns, strict=True):
            key, text = self.evaluate(key_node, scope), scope.module.source(part)
            tests.append(lift(lambda each, k: operators.compare(ast.In, k, each), value, key))
            item = lift(lambda each, k, t=text: operators.subscript(each, k, t), value, key)
            tests.append(self._matches(part, item, scope))
        if pattern.rest is not None:
            scope.names[pattern.rest] = Unknown(pattern.rest)
        return all_of(*tests)

    def _is_mapping(self, value: Value, pattern: ast.pattern, scope: Scope) -> Value:
        return True if isinstance(value, dict) else self._open(pattern, scope) if holds_unknown(value) else False

    def _as_matchclass(self, pattern: ast.MatchClass, value: Value, scope: Scope) -> Value:
        cls = self.evaluate(pattern.cls, scope)
        fields = self._fields(cls)
        tests = [lift(lambda each: self._is_instance(each, cls, pattern, scope), value)]
        for index, part in enumerate(pattern.patterns):
            name = fields[index] if index < len(fields) else ""
            item = value if _plain(cls) else self._part(value, name, fields, part, scope)
            tests.append(self._matches(part, item, scope))
        for name, part in zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True):
            tests.append(self._matches(part, self._part(value, name, fields, part, scope), scope))
        return all_of(*tests)

    def _fields(self, cls: Value) -> tuple[str, ...]:
        """Name the attributes that a class's positional patterns mean."""
        if not isinstance(cls, ClassRef):
            return ()
        return tuple(
            node.target.id
            for node in cls.node.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        )

    def _part(self, value: Value, name: str, fields: tuple[str, ...], part: ast.pattern, scope: Scope) -> Value:
        text = scope.module.source(part)

        def take(each: Value) -> Value:
            if isinstance(each, tuple):  # a named tuple is kept as a plain one
                return operators.subscript(each, fields.index(name), text) if name in fields else Unknown(text)
            return self.attribute(each, name, scope, text) if name else Unknown(text)

        return lift(take, value)

    def _is_instance(self, value: Value, cls: Value, pattern: ast.pattern, scope: Scope) -> Value:
        if (plain := _plain(cls)) is not None:
            return self._open(pattern, scope) if isinstance(value, Unknown) else isinstance(value, plain)
        if isinstance(cls, ClassRef) and isinstance(value, tuple) and len(value) == len(self._fields(cls)):
            return True
        if isinstance(cls, ClassRef) and isinstance(value, Instance) and cls in self.ancestry(value.cls):
            return True
        return self._open(pattern, scope)


def _plain(cls: Value) -> type | None:
    return _PLAIN.get(cls.name.removeprefix("builtins.")) if isinstance(cls, External) else None


def all_of(*tests: Value) -> Value:
    """Join tests for every architecture: all must hold."""
    return lift(lambda *each: truth(conjunction(each, every=True)), *tests)
