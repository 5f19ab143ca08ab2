"""Look the attributes of classes and of their instances up, through their bases and what methods store."""

from __future__ import annotations

import ast

from forkwheel.gates.arch import Arch
from forkwheel.gates.modules import Module, Modules
from forkwheel.gates.names import Names
from forkwheel.gates.objects import Bound, ClassRef, EnumMember, FunctionRef, Instance, Scope
from forkwheel.gates.syntax import stored_attributes
from forkwheel.gates.values import Unknown, Value, Varying, join

_ENUMS = frozenset({"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"})


class Classes(Names):
    """Finds what an attribute of a class stands for; results are kept."""

    def __init__(self, modules: Modules, archs: tuple[Arch, ...]) -> None:
        super().__init__(modules, archs)
        self._attributes: dict[tuple[ast.ClassDef, str], Value] = {}
        self._stores: dict[ast.AST, frozenset[str]] = {}
        self._members: dict[ast.ClassDef, dict[str, ast.stmt]] = {}

    def forget(self) -> None:
        """Drop what was evaluated, because more is known to depend on the architecture."""
        super().forget()
        self._attributes.clear()

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
