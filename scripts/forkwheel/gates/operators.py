"""Python's operators, built-in functions and methods on values that may be unknown."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from packaging.version import Version

from forkwheel.gates.objects import EnumMember
from forkwheel.gates.values import Unknown, Value, holds_unknown, text_of, truth

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}

_ORDER: dict[type, Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}

_SYMBOLS: dict[type, str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
}

_BUILTINS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "bool": bool,
    "divmod": divmod,
    "float": float,
    "frozenset": frozenset,
    "int": int,
    "len": len,
    "list": list,
    "max": max,
    "min": min,
    "set": set,
    "sorted": sorted,
    "str": str,
    "sum": sum,
    "tuple": tuple,
}

_METHODS: dict[type, frozenset[str]] = {
    str: frozenset(
        {
            "split",
            "rsplit",
            "strip",
            "lstrip",
            "rstrip",
            "startswith",
            "endswith",
            "lower",
            "upper",
            "replace",
            "removeprefix",
            "removesuffix",
            "isdigit",
            "join",
            "format",
            "partition",
            "find",
            "count",
            "title",
        }
    ),
    dict: frozenset({"get", "keys", "values", "items"}),
    tuple: frozenset({"index", "count"}),
    list: frozenset({"index", "count", "copy"}),
    set: frozenset({"union", "intersection", "difference", "issubset", "issuperset", "copy"}),
    frozenset: frozenset({"union", "intersection", "difference", "issubset", "issuperset"}),
}

_PLAIN = (bool, int, float, str, tuple, list, dict, set, frozenset, type(None), Version)
_LARGEST = 1 << 40
_FAILURES = (TypeError, ValueError, KeyError, IndexError, ArithmeticError, AttributeError)


def _plain(*values: Value) -> bool:
    return all(isinstance(value, _PLAIN) for value in values) and not any(map(holds_unknown, values))


def binary(kind: type, left: Value, right: Value, text: str) -> Value:
    """Apply an arithmetic operator."""
    function = _BINARY.get(kind)
    small = all(not isinstance(value, int) or abs(value) < _LARGEST for value in (left, right))
    if function is None or not small or (kind is ast.Mult and not isinstance(left, (int, float))):
        return Unknown(text)
    if kind is ast.Add and type(left) is type(right) and isinstance(left, (tuple, list)):
        return type(left)([*left, *right])
    if not _plain(left, right):
        return Unknown(text)
    try:
        return function(left, right)
    except _FAILURES:
        return Unknown(text)


def _ordered(value: Value) -> Value:
    return value.value if isinstance(value, EnumMember) and isinstance(value.value, (int, str)) else value


def compare(kind: type, left: Value, right: Value) -> Value:
    """Compare two values of one architecture; undecided comparisons keep the decided side's value."""
    text = Unknown(f"{text_of(left)} {_SYMBOLS[kind]} {text_of(right)}")
    if kind in (ast.Is, ast.IsNot):
        return _identity(kind, left, right, text)
    if kind in (ast.In, ast.NotIn):
        return _membership(kind, left, right, text)
    if isinstance(left, EnumMember) and isinstance(right, EnumMember) and kind in (ast.Eq, ast.NotEq):
        return (left == right) is (kind is ast.Eq)
    left, right = _ordered(left), _ordered(right)
    if not _plain(left, right):
        return text
    try:
        return bool(_ORDER[kind](left, right))
    except _FAILURES:
        return text


def _identity(kind: type, left: Value, right: Value, text: Unknown) -> Value:
    if holds_unknown(left) or holds_unknown(right):
        if right is None and isinstance(left, (tuple, list, dict)):
            return kind is ast.IsNot
        return text
    if left is None or right is None or isinstance(left, bool):
        return (left is right) is (kind is ast.Is)
    return text


def _membership(kind: type, left: Value, right: Value, text: Unknown) -> Value:
    if not isinstance(right, (str, tuple, list, dict, set, frozenset)) or holds_unknown(left):
        return text
    try:
        found = _ordered(left) in right or left in right
    except _FAILURES:
        return text
    if not found and holds_unknown(list(right)):
        return text
    return found is (kind is ast.In)


def builtin(name: str, arguments: list[Value], text: str) -> Value:
    """Call a built-in function on one architecture's values."""
    if name in ("any", "all") and len(arguments) == 1 and isinstance(arguments[0], (list, tuple, set, frozenset)):
        return _quantified(list(arguments[0]), every=name == "all", text=text)
    function = _BUILTINS.get(name)
    if name in ("tuple", "list", "set", "frozenset") and not arguments:
        return function() if function else Unknown(text)
    if name in ("tuple", "list", "len") and len(arguments) == 1 and isinstance(arguments[0], (tuple, list)):
        return _BUILTINS[name](arguments[0])
    if name == "map" or function is None or not _plain(*arguments):
        return Unknown(text)
    try:
        return function(*arguments)
    except _FAILURES:
        return Unknown(text)


def _quantified(items: list[Value], *, every: bool, text: str) -> Value:
    decided = [truth(item) for item in items]
    if any(value is not every and not isinstance(value, Unknown) for value in decided):
        return not every
    return Unknown(text) if any(isinstance(value, Unknown) for value in decided) else every


def method(receiver: Value, name: str, arguments: list[Value], text: str) -> Value:
    """Call a method of a plain value."""
    known = _METHODS.get(type(receiver), frozenset())
    if name == "get" and isinstance(receiver, dict) and arguments and not holds_unknown(arguments[0]):
        return _item(receiver, arguments, text)
    if name not in known or not _plain(receiver, *arguments):
        return Unknown(text)
    try:
        result = getattr(receiver, name)(*arguments)
    except _FAILURES:
        return Unknown(text)
    return list(result) if isinstance(receiver, dict) and name != "get" else result


def _item(table: dict[Any, Any], arguments: list[Value], text: str) -> Value:
    try:
        if arguments[0] in table:
            return table[arguments[0]]
    except TypeError:
        return Unknown(text)
    if any(map(holds_unknown, table)):
        return Unknown(text)
    return arguments[1] if len(arguments) > 1 else None


def subscript(value: Value, index: Value, text: str) -> Value:
    """Take an item of one architecture's value."""
    if isinstance(value, Version):
        return Unknown(text)
    if not isinstance(value, (tuple, list, dict, str)) or holds_unknown(index):
        return Unknown(text)
    try:
        return value[index]
    except _FAILURES:
        return Unknown(text)
