"""Learn which names of the trees depend on the architecture, starting from what asks the device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from forkwheel.gates.hot import holds_line, span
from forkwheel.gates.interpret import Interpreter
from forkwheel.gates.modules import Module
from forkwheel.gates.objects import Bound, ClassRef, FunctionRef, Instance, Partial, Scope
from forkwheel.gates.syntax import stored_attributes
from forkwheel.gates.values import Value, Varying

_ROUNDS = 8
_SHORT = 2  # names this short are followed within their file only, and so are
_COMMON = 200  # names that so many files mention: they stand for many things
_LOOKS_IN = re.compile(r"\bin\s+(\w+)")
_DECLARING = re.compile(
    r"def\s+(\w+)\s*\(([^)]*(?:capabilit|major_versions|supported_archs?\b|supported_sms?\b|_ccs\b)[^)]*)\)"
)
_TOO_COMMON = frozenset(
    {"name", "value", "get", "key", "self", "data", "result", "device", "__init__", "config", "x", "_"}
)


class Discovery:
    """Adds to an interpreter's ``hot`` words every name whose value depends on the architecture."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter = interpreter
        self._proved: set[str] = set()
        self._known: dict[Module, None] = {}
        self._mentioning: dict[str, list[Module]] = {}  # the modules that have a word
        self._distinctive: dict[str, bool] = {}

    def extend(self, modules: Iterable[Module]) -> None:
        """Look at more modules, and again at what mentions something that was learnt from them."""
        hot = self._interpreter.hot
        fresh: set[str] = set()  # words that became hot
        modules = [module for module in modules if module not in self._known]
        for module in modules:
            for word in module.every_word:
                self._mentioning.setdefault(word, []).append(module)
            if "capabilit" in module.text or "major_versions" in module.text or "supported_" in module.text:
                fresh.update(match[1] for match in _DECLARING.finditer(module.text))
        self._known.update(dict.fromkeys(modules))
        fresh = {word for word in fresh - hot - _TOO_COMMON if self._is_distinctive(word)}
        hot.update(fresh)
        if fresh:
            self._interpreter.forget()
        concerned = {m: m.lines_with(hot) for m in self._with(hot, within=dict.fromkeys(modules))}
        others = (module for module in self._with(fresh) if module not in concerned)
        concerned.update([(module, module.lines_with(fresh)) for module in others])
        for module in modules:
            if module not in concerned:
                module.release()
        for _ in range(_ROUNDS):
            concerned = self._round(concerned)
            if not concerned:
                return

    def _with(self, words: Iterable[str], *, within: dict[Module, None] | None = None) -> list[Module]:
        """Return the modules that have any of some words, in order."""
        found = {module for word in words for module in self._mentioning.get(word, ())}
        return [module for module in (self._known if within is None else within) if module in found]

    def _is_distinctive(self, word: str) -> bool:
        """Tell whether a word means one thing in all files."""
        if word not in self._distinctive:
            self._distinctive[word] = len(word) > _SHORT and len(self._mentioning.get(word, ())) <= _COMMON
        return self._distinctive[word]

    def _is_local(self, word: str) -> bool:
        """Tell whether a word is followed within its file only."""
        return len(word) <= _SHORT or (word not in _TOO_COMMON and not self._is_distinctive(word))

    def _round(self, concerned: dict[Module, list[int]]) -> dict[Module, list[int]]:
        """Learn from some lines, and return the lines that mention what was learnt."""
        interpreter = self._interpreter
        learnt: set[str] = set()
        grown: dict[Module, set[str]] = {}  # short names, which count in their file only
        for module, lines in concerned.items():
            found = set(_learn(interpreter, module, lines))
            learnt.update(found)
            own = interpreter.own.setdefault(module, set())
            if short := {word for word in found if self._is_local(word)} - own:
                own.update(short)
                grown[module] = short
        learnt.update(key.rpartition(":")[2].rpartition(".")[2] for key, _ in interpreter.memberships)
        fresh = {word for word in learnt - self._proved - _TOO_COMMON if self._is_distinctive(word)}
        if not fresh and not grown:
            return {}
        self._proved.update(fresh)
        interpreter.hot.update(fresh)
        interpreter.forget()
        touched = {*self._with(fresh), *grown}
        everywhere = ((m, m.lines_with(fresh | grown.get(m, set()))) for m in self._known if m in touched)
        return {module: lines for module, lines in everywhere if lines}


def _learn(interpreter: Interpreter, module: Module, lines: list[int]) -> Iterator[str]:
    """Yield the names whose value depends on the architecture, of those whose definition has one of some lines."""
    scope = Scope(module, {}, key=f"{module.name}:")
    for name, bindings in module.bindings.items():
        interpreter.renew()
        node = bindings[-1].node
        if bindings[-1].kind == "import":
            alias = name != "*" and bindings[-1].target.rpartition(".")[2] in interpreter.hot
            if alias:
                yield name
        elif isinstance(node, ast.ClassDef):
            yield from _learn_class(interpreter, ClassRef(module, node), scope, lines)
        elif holds_line(lines, *span(node)):
            found = interpreter.global_value(module, name)
            if found is not None and isinstance(found[0], FunctionRef):
                _look_in_parameters(interpreter, found[0])
            if found is not None and _varies(interpreter, found[0], scope):
                yield name
            yield from _keys(interpreter, node)


def _learn_class(interpreter: Interpreter, cls: ClassRef, scope: Scope, lines: list[int]) -> Iterator[str]:
    if not holds_line(lines, *span(cls.node)):
        return
    for node in cls.node.body:
        interpreter.renew()
        if not holds_line(lines, *span(node)):
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


def _stored_on_self(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    return {
        each.attr
        for each in stored_attributes(node)
        if isinstance(each.value, ast.Name) and each.value.id in ("self", "cls")
    }


def _keys(interpreter: Interpreter, node: ast.AST) -> Iterator[str]:
    """Yield the keys of a table that names something architectural by a string."""
    for child in ast.walk(node):
        if isinstance(child, ast.Dict):
            for key, value in zip(child.keys, child.values, strict=True):
                named = isinstance(value, ast.Constant) and value.value in interpreter.hot
                if named and isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value
