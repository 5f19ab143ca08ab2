"""Run the functions of Python sources for every architecture at once, without importing them.

Both ways are taken at a condition that is not decided, and what they leave is joined.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

from forkwheel.gates.evaluate import Evaluator
from forkwheel.gates.names import span
from forkwheel.gates.modules import Module, Modules
from forkwheel.gates.arch import Arch
from forkwheel.gates.objects import Bound, ClassRef, External, Function, FunctionRef, Instance, Scope
from forkwheel.gates.values import Unknown, Value, Varying, holds_unknown, is_word, join, lift, per_arch, text_of, truth, varying

_DEEPEST = 5
_MOST_TURNS = 24
_SIMPLE = (ast.Constant, ast.Name, ast.List, ast.Tuple, ast.Set, ast.Dict)
_GROWING = frozenset({"add", "append"})

Live = tuple[bool, ...]
Visitor = Callable[[ast.stmt, Scope, Live], None]


@dataclass
class Frame:
    """A function that is being run: what it returned so far, for each architecture."""

    count: int
    text: str
    returns: list[list[Value]] = field(default_factory=list)
    visitor: Visitor | None = None

    def __post_init__(self) -> None:
        self.returns = [[] for _ in range(self.count)]

    def leave(self, value: Value, live: Live) -> None:
        """Record a return value for the architectures that come here."""
        for position, each in enumerate(per_arch(value, self.count)):
            if live[position]:
                self.returns[position].append(each)

    def result(self, live: Live) -> Value:
        """Join what was returned.

        An unknown override does not hide a default that depends on the architecture.
        """
        self.leave(None, live)
        if not any(self.returns):
            return Unknown(f"raised in {self.text}")
        eager = varying(self._joined(_telling(values)) for values in self.returns)
        if isinstance(eager, Varying) and all(map(is_word, eager.values)) and len(set(map(text_of, eager.values))) < 4:
            return Unknown(self.text)  # a choice among words, whose own conditions are the gates
        return eager if isinstance(eager, Varying) else varying(map(self._joined, self.returns))


    def _joined(self, values: list[Value]) -> Value:
        if not values:
            return Unknown(f"raised in {self.text}")
        result = values[0]
        for value in values[1:]:
            result = join(result, value, text=self.text)
        return result


class Interpreter(Evaluator):
    """Evaluates calls of the trees' own functions, and statements."""

    def __init__(self, modules: Modules, archs: tuple[Arch, ...]) -> None:
        super().__init__(modules, archs)
        self.memberships: dict[tuple[str, str], Varying] = {}
        self._looked_for: dict[tuple[str, str], dict[int, Value]] = {}
        self.passed: dict[tuple[str, str], Value] = {}  # arguments that depend on the architecture
        self._results: dict[object, Value] = {}

    def forget(self) -> None:
        """Drop what was evaluated, because more is known to depend on the architecture."""
        super().forget()
        self._results.clear()

    def run(
        self, function: FunctionRef | Bound, arguments: list[Value], keywords: dict[str, Value], scope: Scope, text: str
    ) -> Value:
        """Run a function of the trees that mentions anything architectural; others are unknown."""
        bound = function if isinstance(function, Bound) else None
        plain = bound.function if bound else function
        assert isinstance(plain, FunctionRef)
        names = self._bind(plain, [bound.receiver, *arguments] if bound else arguments, keywords)
        self._note_arguments(plain, names)
        if not self._worth(plain, names):
            return Unknown(text)
        if scope.depth >= _DEEPEST or plain in self._running:
            self.cuts += 1
            return Unknown(text)
        key = (plain.node, repr(sorted((n, _key(v)) for n, v in names.items())))
        if plain.outer is None and key in self._results:
            return self._results[key]
        self._running.add(plain)
        cuts = self.cuts
        try:
            eager = any(isinstance(value, str) for value in names.values())
            inner = Scope(plain.module, names, plain.outer, plain.owner, plain.key, scope.depth + 1, eager)
            result = self.body(plain.node, inner, text)
        finally:
            self._running.discard(plain)
        if cuts == self.cuts:
            self._results[key] = result
        return result

    def _worth(self, function: FunctionRef, names: dict[str, Value]) -> bool:
        if any(isinstance(value, Varying) or value.__class__ in (str, int, bool) for value in names.values()):
            return len(getattr(function.node, "body", [])) < 40 if isinstance(function.node, ast.FunctionDef) else True
        return self.is_hot(function.node, function.module) or _is_small(function.node)

    def _note_arguments(self, function: FunctionRef, names: dict[str, Value]) -> None:
        for name, value in names.items():
            if isinstance(value, Varying):
                key = (function.key, name)
                known = self.passed.get(key, value)
                self.passed[key] = join(known, value, text=name)

    def _bind(self, function: FunctionRef, arguments: list[Value], keywords: dict[str, Value]) -> dict[str, Value]:
        spec = function.node.args
        parameters = [*spec.posonlyargs, *spec.args]
        names: dict[str, Value] = dict(zip([p.arg for p in parameters], arguments, strict=False))
        for parameter in [*parameters, *spec.kwonlyargs]:
            if parameter.arg in keywords:
                names[parameter.arg] = keywords[parameter.arg]
        defaults = [*zip(parameters[len(parameters) - len(spec.defaults) :], spec.defaults, strict=True)]
        defaults += [(p, d) for p, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None]
        scope = Scope(function.module, {}, function.outer, function.owner)
        for parameter, default in defaults:
            if parameter.arg not in names:
                names[parameter.arg] = self.evaluate(default, scope)
        for parameter in [*parameters, *spec.kwonlyargs]:
            names.setdefault(parameter.arg, Unknown(parameter.arg, origin=(function.key, parameter.arg)))
        for extra in (spec.vararg, spec.kwarg):
            if extra:
                names[extra.arg] = Unknown(extra.arg)
        return names

    def parameters(self, function: FunctionRef) -> dict[str, Value]:
        """Bind a function's parameters to what is known of them without a call."""
        spec = function.node.args
        names: dict[str, Value] = {}
        for parameter in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]:
            origin = (function.key, parameter.arg)
            names[parameter.arg] = self.passed.get(origin, Unknown(parameter.arg, origin=origin))
        for extra in (spec.vararg, spec.kwarg):
            if extra:
                names[extra.arg] = Unknown(extra.arg)
        if function.owner is not None and spec.args:
            decorators = function.decorators()
            if "classmethod" in decorators:
                names[spec.args[0].arg] = function.owner
            elif "staticmethod" not in decorators:
                names[spec.args[0].arg] = Instance(function.owner)
        return names

    def body(self, node: Function, scope: Scope, text: str, visitor: Visitor | None = None) -> Value:
        """Run a function's body and return what it returns."""
        if isinstance(node, ast.Lambda):
            return self.evaluate(node.body, scope)
        frame = Frame(len(self.archs), text, visitor=visitor)
        live = self.block(node.body, scope, (True,) * len(self.archs), frame)
        return frame.result(live)

    def stored_attribute(self, cls: ClassRef, node: ast.FunctionDef, name: str, scope: Scope) -> Value:
        """Run a method, and return what it leaves in ``self.NAME``."""
        function = FunctionRef(cls.module, node, f"{cls.module.name}:{cls.name}.{node.name}", owner=cls)
        if scope.depth >= _DEEPEST or function in self._running or not node.args.args:
            self.cuts += 1
            return Unknown(name)
        names = self._bind(function, [Instance(cls)], {})
        inner = Scope(cls.module, names, None, cls, function.key, scope.depth + 1)
        self._running.add(function)
        try:
            self.body(node, inner, name)
        finally:
            self._running.discard(function)
        return names.get(f"{node.args.args[0].arg}.{name}", Unknown(name))

    def block(self, body: list[ast.stmt], scope: Scope, live: Live, frame: Frame) -> Live:
        """Run statements; return for which architectures the end is reached."""
        for node in body:
            if not any(live):
                break
            if frame.visitor is not None:
                frame.visitor(node, scope, live)
            handler = getattr(self, f"do_{type(node).__name__.lower()}", None)
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
        value = self._settle(node.value, scope)
        for target in node.targets:
            self.assign(target, value, scope)
        return live

    def do_annassign(self, node: ast.AnnAssign, scope: Scope, live: Live, frame: Frame) -> Live:
        """Bind the target where there is a value."""
        if node.value is not None:
            self.assign(node.target, self._settle(node.value, scope), scope)
        return live

    def _settle(self, node: ast.expr, scope: Scope) -> Value:
        """Evaluate what is assigned, unless nothing architectural can come of it."""
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
        words = scope.module.words_between(*span(node))
        inner: Scope | None = scope
        while inner is not None:
            for name, value in inner.names.items():
                if isinstance(value, Varying) and name.rpartition(".")[2] in words:
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
        return varying(
            joined[i] if yes[i] and no[i] else ours[i] if yes[i] else theirs[i] for i in range(len(yes))
        )

    def do_for(self, node: ast.For, scope: Scope, live: Live, frame: Frame) -> Live:
        """Take every turn of a short known sequence, and one of any other."""
        items = self._settle(node.iter, scope)
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


def _telling(values: list[Value]) -> list[Value]:
    """Leave out what is unknown, and the None that stands for no device, where there is more."""
    known = [value for value in values if not holds_unknown(value)] or values
    plain = any(type(value) in (tuple, int) for value in known)
    return [value for value in known if value is not None] if plain else known


def _key(value: Value) -> object:
    if isinstance(value, Varying):
        return tuple(map(_key, value.values))
    return value.text if isinstance(value, Unknown) else (type(value).__name__, getattr(value, "name", None) or repr(value)[:200])


def _is_small(node: Function) -> bool:
    if isinstance(node, ast.Lambda):
        return True
    return len(node.body) <= 6 and node.end_lineno is not None and node.end_lineno - node.lineno <= 16


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
