"""Evaluate conditions of C, C++ and the preprocessor for one architecture, in three-valued logic."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from functools import lru_cache

from forkwheel.gates import operators
from forkwheel.gates.values import Unknown, Value, conjunction, holds_unknown, negate, truth

# A name's value, or None where nothing is known of it; called for `a.b` too.
Lookup = Callable[[str], Value]

_TOKEN = re.compile(
    r"""(?P<defined>\bdefined\s*\(?\s*(?P<macro>[A-Za-z_]\w*)\s*\)?)
    |(?P<has>\b__has_(?:include|builtin|attribute|feature)\w*\s*\([^)]*\))
    |(?P<cast>\b(?:static_cast|const_cast|int)\s*<[^<>]*>)
    |(?P<template><[\w\s:,*&]*>(?=\s*\())
    |(?P<number>\b(?:0[xX][0-9a-fA-F]+|\d+(?:\.\d+)?)[uUlLfF]*\b)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<symbol>&&|\|\||->|::|<=|>=|==|!=|<<|>>|!|.)""",
    re.VERBOSE | re.DOTALL,
)
_SYMBOLS = {"&&": " and ", "||": " or ", "!": "~", "->": ".", "::": ".", "/": "//"}
_WORDS = {"true": "True", "false": "False", "nullptr": "None", "NULL": "None", "and": "and", "or": "or", "not": "~"}
_KEYWORDS = frozenset(
    {
        "if",
        "else",
        "for",
        "while",
        "in",
        "is",
        "as",
        "from",
        "import",
        "class",
        "def",
        "return",
        "lambda",
        "pass",
        "None",
        "async",
        "await",
        "with",
    }
)


def translate(text: str) -> str:
    """Write a C expression as a Python one; ``!`` becomes ``~``, which binds as tightly."""
    pieces = []
    for match in _TOKEN.finditer(text.replace("\\\n", " ").replace("\n", " ")):
        kind = match.lastgroup
        if match["defined"]:
            pieces.append(f"defined({match['macro']})")
        elif match["has"]:
            pieces.append("unknown_feature")
        elif match["cast"] or match["template"]:
            continue
        elif kind == "number":
            digits = match["number"].rstrip("uUlL")
            pieces.append(digits if digits.lower().startswith("0x") else digits.rstrip("fF").lstrip("0") or "0")
        elif kind == "word":
            word = match["word"]
            pieces.append(_WORDS.get(word, f"{word}_" if word in _KEYWORDS else word))
        else:
            symbol = match["symbol"]
            pieces.append(_SYMBOLS.get(symbol, symbol))
    return "".join(pieces).strip()


@lru_cache(maxsize=20000)
def parse(text: str) -> ast.expr | None:
    """Parse a C expression; None where it is not one that can be followed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(translate(text), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None


def evaluate(text: str, lookup: Lookup) -> Value:
    """Evaluate a C expression, with ``lookup`` for its names."""
    node = parse(" ".join(text.split()))
    return Unknown(" ".join(text.split())) if node is None else _evaluate(node, lookup)


def _evaluate(node: ast.expr, lookup: Lookup) -> Value:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _name(node, lookup)
    if isinstance(node, ast.BoolOp):
        every = isinstance(node.op, ast.And)
        return conjunction([_evaluate(value, lookup) for value in node.values], every=every)
    if isinstance(node, ast.UnaryOp):
        value = _evaluate(node.operand, lookup)
        if isinstance(node.op, (ast.Invert, ast.Not)):
            return negate(value)
        return -value if isinstance(node.op, ast.USub) and isinstance(value, int) else Unknown(ast.unparse(node))
    if isinstance(node, ast.BinOp):
        left, right = _evaluate(node.left, lookup), _evaluate(node.right, lookup)
        return operators.binary(type(node.op), left, right, written(node))
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = _evaluate(node.left, lookup), _evaluate(node.comparators[0], lookup)
        return operators.compare(type(node.ops[0]), left, right)
    if isinstance(node, ast.Call):
        return _call(node, lookup)
    if isinstance(node, ast.Tuple) and not node.elts:
        return Unknown("()")
    return Unknown(written(node))


def _name(node: ast.Name | ast.Attribute, lookup: Lookup) -> Value:
    if isinstance(node, ast.Attribute):
        if node.attr in ("first", "second", "major", "minor"):
            base = _evaluate(node.value, lookup)
            if isinstance(base, tuple) and len(base) == 2:
                return base[node.attr in ("second", "minor")]
        found = lookup(f".{node.attr}")
        return found if found is not None else Unknown(written(node))
    found = lookup(node.id)
    return found if found is not None else Unknown(node.id)


def _call(node: ast.Call, lookup: Lookup) -> Value:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name == "defined" and len(node.args) == 1 and isinstance(node.args[0], ast.Name):
        macro = node.args[0].id
        found = lookup(f"defined {macro}")
        return found if found is not None else Unknown(f"defined({macro})")
    if name in ("make_pair", "make_tuple", "tuple_"):
        return tuple(_evaluate(argument, lookup) for argument in node.args)
    if name in ("int", "bool", "likely", "__builtin_expect") and node.args:
        return _evaluate(node.args[0], lookup)
    found = lookup(f"{name}()")
    return found if found is not None else Unknown(written(node))


def written(node: ast.expr) -> str:
    """Write an expression for a person, in C's spelling."""
    text = ast.unparse(node)
    return text.replace(" and ", " && ").replace(" or ", " || ").replace("~", "!")


def decide(text: str, lookup: Lookup) -> Value:
    """Evaluate a condition to True, False or Unknown."""
    value = evaluate(text, lookup)
    return truth(value) if not holds_unknown(value) or isinstance(value, Unknown) else True
