"""Answer "where is this defined, and what is it for this GPU?" for a name, following re-exports."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from forkwheel.errors import UsageError
from forkwheel.gates.arch import Arch, universe
from forkwheel.gates.cuda_gates import CppFile, Sections
from forkwheel.gates.discover import Discovery
from forkwheel.gates.files import SourceFile
from forkwheel.gates.hot import span
from forkwheel.gates.interpret import Interpreter
from forkwheel.gates.model import Place
from forkwheel.gates.modules import Module, Modules
from forkwheel.gates.objects import Bound, ClassRef, FunctionRef, Partial, Scope
from forkwheel.gates.values import Value, per_arch, text_of


@dataclass(frozen=True)
class Definition:
    """One place that defines a name: what it says there, who hands it on, and its value per architecture."""

    place: Place
    name: str
    text: str
    exported_by: tuple[Place, ...]
    values: tuple[tuple[Arch, str], ...]


def explain_symbol(
    files: Sequence[SourceFile], symbol: str, *, target: Arch, references: tuple[Arch, ...]
) -> tuple[Definition, ...]:
    """Find the definitions of a name or a dotted name, however wrong the path in it is.

    Raise UsageError, with names like it, where nothing has that name.
    """
    archs = universe(target, references)
    interpreter = Interpreter(Modules(file for file in files if file.is_python), archs)
    name = symbol.replace(":", ".").rpartition(".")[2]
    found = [*_python(interpreter, name)]
    every = [CppFile(file.root, file.path, file.text) for file in files if not file.is_python]
    found += _cpp([file for file in every if name in file.raw], every, name, archs)
    if not found:
        words = {word for module in interpreter.modules.all for word in module.words if len(word) > 3}
        near = difflib.get_close_matches(name, words, n=3)
        raise UsageError(
            f"nothing here is called {name!r}", hint=f"like it: {', '.join(near)}" if near else "check the spelling"
        )
    return tuple(found)


def _python(interpreter: Interpreter, name: str) -> Iterator[Definition]:
    concerned = [module for module in interpreter.modules.all if name in module.words]
    homes = [(module, node) for module in concerned for node in _defining(module, name)]
    if homes:
        Discovery(interpreter).extend(interpreter.modules.all)
    for module, node in homes:
        scope = Scope(module, {}, key=f"{module.name}:")
        value = _value(interpreter, module, name, node, scope)
        states = () if value is None else per_arch(value[0], len(interpreter.archs))
        yield Definition(
            place=Place(module.root, module.path, span(node)[0]),
            name=name,
            text=_first_line(module, node),
            exported_by=tuple(_exporters(interpreter, module, name)),
            values=tuple((a, text_of(s)) for a, s in zip(interpreter.archs, states, strict=False)),
        )


def _defining(module: Module, name: str) -> Iterator[ast.AST]:
    for binding in module.bindings.get(name, ()):
        if binding.kind != "import":
            yield binding.node
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef):
            for child in node.body:
                targets = child.targets if isinstance(child, ast.Assign) else [getattr(child, "target", None)]
                named = getattr(child, "name", None) == name
                if named or any(isinstance(t, ast.Name) and t.id == name for t in targets):
                    yield child


def _value(interpreter: Interpreter, module: Module, name: str, node: ast.AST, scope: Scope) -> tuple[Value] | None:
    """Return, in a tuple of one, what a name is, or what it returns when it is called without arguments."""
    found = interpreter.global_value(module, name) if name in module.bindings else None
    if found is None:
        found = _member(interpreter, module, name, node, scope)
    if found is not None and isinstance(found[0], (FunctionRef, Bound, Partial)):
        return (interpreter.call(found[0], [], {}, scope, f"{name}()"),)
    return found


def _member(interpreter: Interpreter, module: Module, name: str, node: ast.AST, scope: Scope) -> tuple[Value] | None:
    for each in ast.walk(module.tree):
        if isinstance(each, ast.ClassDef) and node in each.body:
            cls = ClassRef(module, each)
            return (interpreter.attribute(cls, name, scope, name),)
    return None


def _exporters(interpreter: Interpreter, home: Module, name: str) -> Iterator[Place]:
    """Yield the modules that hand a name on: packages by a star import, others by name."""
    for module in interpreter.modules.all:
        if module is home:
            continue
        for star in module.bindings.get("*", ()) if "import *" in module.text else ():
            if interpreter.modules.by_name.get(star.target) is home:
                yield Place(module.root, module.path, span(star.node)[0])
        if module.is_package and name in module.words:
            for binding in module.bindings.get(name, ()):
                found = interpreter.modules.find(binding.target) if binding.kind == "import" else None
                if found == (home, name):
                    yield Place(module.root, module.path, span(binding.node)[0])


def _first_line(module: Module, node: ast.AST) -> str:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return module.lines[node.lineno - 1].strip()
    return module.source(node)


def _cpp(files: list[CppFile], every: list[CppFile], name: str, archs: tuple[Arch, ...]) -> Iterator[Definition]:
    macros = None
    for file in files:
        lines = {d.line: f"#define {d.name} {d.value}".strip() for d in file.directives.definitions if d.name == name}
        if lines and macros is None:
            sections = Sections(every, archs, (0,))
            for _ in sections.find():
                pass
            macros = sections.macros
        for line, text in lines.items():
            value = macros.table.get(name) if macros else None
            states = per_arch(value, len(archs)) if value is not None else ()
            values = tuple((a, "not defined" if s is None else text_of(s)) for a, s in zip(archs, states, strict=False))
            yield Definition(Place(file.root, file.path, line), name, text, (), values)
        for function in file.syntax.functions:
            if function.name == name:
                text = file.text.split("\n")[function.first - 1].strip()
                yield Definition(Place(file.root, file.path, function.first), name, text, (), ())
