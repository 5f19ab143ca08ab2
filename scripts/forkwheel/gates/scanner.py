"""Find the conditions of Python expressions whose outcome differs between architectures."""

from __future__ import annotations

import ast

from forkwheel.gates.frame import Live
from forkwheel.gates.interpret import Interpreter
from forkwheel.gates.lists import declared_list
from forkwheel.gates.model import DEPENDS, NO, YES, Gate, Place
from forkwheel.gates.objects import Bound, FunctionRef, Partial, Scope
from forkwheel.gates.patterns import all_of
from forkwheel.gates.syntax import (
    bound_names,
    called_names,
    expressions_in,
    given_arguments,
    is_way_out,
    outcome_of,
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
        if isinstance(result, Varying):
            self._record(node, result, scope, symbol, "a predicate", guarded)
        return True

    def _is_condition(self, node: ast.expr, value: Varying, test: bool, scope: Scope) -> bool:
        decided = lift(truth, value)
        if not isinstance(decided, Varying) or not self._tells(decided):
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
        self._keep(node, atom, scope, symbol, _kind(states, holds), states, tuple(others), holds, guarded)

    def scan_cases(self, node: ast.Match, scope: Scope, live: Live) -> None:
        """Record the cases of a `match` that differ, but for those that no architecture here comes to."""
        subject = self.interpreter.settle(node.subject, scope)
        if not isinstance(subject, Varying):
            self.scan(node.subject, scope, scope.key, holds="a choice of a value")
        before = dict(scope.names)
        for case in node.cases:
            if not any(live[i] for i in self.concerned):
                return
            matched, guard = self.interpreter.case(case, subject, scope)
            scope.names.clear()
            scope.names.update(before)
            taken = all_of(matched, guard)
            if isinstance(taken, Varying) and self._tells(taken):
                self._record_case(node, case, taken, scope, beside=not isinstance(guard, Varying))
            live = tuple(
                alive and test is not True for alive, test in zip(live, per_arch(taken, len(live)), strict=True)
            )

    def _record_case(self, node: ast.Match, case: ast.match_case, taken: Value, scope: Scope, *, beside: bool) -> None:
        module = scope.module
        condition = f"match {module.source(node.subject)}: case {module.source(case.pattern)}"
        guard = () if case.guard is None else (module.source(case.guard),)
        if guard and not beside:
            condition, guard = f"{condition} if {guard[0]}", ()
        states = per_arch(lift(negate, taken) if is_way_out(case.body) else taken, len(self.interpreter.archs))
        guarded = tuple(sorted(bound_names(case) | called_names(case)))
        place = case.guard or case.pattern
        kind = _kind(states, "")
        self._keep(place, case.pattern, scope, scope.key, kind, states, guard, outcome_of(case), guarded, condition)

    def _tells(self, value: Varying) -> bool:
        """Tell whether those architectures that get this far fare differently."""
        decided = [each for each in value.values if not is_raised(each)]
        return any(not same(decided[0], each) for each in decided[1:])

    def _keep(
        self,
        node: ast.expr | ast.pattern,
        atom: ast.expr | ast.pattern,
        scope: Scope,
        symbol: str,
        kind: str,
        states: tuple[Value, ...],
        others: tuple[str, ...],
        holds: str,
        guarded: tuple[str, ...],
        condition: str | None = None,
    ) -> None:
        module = scope.module
        names = [DEPENDS if isinstance(s, Unknown) else YES if s else NO for s in states]
        gate = Gate(
            place=Place(module.root, module.path, atom.lineno),
            first=min(node.lineno, atom.lineno),
            last=node.end_lineno or node.lineno,
            kind=kind,
            condition=condition or module.source(atom),
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
            self._keep(argument, argument, scope, symbol, "list", states, (), f"{plain.key.partition(':')[2]}", ())


def _kind(states: tuple[Value, ...], holds: str) -> str:
    if all(isinstance(state, Unknown) for state in states):
        return "undecided"
    if holds == "a predicate" or holds.startswith("the value"):
        return "definition"
    return "result" if holds == "a result" else "condition"
