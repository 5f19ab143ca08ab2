"""Look names up as Python would: locals, module, star imports, classes and their bases."""

from __future__ import annotations

import ast
import builtins
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from forkwheel.gates import operators, primitives
from forkwheel.gates.arch import Arch
from forkwheel.gates.modules import Binding, Module, Modules
from forkwheel.gates.objects import (
    Bound,
    ClassRef,
    EnumMember,
    External,
    FunctionRef,
    Instance,
    ModuleRef,
    Scope,
)
from forkwheel.gates.syntax import functions_of, stored_attributes
from forkwheel.gates.values import Unknown, Value, Varying, join, lift

_ENUMS = frozenset({"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"})
_BUILTIN_NAMES = frozenset(dir(builtins))


class Names(ABC):
    """Finds what a name or an attribute stands for; results are kept."""

    def __init__(self, modules: Modules, archs: tuple[Arch, ...]) -> None:
        self.modules = modules
        self.archs = archs
        self.hot: set[str] = set(primitives.WORDS)
        self.own: dict[Module, set[str]] = {}  # words that are hot in one file only
        self.seen: dict[Module, None] = {}  # modules that a name was looked up in
        self._globals: dict[tuple[Module, str], Value] = {}
        self._attributes: dict[tuple[ast.ClassDef, str], Value] = {}
        self._running: set[object] = set()
        self.cuts = 0  # evaluations that were cut short, whose results are not kept
        self._functions: dict[Module, tuple[FunctionRef, ...]] = {}
        self._stores: dict[ast.AST, frozenset[str]] = {}
        self._members: dict[ast.ClassDef, dict[str, ast.stmt]] = {}
        self._hot_lines: dict[Module, list[int]] = {}
        self._handlers: dict[tuple[str, type], Callable[..., Any] | None] = {}

    def forget(self) -> None:
        """Drop what was evaluated, because more is known to depend on the architecture."""
        self._globals.clear()
        self._hot_lines.clear()
        self._attributes.clear()

    def handler(self, prefix: str, node: ast.AST) -> Callable[..., Any] | None:
        """Return the method for a kind of node: the prefix, then the kind's name."""
        key = (prefix, type(node))
        if key not in self._handlers:
            self._handlers[key] = getattr(self, prefix + type(node).__name__.lower(), None)
        return self._handlers[key]

    @abstractmethod
    def evaluate(self, node: ast.expr, scope: Scope) -> Value:
        """Evaluate an expression."""

    @abstractmethod
    def call(
        self, function: Value, arguments: list[Value], keywords: dict[str, Value], scope: Scope, text: str
    ) -> Value:
        """Call a value."""

    @abstractmethod
    def stored_attribute(self, cls: ClassRef, node: ast.FunctionDef, name: str, scope: Scope) -> Value:
        """Run a method, and return what it leaves in ``self.NAME``."""

    def name(self, name: str, scope: Scope) -> Value:
        """Return what a name means in a scope."""
        inner: Scope | None = scope
        while inner is not None:
            if name in inner.names:
                return inner.names[name]
            inner = inner.outer
        found = self.global_value(scope.module, name)
        if found is not None:
            return found[0]
        return External(f"builtins.{name}") if name in _BUILTIN_NAMES else Unknown(name)

    def global_value(self, module: Module, name: str) -> tuple[Value] | None:
        """Return, in a tuple of one, what a module's top-level name is; None where it has none."""
        self.seen[module] = None
        key = (module, name)
        if key in self._globals:
            return (self._globals[key],)
        if key in self._running:
            self.cuts += 1
            return (Unknown(name),)
        self._running.add(key)
        cuts = self.cuts
        try:
            found = self._lookup(module, name)
        finally:
            self._running.discard(key)
        if found is not None and cuts == self.cuts:
            self._globals[key] = found[0]
        return found

    def _lookup(self, module: Module, name: str) -> tuple[Value] | None:
        bindings = module.bindings.get(name)
        if bindings:
            shallow = min(binding.depth for binding in bindings)
            value = self._bound([b for b in bindings if b.depth == shallow][-1], module, name)
            return (Unknown(name) if name in module.changeable and not isinstance(value, Varying) else value,)
        for star in module.stars:
            target = self.modules.by_name.get(star)
            if target is not None and target is not module and (found := self.global_value(target, name)):
                return found
        submodule = self.modules.by_name.get(f"{module.name}.{name}") if module.is_package else None
        return (ModuleRef(submodule),) if submodule else None

    def _bound(self, binding: Binding, module: Module, name: str) -> Value:
        node = binding.node
        if binding.kind == "import":
            return self.dotted(binding.target)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return FunctionRef(module, node, f"{module.name}:{name}")
        if isinstance(node, ast.ClassDef):
            return ClassRef(module, node)
        assert isinstance(node, (ast.Assign, ast.AnnAssign))
        assert node.value is not None
        scope = Scope(module, {}, key=f"{module.name}:")
        value = self.evaluate(node.value, scope)
        if binding.kind == "element":
            return lift(lambda whole: operators.subscript(whole, binding.index, name), value)
        return value

    def dotted(self, target: str) -> Value:
        """Return what a dotted name means, following re-exports."""
        found = self.modules.find(target)
        if found is None:
            return primitives.attribute(target)
        module, rest = found
        value: Value = ModuleRef(module)
        for part in rest.split(".") if rest else []:
            value = self.attribute(value, part, Scope(module, {}), target)
        return value

    def attribute(self, value: Value, name: str, scope: Scope, text: str) -> Value:
        """Return an attribute of a value, for each architecture where it varies."""
        return lift(lambda each: self._attribute(each, name, scope, text), value)

    def _attribute(self, value: Value, name: str, scope: Scope, text: str) -> Value:
        if isinstance(value, ModuleRef):
            found = self.global_value(value.module, name)
            return found[0] if found else Unknown(text)
        if isinstance(value, External):
            return primitives.attribute(f"{value.name}.{name}")
        if isinstance(value, ClassRef):
            return self.class_attribute(value, name, value, scope, text)
        if isinstance(value, Instance):
            return self.class_attribute(value.cls, name, value, scope, text)
        if isinstance(value, EnumMember):
            return value.value if name in ("value", "_value_") else value.name if name == "name" else Unknown(text)
        if name in ("major", "minor", "name") and not isinstance(value, Unknown) and hasattr(value, name):
            return getattr(value, name)
        return Unknown(text)

    def class_attribute(self, cls: ClassRef, name: str, receiver: Value, scope: Scope, text: str) -> Value:
        """Return an attribute of a class or of its instances."""
        for each in self.ancestry(cls):
            found = self._own_attribute(each, name, receiver, scope)
            if found is not None:
                return found[0]
        if isinstance(receiver, Instance) and name != "__getattr__":
            return self._instance_attribute(cls, name, receiver, scope, text)
        return Unknown(text)

    def ancestry(self, cls: ClassRef) -> list[ClassRef]:
        """Return a class and its bases that are in the trees, nearest first."""
        found = [cls]
        for each in found:
            for base in each.node.bases:
                value = (
                    self.evaluate(base, Scope(each.module, {})) if isinstance(base, (ast.Name, ast.Attribute)) else None
                )
                if isinstance(value, ClassRef) and value not in found and len(found) < 20:
                    found.append(value)
        return found

    def _own_attribute(self, cls: ClassRef, name: str, receiver: Value, scope: Scope) -> tuple[Value] | None:
        node = self._members_of(cls.node).get(name)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return (self._method(cls, node, receiver, scope),)
        value = getattr(node, "value", None)
        if node is None or value is None:
            return None
        result = self._class_value(cls, node, value)
        if isinstance(receiver, Instance) and isinstance(node, ast.AnnAssign) and not isinstance(result, Varying):
            return (Unknown(f"{cls.name}.{name}"),)
        return (EnumMember(cls, name, result),) if self._is_enum(cls) else (result,)

    def _members_of(self, node: ast.ClassDef) -> dict[str, ast.stmt]:
        if node not in self._members:
            found: dict[str, ast.stmt] = {}
            for child in node.body:
                if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    found[child.name] = child
                targets = child.targets if isinstance(child, ast.Assign) else [getattr(child, "target", None)]
                found.update({target.id: child for target in targets if isinstance(target, ast.Name)})
            self._members[node] = found
        return self._members[node]

    def _class_value(self, cls: ClassRef, node: ast.stmt, value: ast.expr) -> Value:
        if node in self._running:
            return Unknown(cls.module.source(value))
        self._running.add(node)
        try:
            return self.evaluate(value, Scope(cls.module, {}, owner=cls))
        finally:
            self._running.discard(node)

    def _method(
        self, cls: ClassRef, node: ast.FunctionDef | ast.AsyncFunctionDef, receiver: Value, scope: Scope
    ) -> Value:
        function = FunctionRef(cls.module, node, f"{cls.module.name}:{cls.name}.{node.name}", owner=cls)
        decorators = function.decorators()
        if "staticmethod" in decorators:
            return function
        if {"property", "cached_property"} & set(decorators):
            return self.call(Bound(function, receiver), [], {}, scope, node.name)
        if "classmethod" in decorators and isinstance(receiver, Instance):
            return Bound(function, receiver.cls)
        return Bound(function, receiver)

    def _is_enum(self, cls: ClassRef) -> bool:
        for each in self.ancestry(cls):
            for base in each.node.bases:
                if (base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")) in _ENUMS:
                    return True
        return False

    def _instance_attribute(self, cls: ClassRef, name: str, receiver: Instance, scope: Scope, text: str) -> Value:
        key = (cls.node, name)
        if key in self._attributes:
            return self._attributes[key]
        if key in self._running:
            self.cuts += 1
            return Unknown(text)
        self._running.add(key)
        cuts = self.cuts
        try:
            value = self._dynamic_attribute(cls, name, receiver, scope, text)
        finally:
            self._running.discard(key)
        if cuts == self.cuts:
            self._attributes[key] = value
        return value

    def _dynamic_attribute(self, cls: ClassRef, name: str, receiver: Instance, scope: Scope, text: str) -> Value:
        result: Value | None = None
        for each in self.ancestry(cls):
            for node in each.node.body:
                if isinstance(node, ast.FunctionDef) and self._may_store(each.module, node, name):
                    value = self.stored_attribute(each, node, name, scope)
                    result = value if result is None else join(result, value, text=text)
        if result is not None:
            return result
        getter = (
            self.class_attribute(cls, "__getattr__", receiver, scope, text)
            if "__getattr__" in cls.module.words
            else None
        )
        if isinstance(getter, Bound):
            return self.call(getter, [name], {}, scope, text)
        return Unknown(text)

    def _may_store(self, module: Module, node: ast.FunctionDef, name: str) -> bool:
        return name in module.words and self.is_hot(node, module) and name in self._stored(node)

    def _stored(self, node: ast.FunctionDef) -> frozenset[str]:
        if node not in self._stores:
            self._stores[node] = frozenset(each.attr for each in stored_attributes(node))
        return self._stores[node]

    def functions_of(self, module: Module) -> tuple[FunctionRef, ...]:
        """Return the functions and methods of a module that are not nested in a function."""
        if module not in self._functions:
            self._functions[module] = functions_of(module)
        return self._functions[module]

    def is_hot(self, node: ast.AST, module: Module) -> bool:
        """Tell whether a node's lines mention anything that may depend on the architecture."""
        lines = self._hot_lines.get(module)
        if lines is None:
            lines = module.lines_with(self.hot | self.own.get(module, set()))
            self._hot_lines[module] = lines
        first, last = span(node)
        return holds_line(lines, first, last)


def holds_line(lines: list[int], first: int, last: int) -> bool:
    """Tell whether any of some sorted lines lies between two."""
    position = bisect_left(lines, first)
    return position < len(lines) and lines[position] <= last


def span(node: ast.AST) -> tuple[int, int]:
    """Return the first and last line of a node, with its decorators."""
    if isinstance(node, ast.Module):
        return 1, 1 << 30
    first: int = node.lineno  # type: ignore[attr-defined]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.decorator_list:
        first = min(first, node.decorator_list[0].lineno)
    return first, node.end_lineno or first  # type: ignore[attr-defined]
