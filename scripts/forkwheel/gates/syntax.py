"""Small questions about Python's syntax trees."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator

from forkwheel.gates.modules import Module
from forkwheel.gates.objects import ClassRef, FunctionRef


def functions_of(module: Module) -> tuple[FunctionRef, ...]:
    """Return the functions and methods of a module that are not nested in a function."""
    found = []
    for node in statements_of(module.tree.body):
        if isinstance(node, ast.ClassDef):
            owner = ClassRef(module, node)
            for child in node.body:
                if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    found.append(FunctionRef(module, child, f"{module.name}:{node.name}.{child.name}", owner=owner))
    for bindings in module.bindings.values():
        for binding in bindings:
            if isinstance(binding.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.append(FunctionRef(module, binding.node, f"{module.name}:{binding.node.name}"))
    return tuple(found)


def statements_of(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements and all those within them, outermost first."""
    queue = deque(body)
    while queue:
        node = queue.popleft()
        yield node
        for inner in (node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            for name in ("body", "orelse", "finalbody"):
                queue.extend(getattr(inner, name, ()))


def stored_attributes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.Attribute]:
    """Yield the attributes that a function assigns."""
    for node in statements_of(function.body):
        items = [item.optional_vars for item in getattr(node, "items", ())]
        for target in [*getattr(node, "targets", ()), getattr(node, "target", None), *items]:
            for child in ast.walk(target) if target is not None else ():
                if isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Store):
                    yield child


def given_arguments(function: FunctionRef, node: ast.Call, *, bound: bool) -> Iterator[tuple[str, ast.expr]]:
    """Pair the parameters of a function with the arguments of a call; a bound method has its first already."""
    spec = function.node.args
    parameters = [parameter.arg for parameter in [*spec.posonlyargs, *spec.args]][1 if bound else 0 :]
    yield from zip(parameters, node.args, strict=False)
    for keyword in node.keywords:
        if keyword.arg:
            yield keyword.arg, keyword.value


def expressions_in(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the expressions directly within one, but for what a lambda does later."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.keyword):
            yield child.value
        elif isinstance(child, ast.expr) and not isinstance(child, ast.Lambda):
            yield child


def bound_names(node: ast.AST) -> set[str]:
    """Return the names and attributes that a statement binds."""
    stored = set()
    for child in ast.walk(node):
        if isinstance(child, (ast.Name, ast.Attribute)) and isinstance(child.ctx, ast.Store):
            stored.add(child.id if isinstance(child, ast.Name) else child.attr)
    return stored


def called_names(node: ast.AST) -> set[str]:
    """Return the names of what a statement calls."""
    heads = [child.func for child in ast.walk(node) if isinstance(child, ast.Call)]
    return {head.attr if isinstance(head, ast.Attribute) else getattr(head, "id", "") for head in heads} - {""}


def is_way_out(body: list[ast.stmt]) -> bool:
    """Tell whether a branch is a way out: it raises, or returns nothing, False or an empty value."""
    last = body[-1]
    if isinstance(last, ast.Raise):
        return True
    if not isinstance(last, ast.Return) or len(body) > 2:
        return False
    value = last.value
    if value is None or (isinstance(value, ast.Constant) and not value.value):
        return True
    return isinstance(value, (ast.Dict, ast.List, ast.Tuple)) and not (
        value.keys if isinstance(value, ast.Dict) else value.elts
    )


def outcome_of(node: ast.If | ast.While | ast.match_case) -> str:
    """Say in a word what a branch does."""
    last = node.body[-1]
    if isinstance(last, ast.Raise):
        return "an error"
    if isinstance(last, ast.Return):
        return "an early return"
    stored = sorted(bound_names(ast.Module(body=node.body, type_ignores=[])))
    return f"a branch that sets {', '.join(stored[:3])}" if stored else "a branch"
