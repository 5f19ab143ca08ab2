"""Find the conditions of Python expressions whose outcome differs between architectures."""

from __future__ import annotations

import ast

from forkwheel.gates.interpret import Interpreter
from forkwheel.gates.lists import declared_list
from forkwheel.gates.model import DEPENDS, NO, YES, Gate, Place
from forkwheel.gates.objects import Bound, FunctionRef, Partial, Scope
from forkwheel.gates.syntax import (
    expressions_in,
    given_arguments,
)
from forkwheel.gates.values import (
    Unknown,
    Value,
    Varying,
    holds_unknown,
    is_raised,
    is_single,
    lift,
    negate,
    per_arch,
    same,
    truth,
)

_LOGIC = (ast.Compare, ast.BoolOp)


class Scanner:
    """Looks for conditions within expressions and keeps those that differ."""

    def __init__(self, interpreter: Interpreter, concerned: tuple[int, ...]) -> None:
        self.interpreter = interpreter
        self.concerned = concerned  # the target's place among the architectures, and the references'
        self.found: dict[tuple[str, str, int, int], Gate] = {}

    def scan(
        self,
        node: ast.expr,
        scope: Scope,
        symbol: str,
        *,
        test: bool = False,
        refuses: bool = False,
        holds: str = "",
        guarded: tuple[str, ...] = (),
    ) -> None:
        """Record the largest conditions within an expression that differ."""
        if self.interpreter.is_cold(node, scope):
            return
        value = self.interpreter.evaluate(node, scope)
        if isinstance(value, Varying) and self._is_condition(node, value, test, scope):
            decided = lift(truth, value)
            self._record(node, lift(negate, decided) if refuses else decided, scope, symbol, holds, guarded)
            return
        if isinstance(node, ast.Call):
            self._lists(node, scope, symbol)
            if holds.startswith("the value") and self._alias(node, value, scope, symbol, guarded):
                return
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            self._filters(node, scope, symbol, guarded)
        for child in expressions_in(node):
            if isinstance(node, (ast.BoolOp, ast.UnaryOp)) and self._is_open(child, scope):
                continue
            is_test = isinstance(node, ast.IfExp) and child is node.test
            is_test = is_test or isinstance(node, (ast.BoolOp, ast.UnaryOp))
            self.scan(child, scope, symbol, test=is_test, holds=holds or "a choice of a value", guarded=guarded)

    def _filters(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, scope: Scope, symbol: str, guarded: tuple[str, ...]
    ) -> None:
        """Look at the conditions of a comprehension over a collection that holds one architecture."""
        for generator in node.generators:
            source = self.interpreter.evaluate(generator.iter, scope)
            if not isinstance(source, Varying) or not all(is_single(each) for each in source.values):
                continue
            inner = Scope(scope.module, {}, scope, scope.owner, scope.key, scope.depth)
            item = lift(lambda items: next(iter(items)), source)
            self.interpreter.assign(generator.target, item, inner)
            for test in generator.ifs:
                self.scan(test, inner, symbol, test=True, holds="a filter", guarded=guarded)

    def _alias(self, node: ast.expr, value: Value, scope: Scope, symbol: str, guarded: tuple[str, ...]) -> bool:
        """Record a definition of a predicate: something that is called later and then differs."""
        if not isinstance(value, Partial):
            return False
        result = lift(truth, self.interpreter.call(value, [], {}, scope, scope.module.source(node)))
        if self._differs(result):
            self._record(node, result, scope, symbol, "a predicate", guarded)
        return True

    def _differs(self, value: Value) -> bool:
        return isinstance(value, Varying)

    def _is_condition(self, node: ast.expr, value: Varying, test: bool, scope: Scope) -> bool:
        decided = (
            [each for each in lift(truth, value).values if not is_raised(each)]
            if self._differs(lift(truth, value))
            else []
        )
        if not decided or all(same(decided[0], each) for each in decided[1:]):
            return False
        if all(isinstance(truth(each), Unknown) for each in value.values):
            return isinstance(node, ast.Compare) and self._compares_arch(node, scope)
        if test or isinstance(node, _LOGIC) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
            return True
        values = value.values
        plain = all(isinstance(each, (bool, Unknown)) for each in values) and any(isinstance(e, bool) for e in values)
        return plain and isinstance(node, (ast.Call, ast.Attribute, ast.Subscript))

    def _is_open(self, node: ast.expr, scope: Scope) -> bool:
        """Tell whether an operand differs while the whole admits all, on one condition or another."""
        if isinstance(node, ast.Compare) and self._compares_arch(node, scope):
            value = self.interpreter.evaluate(node, scope)
            return isinstance(value, Varying) and not all(isinstance(each, Unknown) for each in value.values)
        return isinstance(self.interpreter.evaluate(node, scope), Varying)

    def _compares_arch(self, node: ast.Compare, scope: Scope) -> bool:
        """Tell whether one side is known for every architecture, and the other is not."""
        sides = [self.interpreter.evaluate(side, scope) for side in (node.left, *node.comparators)]
        return any(isinstance(side, Varying) and not holds_unknown(side.values) for side in sides)

    def _record(
        self, node: ast.expr, value: Value, scope: Scope, symbol: str, holds: str, guarded: tuple[str, ...]
    ) -> None:
        atom, others = self._atom(node, scope)
        states = per_arch(value, len(self.interpreter.archs))
        kind = "condition"
        if all(isinstance(state, Unknown) for state in states):
            kind = "undecided"
        elif holds == "a predicate" or holds.startswith("the value"):
            kind = "definition"
        elif holds == "a result":
            kind = "result"
        self._keep(node, atom, scope, symbol, kind, states, tuple(others), holds, guarded)

    def _keep(
        self,
        node: ast.expr,
        atom: ast.expr,
        scope: Scope,
        symbol: str,
        kind: str,
        states: tuple[Value, ...],
        others: tuple[str, ...],
        holds: str,
        guarded: tuple[str, ...],
    ) -> None:
        module = scope.module
        names = [DEPENDS if isinstance(s, Unknown) else YES if s else NO for s in states]
        gate = Gate(
            place=Place(module.root, module.path, atom.lineno),
            first=node.lineno,
            last=node.end_lineno or node.lineno,
            kind=kind,
            condition=module.source(atom),
            admits=tuple(zip(self.interpreter.archs, names, strict=True)),
            others=others,
            symbol=symbol,
            holds=holds,
            guarded=guarded,
        )
        self.found[(module.root, module.path, atom.lineno, atom.col_offset)] = gate

    def _atom(self, node: ast.expr, scope: Scope) -> tuple[ast.expr, list[str]]:
        """Return the part that depends on the architecture, and the conditions beside it."""
        others: list[str] = []
        while True:
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
                node = node.operand
                continue
            if not isinstance(node, ast.BoolOp):
                return node, others
            parts = [part for part in node.values if isinstance(self.interpreter.evaluate(part, scope), Varying)]
            if len(parts) != 1:
                return node, others
            others += [scope.module.source(part) for part in node.values if part is not parts[0]]
            node = parts[0]

    def _lists(self, node: ast.Call, scope: Scope, symbol: str) -> None:
        """Record arguments that list architectures."""
        function = self.interpreter.evaluate(node.func, scope)
        plain = function.function if isinstance(function, Bound) else function
        if not isinstance(plain, FunctionRef):
            return
        for name, argument in given_arguments(plain, node, bound=isinstance(function, Bound)):
            collection = self.interpreter.evaluate(argument, scope)
            looked_for = self.interpreter.memberships.get((plain.key, name)) or declared_list(
                name, collection, self.interpreter.archs
            )
            if looked_for is None or not isinstance(collection, (list, tuple, set, frozenset, dict)):
                continue
            states = tuple(each in collection for each in looked_for.values)
            if self._differs(Varying(states)):
                self._keep(argument, argument, scope, symbol, "list", states, (), f"{plain.key.partition(':')[2]}", ())
