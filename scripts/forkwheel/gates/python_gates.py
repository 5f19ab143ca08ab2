"""Find the gates of Python sources; nothing is imported or run."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from forkwheel.gates.arch import Arch
from forkwheel.gates.discover import discover
from forkwheel.gates.frame import Live
from forkwheel.gates.interpret import Interpreter
from forkwheel.gates.lists import declared_list
from forkwheel.gates.model import DEPENDS, NO, YES, Gate, Place
from forkwheel.gates.modules import Module, Modules
from forkwheel.gates.objects import Bound, ClassRef, FunctionRef, Partial, Scope
from forkwheel.gates.syntax import (
    bound_names,
    called_names,
    expressions_in,
    functions_of,
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
_ROUNDS = 3


@dataclass(frozen=True)
class PythonFindings:
    """What was found in the Python sources: gates, files that do not parse, and the interpreter."""

    gates: tuple[Gate, ...]
    failures: tuple[str, ...]
    interpreter: Interpreter


def find_python_gates(
    texts: Mapping[str, Mapping[str, str]], *, archs: tuple[Arch, ...], target: Arch, references: tuple[Arch, ...]
) -> PythonFindings:
    """Find the gates in the Python files of some trees (text by root and path)."""
    interpreter = Interpreter(Modules(texts), archs)
    discover(interpreter)
    recorder = Recorder(interpreter, tuple(archs.index(arch) for arch in (target, *references)))
    recorder.run()
    failures = [failure for module in interpreter.modules.all for failure in module.failures]
    gates = sorted(recorder.found.values(), key=lambda gate: (gate.place, gate.first, gate.condition))
    return PythonFindings(tuple(gates), tuple(failures), interpreter)


class Recorder:
    """Visits every statement that mentions something architectural and keeps what differs."""

    def __init__(self, interpreter: Interpreter, concerned: tuple[int, ...]) -> None:
        self.interpreter = interpreter
        self.concerned = concerned  # the target's place among the architectures, and the references'
        self.found: dict[tuple[str, str, int, int], Gate] = {}

    def run(self) -> None:
        """Visit modules, then again the functions that were called with something architectural."""
        for module in self.interpreter.modules.all:
            if not module.words.isdisjoint(self.interpreter.hot):
                self._module(module)
        done: dict[tuple[str, str], Value] = {}
        for _ in range(_ROUNDS):
            fresh = {key: value for key, value in self.interpreter.passed.items() if not same(done.get(key), value)}
            done.update(fresh)
            for key in sorted({function for function, _ in fresh}):
                self._again(key)

    def _module(self, module: Module) -> None:
        scope = Scope(module, {}, key=f"{module.name}:")
        self._top(module.tree.body, scope)

    def _top(self, body: list[ast.stmt], scope: Scope) -> None:
        everywhere = (True,) * len(self.interpreter.archs)
        for node in body:
            if isinstance(node, ast.ClassDef):
                self._class(node, scope)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._function(FunctionRef(scope.module, node, f"{scope.module.name}:{node.name}"), scope)
            else:
                self.visit(node, scope, everywhere)
                for name in ("body", "orelse", "finalbody"):
                    self._top(getattr(node, name, []), scope)
                for handler in getattr(node, "handlers", []):
                    self._top(handler.body, scope)

    def _class(self, node: ast.ClassDef, scope: Scope) -> None:
        cls = ClassRef(scope.module, node)
        inner = Scope(scope.module, {}, owner=cls, key=f"{scope.module.name}:{node.name}")
        for child in node.body:
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                key = f"{scope.module.name}:{node.name}.{child.name}"
                self._function(FunctionRef(scope.module, child, key, owner=cls), inner)
            elif isinstance(child, ast.ClassDef):
                self._class(child, scope)
            else:
                self.visit(child, inner, (True,) * len(self.interpreter.archs))

    def _function(self, function: FunctionRef, scope: Scope) -> None:
        node = function.node
        assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for decorator in node.decorator_list:
            self.scan(decorator, scope, f"{function.key}")
        passed = any(key == function.key for key, _ in self.interpreter.passed)
        if not self.interpreter.is_hot(node, function.module) and not passed:
            return
        names = self.interpreter.parameters(function)
        inner = Scope(scope.module, names, function.outer, function.owner, function.key)
        self.interpreter.body(node, inner, function.key, visitor=self.visit)

    def _again(self, key: str) -> None:
        module = self.interpreter.modules.by_name.get(key.partition(":")[0])
        if module is None:
            return
        for function in functions_of(module):
            if function.key == key:
                self._function(function, Scope(module, {}, owner=function.owner, key=key))

    def visit(self, node: ast.stmt, scope: Scope, live: Live) -> None:
        """Look at the expressions of one statement, whose inner statements are visited apart."""
        if not any(live[i] for i in self.concerned):
            return
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._function(FunctionRef(scope.module, node, f"{scope.key}.{node.name}", scope.owner, scope), scope)
        elif isinstance(node, (ast.If, ast.While)):
            refuses = isinstance(node, ast.If) and is_way_out(node.body) and not node.orelse
            guarded = tuple(sorted(bound_names(node) | called_names(node)))
            holds = outcome_of(node)
            self.scan(node.test, scope, scope.key, test=True, refuses=refuses, holds=holds, guarded=guarded)
        elif isinstance(node, ast.Assert):
            self.scan(node.test, scope, scope.key, test=True, holds="an assertion")
        else:
            stored = tuple(sorted(bound_names(node)))
            holds = (
                "a result" if isinstance(node, ast.Return) else f"the value of {', '.join(stored)}" if stored else ""
            )
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.scan(child, scope, scope.key, holds=holds, guarded=stored)

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
