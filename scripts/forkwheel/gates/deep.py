"""Room for recursion: syntax trees may be nested deeper than Python's own limit allows."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")
_STACK = 512 << 20  # bytes of address space; what is not used costs nothing
_DEEPEST = 200_000  # calls; deeper trees are refused by Python's parser


def with_deep_stack(function: Callable[[], _Result]) -> _Result:
    """Call a function in a thread whose stack is large enough for any tree that can be parsed."""
    results: list[_Result] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(function())
        except BaseException as error:  # raised again below, in the caller's thread
            errors.append(error)

    limit, size = sys.getrecursionlimit(), threading.stack_size(_STACK)
    try:
        sys.setrecursionlimit(max(limit, _DEEPEST))
        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(size)
        sys.setrecursionlimit(limit)
    if errors:
        raise errors[0]
    return results[0]
