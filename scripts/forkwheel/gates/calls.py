"""Evaluate calls: of the trees' own functions, of classes, and of what lies outside the trees."""

from __future__ import annotations

import ast
from abc import abstractmethod

from forkwheel.gates import operators, primitives
from forkwheel.gates.arch import Arch
from forkwheel.gates.evaluate import Evaluator
from forkwheel.gates.frame import Visitor
from forkwheel.gates.modules import Modules
from forkwheel.gates.objects import (
    Bound,
    ClassRef,
    External,
    Function,
    FunctionRef,
    Identity,
    Instance,
    ModuleRef,
    Partial,
    Scope,
)
from forkwheel.gates.values import Unknown, Value, Varying, join, lift, per_arch, varying

_DEEPEST = 5
_MOST_RUNS = 500  # of functions, for one statement of the sources


class Caller(Evaluator):
    """Evaluates calls; running a function's statements is its subclass's."""

    def __init__(self, modules: Modules, archs: tuple[Arch, ...]) -> None:
        super().__init__(modules, archs)
        self.memberships: dict[tuple[str, str], Varying] = {}
        self._looked_for: dict[tuple[str, str], dict[int, Value]] = {}
        self.passed: dict[tuple[str, str], Value] = {}  # arguments that depend on the architecture
        self._results: dict[object, Value] = {}
        self._runs = 0

    def renew(self) -> None:
        """Begin with another statement: allow as many runs of functions as for the one before."""
        self._runs = 0

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
        self._runs += 1
        if scope.depth >= _DEEPEST or plain in self._running or self._runs > _MOST_RUNS:
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

    @abstractmethod
    def body(self, node: Function, scope: Scope, text: str, visitor: Visitor | None = None) -> Value:
        """Run a function's body and return what it returns."""

    def stored_attribute(self, cls: ClassRef, node: ast.FunctionDef, name: str, scope: Scope) -> Value:
        """Run a method, and return what it leaves in ``self.NAME``."""
        function = FunctionRef(cls.module, node, f"{cls.module.name}:{cls.name}.{node.name}", owner=cls)
        self._runs += 1
        if scope.depth >= _DEEPEST or function in self._running or not node.args.args or self._runs > _MOST_RUNS:
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

    def _on_call(self, node: ast.Call, scope: Scope) -> Value:
        text = scope.module.source(node)
        function = self.evaluate(node.func, scope)
        arguments = self._items(node.args, scope)
        keywords = {k.arg: self.evaluate(k.value, scope) for k in node.keywords if k.arg}
        if isinstance(function, Unknown) and isinstance(node.func, ast.Attribute):
            return self._method_call(node.func, arguments, scope, text)
        return self.call(function, arguments, keywords, scope, text)

    def _method_call(self, node: ast.Attribute, arguments: list[Value], scope: Scope, text: str) -> Value:
        receiver = self.evaluate(node.value, scope)
        if isinstance(receiver, Varying) or not isinstance(receiver, Unknown):
            return lift(lambda r, *a: operators.method(r, node.attr, list(a), text), receiver, *arguments)
        return Unknown(text)

    def call(
        self, function: Value, arguments: list[Value], keywords: dict[str, Value], scope: Scope, text: str
    ) -> Value:
        """Call a value; a callable that depends on the architecture is called for each."""
        if isinstance(function, Varying):
            results = [self.call(each, arguments, keywords, scope, text) for each in function.values]
            return varying(per_arch(result, len(self.archs))[i] for i, result in enumerate(results))
        if isinstance(function, Partial):
            merged = {**dict(function.keywords), **keywords}
            return self.call(function.function, [*function.arguments, *arguments], merged, scope, text)
        if isinstance(function, Identity):
            return arguments[0] if arguments else Unknown(text)
        if isinstance(function, External):
            return self._external(function.name, arguments, keywords, scope, text)
        if isinstance(function, ClassRef):
            return self.construct(function, arguments, keywords, text)
        if isinstance(function, (FunctionRef, Bound)):
            return self.run(function, arguments, keywords, scope, text)
        return Unknown(text)

    def construct(self, cls: ClassRef, arguments: list[Value], keywords: dict[str, Value], text: str) -> Value:
        """Make an instance; an enumeration is asked for its member."""
        if self._is_enum(cls):
            return Unknown(text)
        fields = [n.target.id for n in cls.node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
        bases = {b.attr if isinstance(b, ast.Attribute) else getattr(b, "id", "") for b in cls.node.bases}
        if "NamedTuple" in bases and len(arguments) + len(keywords) == len(fields):
            return lift(
                lambda *values: tuple(values),
                *arguments,
                *[keywords[f] for f in fields[len(arguments) :] if f in keywords],
            )
        return Instance(cls)

    def _external(
        self, name: str, arguments: list[Value], keywords: dict[str, Value], scope: Scope, text: str
    ) -> Value:
        if name == "functools.partial" and arguments:
            return Partial(arguments[0], tuple(arguments[1:]), tuple(keywords.items()))
        if name in ("functools.lru_cache", "functools.cache") and arguments and callable_value(arguments[0]):
            return arguments[0]
        if name == "builtins.getattr" and len(arguments) >= 2 and isinstance(arguments[1], (str, Varying)):
            return lift(lambda n: self._getattr(arguments[0], n, scope, text), arguments[1])
        if name == "builtins.map" and len(arguments) == 2 and isinstance(arguments[1], (list, tuple)):
            return [self.call(arguments[0], [item], {}, scope, text) for item in arguments[1]]
        if name.startswith("builtins."):
            if name == "builtins.hasattr" or keywords:
                return Unknown(text)
            return lift(lambda *values: operators.builtin(name[9:], list(values), text), *arguments)
        result = primitives.call(name, arguments, self.archs, text)
        return varying(result) if isinstance(result, tuple) else result

    def _getattr(self, value: Value, name: Value, scope: Scope, text: str) -> Value:
        if not isinstance(name, str) or isinstance(value, (Unknown, External)):
            return Unknown(text)
        return self.attribute(value, name, scope, text)


def callable_value(value: Value) -> bool:
    """Tell whether a value can be called and be followed."""
    return isinstance(value, (FunctionRef, Bound, Partial, ModuleRef))


def _key(value: Value) -> object:
    if isinstance(value, Varying):
        return tuple(map(_key, value.values))
    return (
        value.text
        if isinstance(value, Unknown)
        else (type(value).__name__, getattr(value, "name", None) or repr(value)[:200])
    )


def _is_small(node: Function) -> bool:
    if isinstance(node, ast.Lambda):
        return True
    return node.end_lineno is not None and node.end_lineno - node.lineno <= 16 and len(node.body) <= 6
