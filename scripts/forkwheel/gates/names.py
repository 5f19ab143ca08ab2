"""Look names up as Python would: locals, module, star imports, re-exports."""

from __future__ import annotations

import ast
import builtins
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from forkwheel.gates import operators, primitives
from forkwheel.gates.arch import Arch
from forkwheel.gates.hot import Hot
from forkwheel.gates.modules import Binding, Module, Modules
from forkwheel.gates.objects import (
    ClassRef,
    EnumMember,
    External,
    FunctionRef,
    Instance,
    ModuleRef,
    Scope,
)
from forkwheel.gates.syntax import functions_of
from forkwheel.gates.values import Unknown, Value, Varying, lift

_BUILTIN_NAMES = frozenset(dir(builtins))


class Names(Hot, ABC):
    """Finds what a name or an attribute stands for; results are kept."""

    def __init__(self, modules: Modules, archs: tuple[Arch, ...]) -> None:
        super().__init__()
        self.modules = modules
        self.archs = archs
        self.seen: dict[Module, None] = {}  # modules that a name was looked up in
        self._globals: dict[tuple[Module, str], Value] = {}
        self._running: set[object] = set()
        self.cuts = 0  # evaluations that were cut short, whose results are not kept
        self._functions: dict[Module, tuple[FunctionRef, ...]] = {}
        self._handlers: dict[tuple[str, type], Callable[..., Any] | None] = {}

    def forget(self) -> None:
        """Drop what was evaluated, because more is known to depend on the architecture."""
        super().forget()
        self._globals.clear()

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

    @abstractmethod
    def class_attribute(self, cls: ClassRef, name: str, receiver: Value, scope: Scope, text: str) -> Value:
        """Return an attribute of a class or of its instances."""

    def functions_of(self, module: Module) -> tuple[FunctionRef, ...]:
        """Return the functions and methods of a module that are not nested in a function."""
        if module not in self._functions:
            self._functions[module] = functions_of(module)
        return self._functions[module]
