"""Find the gates of Python sources; nothing is imported or run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from forkwheel.gates.arch import universe
from forkwheel.gates.discover import Discovery
from forkwheel.gates.frame import Live
from forkwheel.gates.hot import span
from forkwheel.gates.interpret import Interpreter
from forkwheel.gates.model import Gate, Question
from forkwheel.gates.modules import Module, Modules
from forkwheel.gates.objects import ClassRef, FunctionRef, Scope
from forkwheel.gates.scanner import Scanner
from forkwheel.gates.syntax import (
    bound_names,
    called_names,
    is_way_out,
    outcome_of,
)
from forkwheel.gates.values import (
    Value,
    same,
)

_ROUNDS = 3
_DEFINING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class PythonFindings:
    """What was found in the Python sources: gates, files that do not parse, and the interpreter."""

    gates: tuple[Gate, ...]
    failures: tuple[str, ...]
    interpreter: Interpreter


def find_python_gates(modules: Modules, question: Question) -> PythonFindings:
    """Find the gates in the Python files of some trees."""
    archs = universe(question.target, question.references)
    interpreter = Interpreter(modules, archs)
    Discovery(interpreter).extend(modules.all)
    recorder = Recorder(interpreter, tuple(archs.index(arch) for arch in (question.target, *question.references)))
    recorder.run()
    failures = [failure for module in interpreter.modules.all for failure in module.failures]
    return PythonFindings(recorder.gates, tuple(failures), interpreter)


class Recorder(Scanner):
    """Visits every statement that mentions something architectural."""

    @property
    def gates(self) -> tuple[Gate, ...]:
        """What was found, in order."""
        return tuple(sorted(self.found.values(), key=lambda gate: (gate.place, gate.first, gate.condition)))

    def run(self) -> None:
        """Visit modules, then again the functions that were called with something architectural."""
        for module in self.interpreter.modules.all:
            if not module.words.isdisjoint(self.interpreter.hot):
                self._module(module)
        self._passed_on(self._again)

    def run_path(self, functions: Iterable[str], variables: Iterable[tuple[Module, str]]) -> None:
        """Visit some functions, and the statements that define some variables."""
        keys = set(functions)
        for key in sorted(keys):
            self._again(key)
        for module in dict.fromkeys(module for module, _ in variables):
            names = [name for each, name in variables if each is module]
            body = [node for node in module.tree.body if any(module.mentions(name, *span(node)) for name in names)]
            plain = [node for node in body if not isinstance(node, _DEFINING)]
            self._top(plain, Scope(module, {}, key=f"{module.name}:"))
        self._passed_on(lambda key: self._again(key) if key in keys else None)

    def _passed_on(self, again: Callable[[str], None]) -> None:
        """Visit functions once more that were called with something architectural."""
        done: dict[tuple[str, str], Value] = {}
        for _ in range(_ROUNDS):
            fresh = {key: value for key, value in self.interpreter.passed.items() if not same(done.get(key), value)}
            done.update(fresh)
            for key in sorted({function for function, _ in fresh}):
                again(key)

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
                for inner in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
                    self._top(inner.body, scope)

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
        for function in self.interpreter.functions_of(module):
            if function.key == key:
                self._function(function, Scope(module, {}, owner=function.owner, key=key))

    def visit(self, node: ast.stmt, scope: Scope, live: Live) -> None:
        """Look at the expressions of one statement, whose inner statements are visited apart."""
        self.interpreter.renew()
        if not any(live[i] for i in self.concerned):
            return
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._function(FunctionRef(scope.module, node, f"{scope.key}.{node.name}", scope.owner, scope), scope)
            return
        if isinstance(node, ast.Match):
            self.scan_cases(node, scope, live)
            return
        if self.interpreter.is_cold(node.test if isinstance(node, (ast.If, ast.While)) else node, scope):
            return
        if isinstance(node, (ast.If, ast.While)):
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
