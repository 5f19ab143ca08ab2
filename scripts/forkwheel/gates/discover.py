"""Learn which names of the trees depend on the architecture, starting from what asks the device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from forkwheel.gates.interpret import Interpreter
from forkwheel.gates.modules import Module
from forkwheel.gates.names import span
from forkwheel.gates.objects import Bound, ClassRef, FunctionRef, Instance, Partial, Scope
from forkwheel.gates.values import Value, Varying

_ROUNDS = 8
_SHORT = 2  # names this short are followed within their file only
_LOOKS_IN = re.compile(r"\bin\s+(\w+)")
_DECLARING = re.compile(
    r"def\s+(\w+)\s*\(([^)]*(?:capabilit|major_versions|supported_archs?\b|supported_sms?\b|_ccs\b)[^)]*)\)"
)
_TOO_COMMON = frozenset(
    {"name", "value", "get", "key", "self", "data", "result", "device", "__init__", "config", "x", "_"}
)


def discover(interpreter: Interpreter) -> None:
    """Add to the interpreter's ``hot`` words every name whose value depends on the architecture."""
    for module in interpreter.modules.all:
        if "capabilit" in module.text or "major_versions" in module.text or "supported_" in module.text:
            interpreter.hot.update(match[1] for match in _DECLARING.finditer(module.text))
    proved: set[str] = set()
    fresh = set(interpreter.hot)
    grown: set[str] = set()  # files whose own short names were learnt in the last round
    for _ in range(_ROUNDS):
        learnt: set[str] = set()
        again, grown = grown, set()
        for module in interpreter.modules.all:
            if module.path in again or not module.words.isdisjoint(fresh):
                found = set(_learn(interpreter, module))
                learnt.update(found)
                own = interpreter.own.setdefault(module.path, set())
                if short := {word for word in found if len(word) <= _SHORT} - own:
                    own.update(short)
                    grown.add(module.path)
        learnt.update(key.rpartition(":")[2].rpartition(".")[2] for key, _ in interpreter.memberships)
        fresh = {word for word in learnt - proved - _TOO_COMMON if len(word) > _SHORT}
        if not fresh and not grown:
            return
        proved.update(fresh)
        interpreter.hot.update(fresh)
        interpreter.forget()


def _learn(interpreter: Interpreter, module: Module) -> Iterator[str]:
    scope = Scope(module, {}, key=f"{module.name}:")
    for name, bindings in module.bindings.items():
        interpreter.renew()
        node = bindings[-1].node
        if bindings[-1].kind == "import":
            alias = name != "*" and bindings[-1].target.rpartition(".")[2] in interpreter.hot
            if alias:
                yield name
        elif isinstance(node, ast.ClassDef):
            yield from _learn_class(interpreter, ClassRef(module, node), scope)
        elif interpreter.is_hot(node, module):
            found = interpreter.global_value(module, name)
            if found is not None and isinstance(found[0], FunctionRef):
                _look_in_parameters(interpreter, found[0])
            if found is not None and _varies(interpreter, found[0], scope):
                yield name
            yield from _keys(interpreter, node)


def _learn_class(interpreter: Interpreter, cls: ClassRef, scope: Scope) -> Iterator[str]:
    if not interpreter.is_hot(cls.node, cls.module):
        return
    for node in cls.node.body:
        interpreter.renew()
        if not interpreter.is_hot(node, cls.module):
            continue
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _learn_method(interpreter, Instance(cls), node, scope)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            yield from (name for name in names if isinstance(interpreter.attribute(cls, name, scope, name), Varying))


def _learn_method(
    interpreter: Interpreter, instance: Instance, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope
) -> Iterator[str]:
    value = interpreter.attribute(instance, node.name, scope, node.name)
    if isinstance(value, Bound):
        _look_in_parameters(interpreter, value.function)
    if isinstance(value, Varying) or _varies(interpreter, value, scope):
        yield node.name
    for stored in sorted(_stored_on_self(node)):
        if isinstance(interpreter.attribute(instance, stored, scope, stored), Varying):
            yield stored


def _look_in_parameters(interpreter: Interpreter, function: FunctionRef) -> None:
    """Run a function that looks for something in its parameters, so that what it looks for is noted."""
    first, last = span(function.node)
    text = "\n".join(function.module.lines[first - 1 : last])
    names = interpreter.parameters(function)
    if any(match[1] in names for match in _LOOKS_IN.finditer(text)):
        inner = Scope(function.module, names, function.outer, function.owner, function.key, 1)
        interpreter.body(function.node, inner, function.key)


def _varies(interpreter: Interpreter, value: Value, scope: Scope) -> bool:
    if isinstance(value, Varying):
        return True
    if isinstance(value, (FunctionRef, Bound, Partial)):
        return isinstance(interpreter.call(value, [], {}, scope, "?"), Varying)
    return False


def _stored_on_self(node: ast.AST) -> set[str]:
    return {
        child.attr
        for child in ast.walk(node)
        if isinstance(child, ast.Attribute)
        and isinstance(child.ctx, ast.Store)
        and isinstance(child.value, ast.Name)
        and child.value.id in ("self", "cls")
    }


def _keys(interpreter: Interpreter, node: ast.AST) -> Iterator[str]:
    """Yield the keys of a table that names something architectural by a string."""
    for child in ast.walk(node):
        if isinstance(child, ast.Dict):
            for key, value in zip(child.keys, child.values, strict=True):
                named = isinstance(value, ast.Constant) and value.value in interpreter.hot
                if named and isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value
