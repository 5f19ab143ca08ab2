"""Run the functions of Python sources for every architecture at once, without importing them.

Both ways are taken at a condition that is not decided, and what they leave is joined.
"""

from __future__ import annotations

import ast

from forkwheel.gates.frame import Frame, Live, Visitor
from forkwheel.gates.hot import span
from forkwheel.gates.modules import Module
from forkwheel.gates.objects import ClassRef, External, Function, FunctionRef, Scope
from forkwheel.gates.patterns import Patterns, all_of
from forkwheel.gates.values import (
    Unknown,
    Value,
    Varying,
    holds_unknown,
    is_word,
    join,
    lift,
    per_arch,
    truth,
    varying,
)

_MOST_TURNS = 24
_SIMPLE = (ast.Constant, ast.Name, ast.List, ast.Tuple, ast.Set, ast.Dict)
_GROWING = frozenset({"add", "append"})


class Interpreter(Patterns):
    """Runs statements; expressions and calls are its bases'."""

    def body(self, node: Function, scope: Scope, text: str, visitor: Visitor | None = None) -> Value:
        """Run a function's body and return what it returns."""
        if isinstance(node, ast.Lambda):
            return self.evaluate(node.body, scope)
        frame = Frame(len(self.archs), text, visitor=visitor)
        live = self.block(node.body, scope, (True,) * len(self.archs), frame)
        return frame.result(live)

    def block(self, body: list[ast.stmt], scope: Scope, live: Live, frame: Frame) -> Live:
        """Run statements; return for which architectures the end is reached."""
        for node in body:
            if not any(live):
                break
            if frame.visitor is not None:
                frame.visitor(node, scope, live)
            handler = self.handler("do_", node)
            if handler is not None:
                live = handler(node, scope, live, frame)
        return live

    def do_return(self, node: ast.Return, scope: Scope, live: Live, frame: Frame) -> Live:
        """Leave the function."""
        frame.leave(self.evaluate(node.value, scope) if node.value else None, live)
        return (False,) * len(live)

    def do_raise(self, node: ast.Raise, scope: Scope, live: Live, frame: Frame) -> Live:
        """Leave the function without a value."""
        return (False,) * len(live)

    do_continue = do_break = do_raise

    def do_assert(self, node: ast.Assert, scope: Scope, live: Live, frame: Frame) -> Live:
        """Go on where the assertion may hold."""
        tests = per_arch(lift(truth, self.evaluate(node.test, scope)), len(live))
        return tuple(alive and test is not False for alive, test in zip(live, tests, strict=True))

    def do_assign(self, node: ast.Assign, scope: Scope, live: Live, frame: Frame) -> Live:
        """Bind every target."""
        value = self.settle(node.value, scope)
        for target in node.targets:
            self.assign(target, value, scope)
        return live

    def do_annassign(self, node: ast.AnnAssign, scope: Scope, live: Live, frame: Frame) -> Live:
        """Bind the target where there is a value."""
        if node.value is not None:
            self.assign(node.target, self.settle(node.value, scope), scope)
        return live

    def settle(self, node: ast.expr, scope: Scope) -> Value:
        """Evaluate an expression, unless nothing architectural can come of it."""
        if scope.eager or isinstance(node, _SIMPLE) or not self.is_cold(node, scope):
            return self.evaluate(node, scope)
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            cls = self.evaluate(node.func, scope)
            if isinstance(cls, ClassRef):
                return self.construct(cls, [], {}, scope.module.source(node))
            if isinstance(cls, External) and cls.name.startswith("builtins."):
                return self.evaluate(node, scope)
        return Unknown(scope.module.source(node))

    def is_cold(self, node: ast.AST, scope: Scope) -> bool:
        """Tell whether a node mentions nothing that may depend on the architecture here."""
        if self.is_hot(node, scope.module):
            return False
        first, last = span(node)
        inner: Scope | None = scope
        while inner is not None:
            for name in [name for name, value in inner.names.items() if value.__class__ is Varying]:
                if scope.module.mentions(name.rpartition(".")[2], first, last):
                    return False
            inner = inner.outer
        return True

    def do_augassign(self, node: ast.AugAssign, scope: Scope, live: Live, frame: Frame) -> Live:
        """Bind the target to the operator's result."""
        if self.is_cold(node, scope):
            self.assign(node.target, Unknown(scope.module.source(node.target)), scope)
            return live
        load = ast.copy_location(ast.BinOp(_loaded(node.target), node.op, node.value), node)
        self.assign(node.target, self.evaluate(load, scope), scope)
        return live

    def do_expr(self, node: ast.Expr, scope: Scope, live: Live, frame: Frame) -> Live:
        """Evaluate for what it does: growing a list or a set is all that is followed."""
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _GROWING:
            self._grow(call.func, call.args, scope)
        elif isinstance(call, ast.Call) and not self.is_cold(call, scope):
            self.evaluate(call, scope)
        return live

    def _grow(self, target: ast.Attribute, arguments: list[ast.expr], scope: Scope) -> None:
        if len(arguments) != 1 or not isinstance(target.value, (ast.Name, ast.Attribute)):
            return
        collection, item = self.evaluate(target.value, scope), self.evaluate(arguments[0], scope)
        if not isinstance(collection, (list, set, frozenset, Varying)):
            return
        if holds_unknown(item):  # what is known to be in it stays; otherwise even its length is unknown
            if not isinstance(collection, Varying):
                self.assign(target.value, Unknown(scope.module.source(target.value)), scope)
            return
        self.assign(target.value, lift(_grown, collection, item), scope)

    def do_if(self, node: ast.If, scope: Scope, live: Live, frame: Frame) -> Live:
        """Go both ways where it is not decided, each for the architectures that may go there."""
        tests = per_arch(lift(truth, self.evaluate(node.test, scope)), len(live))
        yes = tuple(alive and test is not False for alive, test in zip(live, tests, strict=True))
        no = tuple(alive and test is not True for alive, test in zip(live, tests, strict=True))
        before = dict(scope.names)
        yes_end = self.block(node.body, scope, yes, frame)
        yes_names = dict(scope.names)
        scope.names.clear()
        scope.names.update(before)
        no_end = self.block(node.orelse, scope, no, frame)
        self._merge(scope, yes_names, yes_end, no_end)
        return tuple(a or b for a, b in zip(yes_end, no_end, strict=True))

    def do_match(self, node: ast.Match, scope: Scope, live: Live, frame: Frame) -> Live:
        """Go into every case that may be taken, as along a chain of `if` and `elif`."""
        subject = self.settle(node.subject, scope)
        before = dict(scope.names)
        ends: list[tuple[dict[str, Value], Live]] = []
        for case in node.cases:
            tests = per_arch(all_of(*self.case(case, subject, scope)), len(live))
            taken = tuple(alive and test is not False for alive, test in zip(live, tests, strict=True))
            end = self.block(case.body, scope, taken, frame)
            ends.append((dict(scope.names), end))
            live = tuple(alive and test is not True for alive, test in zip(live, tests, strict=True))
            scope.names.clear()
            scope.names.update(before)
        for names, end in reversed(ends):
            self._merge(scope, names, end, live)
            live = tuple(a or b for a, b in zip(live, end, strict=True))
        return live

    def _merge(self, scope: Scope, yes_names: dict[str, Value], yes: Live, no: Live) -> None:
        if not any(no):
            scope.names.clear()
            scope.names.update(yes_names)
            return
        if not any(yes):
            return
        for name, value in yes_names.items():
            other = scope.names.get(name, Unknown(name))
            if other is not value:
                scope.names[name] = self._merged(name, value, other, yes, no)

    def _merged(self, name: str, value: Value, other: Value, yes: Live, no: Live) -> Value:
        if is_word(value) and is_word(other):
            return Unknown(name)
        joined = per_arch(join(value, other, text=name), len(yes))
        ours, theirs = per_arch(value, len(yes)), per_arch(other, len(yes))
        return varying(joined[i] if yes[i] and no[i] else ours[i] if yes[i] else theirs[i] for i in range(len(yes)))

    def do_for(self, node: ast.For, scope: Scope, live: Live, frame: Frame) -> Live:
        """Take every turn of a short known sequence, and one of any other."""
        items = self.settle(node.iter, scope)
        known = isinstance(items, (tuple, list)) and len(items) <= _MOST_TURNS
        for item in items if known else [Unknown(f"an item of {scope.module.source(node.iter)}")]:
            self.assign(node.target, item, scope)
            self._maybe(node.body, scope, live, frame)
        return live

    def do_while(self, node: ast.While, scope: Scope, live: Live, frame: Frame) -> Live:
        """Take one turn."""
        self._maybe(node.body, scope, live, frame)
        return live

    def _maybe(self, body: list[ast.stmt], scope: Scope, live: Live, frame: Frame) -> None:
        before = dict(scope.names)
        end = self.block(body, scope, live, frame)
        after = dict(scope.names)
        scope.names.clear()
        scope.names.update(before)
        self._merge(scope, after, end if any(end) else live, live)
        scope.names.update({name: value for name, value in after.items() if isinstance(value, Varying)})

    def do_with(self, node: ast.With, scope: Scope, live: Live, frame: Frame) -> Live:
        """Run the body."""
        for item in node.items:
            if item.optional_vars is not None:
                self.assign(item.optional_vars, Unknown(scope.module.source(item.context_expr)), scope)
        return self.block(node.body, scope, live, frame)

    do_asyncwith = do_with

    def do_try(self, node: ast.Try, scope: Scope, live: Live, frame: Frame) -> Live:
        """Run the body as if nothing failed, and the handlers only for what is in them."""
        live = self.block([*node.body, *node.orelse], scope, live, frame)
        kept = dict(scope.names)
        for handler in node.handlers:
            quiet = Frame(len(self.archs), frame.text, visitor=frame.visitor)
            self.block(handler.body, scope, (True,) * len(live), quiet)
            scope.names.clear()
            scope.names.update(kept)
        return self.block(node.finalbody, scope, live, frame) if node.finalbody else live

    def do_functiondef(self, node: ast.FunctionDef, scope: Scope, live: Live, frame: Frame) -> Live:
        """Bind a nested function."""
        scope.names[node.name] = FunctionRef(scope.module, node, f"{scope.key}.{node.name}", scope.owner, scope)
        return live

    def do_import(self, node: ast.Import | ast.ImportFrom, scope: Scope, live: Live, frame: Frame) -> Live:
        """Bind what is imported inside a function."""
        for name, target in imported(scope.module, node):
            scope.names[name] = self.dotted(target)
        return live

    do_importfrom = do_import


def imported(module: Module, node: ast.Import | ast.ImportFrom) -> list[tuple[str, str]]:
    """Return what an import statement binds: names and the dotted names that they mean."""
    if isinstance(node, ast.Import):
        return [(a.asname or a.name.split(".")[0], a.name if a.asname else a.name.split(".")[0]) for a in node.names]
    base = module.absolute(node.module, node.level)
    return [(alias.asname or alias.name, f"{base}.{alias.name}") for alias in node.names if alias.name != "*"]


def _loaded(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(target.id, ast.Load()), target)
    if isinstance(target, ast.Attribute):
        return ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
    return target


def _grown(collection: Value, item: Value) -> Value:
    if isinstance(collection, list):
        return [*collection, item]
    try:
        return frozenset(collection) | {item}
    except TypeError:
        return collection
