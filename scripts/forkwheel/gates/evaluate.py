"""Evaluate Python expressions for every architecture at once, in three-valued logic."""

from __future__ import annotations

import ast
from collections.abc import Callable

from forkwheel.gates import operators
from forkwheel.gates.classes import Classes
from forkwheel.gates.objects import (
    FunctionRef,
    Scope,
)
from forkwheel.gates.values import (
    Unknown,
    Value,
    Varying,
    conjunction,
    holds_unknown,
    is_word,
    join,
    lift,
    negate,
    per_arch,
    text_of,
    truth,
    varying,
)

_MOST_ITEMS = 64


class Evaluator(Classes):
    """Evaluates expressions; statements and calls of the trees' own functions are its subclass's."""

    # Parameters of which it is known that an architecture is looked for in them, and how the
    # architecture is written there (90, (9, 0), "sm_90" ...), one for each architecture.
    memberships: dict[tuple[str, str], Varying]
    _looked_for: dict[tuple[str, str], dict[int, Value]]
    _position: int | None = None  # the architecture that a comprehension is evaluated for now

    def evaluate(self, node: ast.expr, scope: Scope) -> Value:
        """Evaluate an expression; what is not understood is unknown, never an error."""
        handler: Callable[[ast.expr, Scope], Value] | None = self.handler("_on_", node)
        return handler(node, scope) if handler else Unknown(scope.module.source(node))

    def _on_constant(self, node: ast.Constant, scope: Scope) -> Value:
        return node.value

    def _on_name(self, node: ast.Name, scope: Scope) -> Value:
        return self.name(node.id, scope)

    def _attribute_chain(self, node: ast.Attribute) -> str | None:
        return f"{node.value.id}.{node.attr}" if isinstance(node.value, ast.Name) else None

    def _on_attribute(self, node: ast.Attribute, scope: Scope) -> Value:
        chain = self._attribute_chain(node)
        inner: Scope | None = scope
        while chain and inner is not None:
            if chain in inner.names:
                return inner.names[chain]
            inner = inner.outer
        value = self.evaluate(node.value, scope)
        if (
            node.attr == "arch"
            and isinstance(node.value, ast.Call)
            and "get_current_target" in scope.module.source(node)
        ):
            return varying(arch.number for arch in self.archs)
        return self.attribute(value, node.attr, scope, scope.module.source(node))

    def _on_tuple(self, node: ast.Tuple, scope: Scope) -> Value:
        return lift(lambda *items: tuple(items), *self._items(node.elts, scope))

    def _on_list(self, node: ast.List, scope: Scope) -> Value:
        return lift(lambda *items: list(items), *self._items(node.elts, scope))

    def _on_set(self, node: ast.Set, scope: Scope) -> Value:
        def build(*items: Value) -> Value:
            try:
                return frozenset(items)
            except TypeError:
                return Unknown(scope.module.source(node))

        return lift(build, *self._items(node.elts, scope))

    def _items(self, elements: list[ast.expr], scope: Scope) -> list[Value]:
        items: list[Value] = []
        for element in elements:
            if isinstance(element, ast.Starred):
                spread = self.evaluate(element.value, scope)
                known = isinstance(spread, (tuple, list, set, frozenset))
                items += list(spread) if known else [Unknown(scope.module.source(element))]
            else:
                items.append(self.evaluate(element, scope))
        return items

    def _on_dict(self, node: ast.Dict, scope: Scope) -> Value:
        if any(key is None for key in node.keys) or len(node.keys) > 4 * _MOST_ITEMS:
            return Unknown(scope.module.source(node))
        keys = [self.evaluate(key, scope) for key in node.keys if key is not None]
        values = [self.evaluate(value, scope) for value in node.values]

        def build(*items: Value) -> Value:
            try:
                return dict(zip(items[: len(keys)], items[len(keys) :], strict=True))
            except TypeError:
                return Unknown(scope.module.source(node))

        return lift(build, *keys, *values)

    def _on_boolop(self, node: ast.BoolOp, scope: Scope) -> Value:
        every = isinstance(node.op, ast.And)
        operands = []
        for operand in node.values:
            operands.append(self.evaluate(operand, scope))
            if not isinstance(operands[-1], Varying) and truth(operands[-1]) is (not every):
                break
        return lift(lambda *values: conjunction(values, every=every), *operands)

    def _on_unaryop(self, node: ast.UnaryOp, scope: Scope) -> Value:
        value = self.evaluate(node.operand, scope)
        if isinstance(node.op, ast.Not):
            return lift(negate, value)
        text = scope.module.source(node)
        return lift(
            lambda v: -v if isinstance(v, (int, float)) and isinstance(node.op, ast.USub) else Unknown(text), value
        )

    def _on_binop(self, node: ast.BinOp, scope: Scope) -> Value:
        left, right = self.evaluate(node.left, scope), self.evaluate(node.right, scope)
        text = scope.module.source(node)
        return lift(lambda a, b: operators.binary(type(node.op), a, b, text), left, right)

    def _on_compare(self, node: ast.Compare, scope: Scope) -> Value:
        left = self.evaluate(node.left, scope)
        parts = []
        for operator, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.evaluate(comparator, scope)
            if isinstance(operator, (ast.In, ast.NotIn)):
                self._note_membership(left, right)
            kind = type(operator)
            parts.append(lift(lambda a, b, kind=kind: operators.compare(kind, a, b), left, right))
            left = right
        return parts[0] if len(parts) == 1 else lift(lambda *values: conjunction(values, every=True), *parts)

    def _note_membership(self, left: Value, right: Value) -> None:
        if not isinstance(right, Unknown) or not right.origin or any(map(holds_unknown, per_arch(left, 1))):
            return
        if isinstance(left, Varying):
            self.memberships.setdefault(right.origin, left)
        elif self._position is not None:
            self._looked_for.setdefault(right.origin, {})[self._position] = left

    def _on_ifexp(self, node: ast.IfExp, scope: Scope) -> Value:
        test = lift(truth, self.evaluate(node.test, scope))
        body, other = self.evaluate(node.body, scope), self.evaluate(node.orelse, scope)
        text = scope.module.source(node)
        if isinstance(test, Varying) and is_word(body) and is_word(other):
            return Unknown(text)

        def choose(decided: Value, yes: Value, no: Value) -> Value:
            return join(yes, no, text=text) if isinstance(decided, Unknown) else yes if decided else no

        return lift(choose, test, body, other)

    def _on_namedexpr(self, node: ast.NamedExpr, scope: Scope) -> Value:
        value = self.evaluate(node.value, scope)
        scope.names[node.target.id] = value
        return value

    def _on_joinedstr(self, node: ast.JoinedStr, scope: Scope) -> Value:
        text = scope.module.source(node)
        pieces = [self.evaluate(part, scope) for part in node.values]

        def glue(*values: Value) -> Value:
            return Unknown(text) if any(map(holds_unknown, values)) else "".join(map(str, values))

        return lift(glue, *pieces)

    def _on_formattedvalue(self, node: ast.FormattedValue, scope: Scope) -> Value:
        value = self.evaluate(node.value, scope)
        plain = node.format_spec is None and node.conversion in (-1, 115)
        text = scope.module.source(node.value)
        known = (str, int, float, tuple)
        return lift(
            lambda v: str(v) if plain and isinstance(v, known) and not holds_unknown(v) else Unknown(text), value
        )

    def _on_subscript(self, node: ast.Subscript, scope: Scope) -> Value:
        value = self.evaluate(node.value, scope)
        text = scope.module.source(node)
        if isinstance(node.slice, ast.Slice):
            bounds = [self.evaluate(part, scope) if part else None for part in (node.slice.lower, node.slice.upper)]
            return lift(lambda v, a, b: operators.subscript(v, slice(a, b), text), value, *bounds)
        index = self.evaluate(node.slice, scope)
        return lift(lambda v, i: operators.subscript(v, i, text), value, index)

    def _on_listcomp(self, node: ast.ListComp, scope: Scope) -> Value:
        return self._comprehension(node.elt, node.generators, scope, scope.module.source(node))

    _on_setcomp = _on_generatorexp = _on_listcomp

    def _comprehension(self, element: ast.expr, generators: list[ast.comprehension], scope: Scope, text: str) -> Value:
        source = self.evaluate(generators[0].iter, scope)
        if len(generators) != 1 or not any(isinstance(v, (tuple, list, set, frozenset)) for v in per_arch(source, 1)):
            return Unknown(text)

        if not isinstance(source, Varying) and (
            found := self._same_for_all(source, element, generators[0], scope, text)
        ):
            return found[0]

        def build(position: int) -> Value:
            items: Value = per_arch(source, len(self.archs))[position]
            if not isinstance(items, (tuple, list, set, frozenset)) or len(items) > _MOST_ITEMS:
                return Unknown(text)
            kept = []
            for item in items:
                inner = Scope(scope.module, {}, scope, scope.owner, scope.key, scope.depth)
                self.assign(generators[0].target, item, inner)
                tests = [per_arch(self.evaluate(test, inner), len(self.archs))[position] for test in generators[0].ifs]
                decided = truth(conjunction(tests, every=True))
                if isinstance(decided, Unknown):
                    return Unknown(text)
                if decided:
                    kept.append(per_arch(self.evaluate(element, inner), len(self.archs))[position])
            return kept

        return self._for_each_arch(build)

    def _same_for_all(
        self, items: Value, element: ast.expr, generator: ast.comprehension, scope: Scope, text: str
    ) -> tuple[Value] | None:
        """Evaluate a comprehension once for all, in a tuple of one; None where a filter depends on the architecture."""
        if len(items) > _MOST_ITEMS:
            return (Unknown(text),)
        kept = []
        for item in items:
            inner = Scope(scope.module, {}, scope, scope.owner, scope.key, scope.depth)
            self.assign(generator.target, item, inner)
            tests = [self.evaluate(test, inner) for test in generator.ifs]
            if any(isinstance(test, Varying) for test in tests):
                return None
            decided = truth(conjunction(tests, every=True))
            if isinstance(decided, Unknown):
                return (Unknown(text),)
            if decided:
                kept.append(self.evaluate(element, inner))
        return (lift(lambda *values: list(values), *kept),)

    def _for_each_arch(self, build: Callable[[int], Value]) -> Value:
        outer, self._position = self._position, 0
        results = []
        for position in range(len(self.archs)):
            self._position = position
            results.append(build(position))
        self._position = outer
        for origin, found in self._looked_for.items():
            if len(found) == len(self.archs) and len(set(map(repr, found.values()))) > 1:
                self.memberships.setdefault(origin, Varying(tuple(found.values())))
        self._looked_for.clear()
        return varying(results)

    def assign(self, target: ast.expr, value: Value, scope: Scope) -> None:
        """Bind a target, unpacking tuples."""
        if isinstance(target, ast.Name):
            scope.names[target.id] = value
        elif isinstance(target, ast.Attribute) and (chain := self._attribute_chain(target)):
            scope.names[chain] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            for index, element in enumerate(target.elts):
                text = f"{text_of(value)}[{index}]" if not isinstance(value, Varying) else scope.module.source(element)
                self.assign(element, lift(lambda v, i=index, t=text: operators.subscript(v, i, t), value), scope)

    def _on_lambda(self, node: ast.Lambda, scope: Scope) -> Value:
        return FunctionRef(scope.module, node, f"{scope.key}.<lambda>", outer=scope)
