"""C++ names of kernels, and the families that their templates make."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

from forkwheel.errors import ToolchainError


def demangle(names: Iterable[str]) -> dict[str, str]:
    """Map mangled names to C++ names with the C++ library's own demangler; a C name stays as it is."""
    try:
        library = ctypes.CDLL("libstdc++.so.6")
    except OSError as error:
        raise ToolchainError(
            "the C++ library libstdc++.so.6 is missing, which reads the kernels' names",
            hint="install it (Debian and Ubuntu: apt install libstdc++6)",
        ) from error
    function = library.__cxa_demangle
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    demangled = {}
    status = ctypes.c_int()
    for name in names:
        address = function(name.encode(), None, None, ctypes.byref(status))
        text = ctypes.string_at(address).decode() if address and status.value == 0 else name
        if address:
            free(address)
        demangled[name] = text
    return demangled


def family(name: str) -> str:
    """Return a C++ function's qualified name without its return type, template arguments and parameters."""
    depth = 0
    kept = []
    for character in name.replace("(anonymous namespace)", "{anonymous}"):
        if character == "<":
            depth += 1
        elif character == ">":
            depth -= 1
        elif depth == 0 and character == "(":
            break
        elif depth == 0:
            kept.append(character)
    return "".join(kept).split()[-1] if kept else name
