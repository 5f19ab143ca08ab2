"""Follow the calls from entry points to the gates, through Python and into C++."""

from __future__ import annotations

import ast
import difflib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch

from forkwheel.errors import UsageError
from forkwheel.gates.cpp_graph import CppGraph
from forkwheel.gates.cuda_gates import Export
from forkwheel.gates.interpret import Interpreter, imported
from forkwheel.gates.model import Entry, Gate, Layer, Step
from forkwheel.gates.modules import Module
from forkwheel.gates.objects import Bound, ClassRef, FunctionRef, Instance, Scope
from forkwheel.gates.syntax import statements_of
from forkwheel.gates.values import Unknown, Value

_MOST = 20000  # functions followed

DEFINITIONS = frozenset({"definition", "result"})


@dataclass(frozen=True)
class Found:
    """What a function of Python leads to: functions, module variables, and names in C++."""

    functions: tuple[FunctionRef, ...]
    variables: tuple[tuple[Module, str], ...]
    foreign: tuple[str, ...]


# Where more files hand out one name, it is a common word: those that the caller names are followed.
_MOST_EXPORTS = 8


class Paths:
    """Orders gates by how they are reached from the entries."""

    def __init__(self, interpreter: Interpreter, graph: CppGraph, exports: Iterable[Export]) -> None:
        self.interpreter = interpreter
        self.graph = graph
        self.exports: dict[str, list[Export]] = {}
        for export in exports:
            self.exports.setdefault(export.name, []).append(export)
        self.reached: dict[str, int] = {}  # Python functions, by key
        self._crossed: dict[tuple[Module, str], int] = {}  # names that a module calls in C++
        self.variables: dict[tuple[str, str, str], int] = {}  # root, path, name
        self.foreign: dict[tuple[str, str, str, int], int] = {}  # functions of C++
        self._reached_bodies: dict[tuple[str, str, str], list[tuple[int, int, int]]] | None = None

    def follow(self, entries: Sequence[Entry]) -> None:
        """Walk from the entries that are followed whole."""
        queue: deque[tuple[FunctionRef, int]] = deque()
        for entry in entries:
            function = self.entry(entry)
            if entry.concerns is None:
                queue.append((function, 0))
        while queue and len(self.reached) < _MOST:
            function, distance = queue.popleft()
            if function.key in self.reached:
                continue
            self.reached[function.key] = distance
            found = self._uses(function)
            for module, name in found.variables:
                queue.extend((each, distance + 2) for each in self._variable(module, name, distance + 1))
            queue.extend((each, distance + 1) for each in found.functions)
            for name in found.foreign:
                crossing = (function.module, name)
                self._crossed[crossing] = min(distance + 1, self._crossed.get(crossing, distance + 1))

    def cross(self) -> None:
        """Go on from what Python calls in C++ and CUDA."""
        for (module, name), distance in self._crossed.items():
            for export in self._meant(module, name):
                file = self.graph.files[(export.root, export.path)]
                for node, calls in self.graph.reach(file, export.function).items():
                    self.foreign[node] = min(distance + calls, self.foreign.get(node, distance + calls))

    def _meant(self, module: Module, name: str) -> list[Export]:
        """Return the exports that a module can mean by a name: of many, those whose file it names."""
        exports = self.exports.get(name, [])
        if len(exports) <= _MOST_EXPORTS:
            return exports
        return [export for export in exports if _names_file(module, export.path)]

    @property
    def reached_variables(self) -> list[tuple[Module, str]]:
        """The module variables that were reached."""
        modules = {(module.root, module.path): module for module in self.interpreter.seen}
        return [(modules[(root, path)], name) for root, path, name in self.variables]

    def entry(self, entry: Entry) -> FunctionRef:
        """Find an entry's function; raise UsageError, with names like it, where there is none."""
        module_name, _, qualified = entry.symbol.partition(":")
        module = self.interpreter.modules.by_name.get(module_name)
        if module is None:
            near = difflib.get_close_matches(module_name, self.interpreter.modules.by_name, n=3)
            raise UsageError(
                f"entry {entry.symbol!r}: there is no module {module_name}",
                hint=f"like it: {', '.join(near)}" if near else "write it as package.module:function",
            )
        self.interpreter.seen[module] = None
        known = {function.key.partition(":")[2]: function for function in self.interpreter.functions_of(module)}
        if qualified not in known:
            near = difflib.get_close_matches(qualified, known, n=3)
            raise UsageError(
                f"entry {entry.symbol!r}: {module.path} has no function {qualified}",
                hint=f"like it: {', '.join(near)}" if near else "write it as package.module:Class.function",
            )
        return known[qualified]

    def _variable(self, module: Module, name: str, distance: int) -> Iterator[FunctionRef]:
        key = (module.root, module.path, name)
        if key in self.variables:
            return
        self.variables[key] = distance
        for binding in module.bindings.get(name, ()):
            if isinstance(binding.node, (ast.Assign, ast.AnnAssign)) and binding.node.value is not None:
                found = self._names(binding.node.value, Scope(module, {}, key=f"{module.name}:"))
                yield from found.functions
                for inner, other in found.variables:
                    yield from self._variable(inner, other, distance + 1)

    def _uses(self, function: FunctionRef) -> Found:
        scope = Scope(
            function.module, self.interpreter.parameters(function), function.outer, function.owner, function.key
        )
        for node in _own(function.node):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                scope.names.update({n: self.interpreter.dotted(t) for n, t in imported(function.module, node)})
        return self._names(function.node, scope, nested=_nested(function, scope))

    def _names(self, root: ast.AST, scope: Scope, nested: dict[str, FunctionRef] | None = None) -> Found:
        functions: dict[str, FunctionRef] = {}
        variables: dict[tuple[Module, str], None] = {}
        foreign: dict[str, None] = {}
        for node in _own(root):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                for each in self._called(node.func, scope, foreign):
                    functions[each.key] = each
            if nested and isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in nested:
                functions[nested[node.func.id].key] = nested[node.func.id]
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                if node.id not in scope.names or not isinstance(scope.names[node.id], Unknown):
                    self._mention(node, scope, functions, variables)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                self._mention(node, scope, functions, variables)
        return Found(tuple(functions.values()), tuple(variables), tuple(foreign))

    def _mention(
        self,
        node: ast.Name | ast.Attribute,
        scope: Scope,
        functions: dict[str, FunctionRef],
        variables: dict[tuple[Module, str], None],
    ) -> None:
        home = self._home(node, scope)
        if home is not None:
            variables[home] = None
        value = self.interpreter.evaluate(node, scope) if isinstance(node, ast.Name) or _is_chain(node) else None
        for function in _functions_in(value):
            functions[function.key] = function

    def _home(self, node: ast.Name | ast.Attribute, scope: Scope) -> tuple[Module, str] | None:
        """Return the module and the name under which a variable is defined, following imports."""
        if not isinstance(node, ast.Name):
            return None
        module, name = scope.module, node.id
        for _ in range(8):
            bindings = module.bindings.get(name)
            if not bindings:
                star = next(
                    (s for s in map(self.interpreter.modules.by_name.get, module.stars) if s and name in s.bindings),
                    None,
                )
                if star is None:
                    return None
                module = star
                continue
            if bindings[-1].kind != "import":
                return (module, name) if isinstance(bindings[-1].node, (ast.Assign, ast.AnnAssign)) else None
            found = self.interpreter.modules.find(bindings[-1].target)
            if found is None or not found[1] or "." in found[1]:
                return None
            module, name = found
        return None

    def _called(self, node: ast.Attribute, scope: Scope, foreign: dict[str, None]) -> Iterator[FunctionRef]:
        """Yield what a method call may mean, where the receiver is made by a call of a known function."""
        if isinstance(node.value, ast.Call) and isinstance(node.value.func, (ast.Name, ast.Attribute)):
            maker = self.interpreter.evaluate(node.value.func, scope)
            for function in _functions_in(maker):
                inner = _nested(function, Scope(function.module, {}, key=function.key))
                if node.attr in inner:
                    yield inner[node.attr]
                    return
        if node.attr in self.exports:
            value = self.interpreter.evaluate(node.value, scope) if _is_chain(node.value) else Unknown("")
            if isinstance(value, Unknown):
                foreign[node.attr] = None

    def steps(self, gates: Iterable[Gate], entries: Sequence[Entry], layers: Sequence[Layer]) -> tuple[Step, ...]:
        """Return the gates on the path, ordered by layer, then by distance."""
        starts = {entry.symbol for entry in entries if entry.concerns is None}
        steps = []
        for gate in gates:
            distance = self._distance(gate, entries)
            if distance is not None:
                counts = gate.kind not in DEFINITIONS or (gate.kind == "result" and gate.symbol in starts)
                steps.append(Step(gate, layer_of(gate, layers), distance, counts))
        order = {layer.name: index for index, layer in enumerate(layers)}
        last = len(order)
        return tuple(sorted(steps, key=lambda s: (order.get(s.layer, last), s.layer, s.distance, s.gate.place)))

    def _distance(self, gate: Gate, entries: Sequence[Entry]) -> int | None:
        for entry in entries:
            if entry.concerns and gate.symbol == entry.symbol and entry.concerns in gate.guarded:
                return 0
        if gate.kind in ("preprocessor", "host"):
            return self._foreign_distance(gate)
        if gate.symbol.endswith(":"):
            keys = [(gate.place.root, gate.place.path, name) for name in gate.guarded]
            return min((self.variables[key] for key in keys if key in self.variables), default=None)
        return self.reached.get(gate.symbol)

    def _foreign_distance(self, gate: Gate) -> int | None:
        key = (gate.place.root, gate.place.path, gate.symbol)
        inside = [d for first, last, d in self._bodies().get(key, ()) if first <= gate.place.line <= last]
        return min(inside, default=None)

    def _bodies(self) -> dict[tuple[str, str, str], list[tuple[int, int, int]]]:
        """Return the lines of the functions of C++ that were reached, and their distance."""
        if self._reached_bodies is None:
            self._reached_bodies = {}
            for (root, path, name, first), distance in self.foreign.items():
                functions = self.graph.files[(root, path)].syntax.functions
                last = next(function.last for function in functions if function.first == first)
                self._reached_bodies.setdefault((root, path, name), []).append((first, last, distance))
        return self._reached_bodies


def layer_of(gate: Gate, layers: Sequence[Layer]) -> str:
    """Name the layer of a gate: the first whose files match, else one by the gate's kind."""
    for layer in layers:
        if any(fnmatch(gate.place.path, pattern) for pattern in layer.files):
            return layer.name
    return {"preprocessor": "device code", "host": "host code", "list": "architecture list"}.get(gate.kind, "Python")


def _functions_in(value: Value) -> Iterator[FunctionRef]:
    if isinstance(value, FunctionRef):
        yield value
    elif isinstance(value, Bound):
        yield value.function
    elif isinstance(value, (ClassRef, Instance)):
        cls = value.cls if isinstance(value, Instance) else value
        for node in cls.node.body if isinstance(value, ClassRef) else ():
            if isinstance(node, ast.FunctionDef) and node.name in ("__init__", "__post_init__"):
                yield FunctionRef(cls.module, node, f"{cls.module.name}:{cls.name}.{node.name}", owner=cls)


def _names_file(module: Module, path: str) -> bool:
    """Tell whether a module names a file by its stem, or is called as one of the file's folders."""
    *folders, name = path.split("/")
    return name.partition(".")[0] in module.words or module.name.rpartition(".")[2] in folders


def _is_chain(node: ast.AST) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _nested(function: FunctionRef, scope: Scope) -> dict[str, FunctionRef]:
    found = {}
    for node in statements_of(function.node.body) if isinstance(function.node.body, list) else ():
        if isinstance(node, ast.FunctionDef):
            found[node.name] = FunctionRef(function.module, node, f"{function.key}.{node.name}", function.owner, scope)
    return found


def _own(root: ast.AST) -> Iterator[ast.AST]:
    """Walk a function without the bodies of those nested in it, and without its decorators."""
    body = root.body if isinstance(root, (ast.FunctionDef, ast.AsyncFunctionDef)) else [root]
    queue = deque(body)
    while queue:
        node = queue.popleft()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            queue.extend(ast.iter_child_nodes(node))
