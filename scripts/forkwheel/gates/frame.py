"""What a function returned so far, while it is run for every architecture at once."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

from forkwheel.gates.objects import Scope
from forkwheel.gates.values import Unknown, Value, Varying, holds_unknown, is_word, join, per_arch, text_of, varying

Live = tuple[bool, ...]
Visitor = Callable[[ast.stmt, Scope, Live], None]


@dataclass
class Frame:
    """A function that is being run: what it returned so far, for each architecture."""

    count: int
    text: str
    returns: list[list[Value]] = field(default_factory=list)
    visitor: Visitor | None = None

    def __post_init__(self) -> None:
        self.returns = [[] for _ in range(self.count)]

    def leave(self, value: Value, live: Live) -> None:
        """Record a return value for the architectures that come here."""
        for position, each in enumerate(per_arch(value, self.count)):
            if live[position]:
                self.returns[position].append(each)

    def result(self, live: Live) -> Value:
        """Join what was returned.

        An unknown override does not hide a default that depends on the architecture.
        """
        self.leave(None, live)
        if not any(self.returns):
            return Unknown(f"raised in {self.text}")
        eager = varying(self._joined(_telling(values)) for values in self.returns)
        if isinstance(eager, Varying) and all(map(is_word, eager.values)) and len(set(map(text_of, eager.values))) < 4:
            return Unknown(self.text)  # a choice among words, whose own conditions are the gates
        return eager if isinstance(eager, Varying) else varying(map(self._joined, self.returns))

    def _joined(self, values: list[Value]) -> Value:
        if not values:
            return Unknown(f"raised in {self.text}")
        result = values[0]
        for value in values[1:]:
            result = join(result, value, text=self.text)
        return result


def _telling(values: list[Value]) -> list[Value]:
    """Leave out what is unknown, and the None that stands for no device, where there is more."""
    known = [value for value in values if not holds_unknown(value)] or values
    plain = any(type(value) in (tuple, int) for value in known)
    return [value for value in known if value is not None] if plain else known
