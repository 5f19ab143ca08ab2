"""What an expression can be while the architecture is known and much else is not.

A value is a plain Python object, ``Unknown`` (kept as its text), or ``Varying``: one of these for
each architecture. Containers never hold a ``Varying``; they may hold an ``Unknown``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

Value = Any


@dataclass(frozen=True)
class Unknown:
    """A value that depends on something other than the architecture, such as the environment.

    ``origin`` names the function and the parameter that the value was passed as, if it was.
    """

    text: str
    origin: tuple[str, str] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Varying:
    """One value for each architecture; not all of them are equal."""

    values: tuple[Value, ...]


def same(a: Value, b: Value) -> bool:
    """Tell whether two values are one, of one type."""
    if a is b:
        return True
    try:
        return type(a) is type(b) and bool(a == b)
    except (TypeError, ValueError, RecursionError):
        return False


def varying(values: Iterable[Value]) -> Value:
    """Join one value for each architecture into one value."""
    listed = tuple(values)
    return listed[0] if all(same(listed[0], value) for value in listed[1:]) else Varying(listed)


def per_arch(value: Value, count: int) -> tuple[Value, ...]:
    """Return the value for each of ``count`` architectures."""
    return value.values if isinstance(value, Varying) else (value,) * count


def lift(function: Callable[..., Value], *arguments: Value) -> Value:
    """Apply a function for each architecture where an argument varies, else once."""
    counts = [len(argument.values) for argument in arguments if isinstance(argument, Varying)]
    if not counts:
        return function(*arguments)
    spread = [per_arch(argument, counts[0]) for argument in arguments]
    return varying(function(*row) for row in zip(*spread, strict=True))


def holds_unknown(value: Value) -> bool:
    """Tell whether a value is unknown, wholly or in part."""
    if isinstance(value, Unknown) or getattr(value, "opaque", False):
        return True
    if isinstance(value, (tuple, list, set, frozenset)):
        return any(holds_unknown(item) for item in value)
    if isinstance(value, dict):
        return any(holds_unknown(item) for pair in value.items() for item in pair)
    return False


def text_of(value: Value) -> str:
    """Write a value as it would stand in a condition."""
    if isinstance(value, Unknown):
        return value.text
    if isinstance(value, tuple) and value:
        return "(" + ", ".join(map(text_of, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, (int, float, str, bytes, bool, tuple, list, type(None))):
        return repr(value)
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(text_of, value))) + "}"
    return str(getattr(value, "name", None) or value)


def is_word(value: Value) -> bool:
    """Tell whether a value is a constant word, or unknown: what a branch chooses, not what it tests."""
    return isinstance(value, (str, Unknown)) or value is None


def truth(value: Value) -> Value:
    """Return True, False or Unknown for one architecture's value."""
    if isinstance(value, Unknown):
        return value
    if value is None or isinstance(value, (bool, int, float, str, bytes, tuple, list, dict, set, frozenset)):
        return bool(value)
    return Unknown(value.name) if getattr(value, "opaque", False) else True


def negate(value: Value) -> Value:
    """Return the logical opposite of one architecture's value."""
    decided = truth(value)
    if not isinstance(decided, Unknown):
        return not decided
    text = decided.text
    return Unknown(text[4:] if text.startswith("not ") else f"not {text}")


def conjunction(values: Iterable[Value], *, every: bool) -> Value:
    """Join one architecture's operands of ``and`` (``every``) or ``or``, keeping what is undecided."""
    open_texts: list[str] = []
    value: Value = every
    for value in values:
        decided = truth(value)
        if isinstance(decided, Unknown):
            if decided.text not in open_texts:
                open_texts.append(decided.text)
        elif decided is not every:
            return value if not open_texts or isinstance(value, bool) else decided
    if not open_texts:
        return value
    joined = (" and " if every else " or ").join(open_texts)
    return Unknown(joined if len(open_texts) == 1 else f"({joined})")


def join(a: Value, b: Value, *, text: str) -> Value:
    """Merge what two ways of arriving leave: equal values stay, others become unknown.

    What depends on the architecture outweighs what is unknown: an override by the environment
    or by a caller does not hide the default.
    """
    if same(a, b):
        return a
    if (a is None or isinstance(a, Unknown)) and isinstance(b, Varying):
        return b
    if (b is None or isinstance(b, Unknown)) and isinstance(a, Varying):
        return a
    return lift(lambda x, y: _joined(x, y, text), a, b)


def _joined(a: Value, b: Value, text: str) -> Value:
    if same(a, b):
        return a
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple(_joined(x, y, f"{text}[{i}]") for i, (x, y) in enumerate(zip(a, b, strict=True)))
    return Unknown(text)


def is_single(value: Value) -> bool:
    """Tell whether a value is a collection of one item."""
    return isinstance(value, (list, tuple, set, frozenset)) and len(value) == 1


def is_raised(value: Value) -> bool:
    """Tell whether an architecture does not get this far, because something raised before."""
    return isinstance(value, Unknown) and "raised in " in value.text
