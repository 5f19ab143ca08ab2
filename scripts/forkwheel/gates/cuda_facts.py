"""What a C++ function says of its names, read once: from this an architecture is followed through it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_SOURCE = re.compile(r"cudaDevAttrComputeCapabilityM|CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_M|[dD]eviceProp")
_ATTRIBUTE = re.compile(
    r"&\s*([\w.>-]*?\b\w+)\s*,\s*(?:cudaDevAttrComputeCapability|CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_)(Major|Minor|MAJOR|MINOR)"
)
_PAIR = re.compile(r"\bauto\s*&?\s*\[\s*(\w+)\s*,\s*(\w+)\s*\]\s*=\s*([^;]+);")
_ASSIGNED = re.compile(r"(?<![\w.>=!<])((?:this\s*->\s*|\w+\s*\.\s*)?\w+)\s*(?<![=!<>+\-*/|&^])=(?!=)\s*([^;{}]+);")
_DECLARED = re.compile(
    r"(?<![\w.])(?!return\b|else\b|new\b|delete\b|case\b)[A-Za-z_][\w:]*(?:<[^<>;(){}]*>)?(?:\s+const)?(?:\s*[*&]+\s*|\s+)(\w+)\s*[=;({\[]"
)
_BRACED = re.compile(r"\b(?:int|auto|bool)(?:\s+const)?\s+(\w+)\s*[({]\s*([^;{}]+?)\s*[)}]\s*;")
_RETURNED = re.compile(r"\breturn\s+([^;]+);")
_CALL = re.compile(r"\b(\w+)\s*(?:<[^;(){}]*>)?\s*\(")
_MEMBER = re.compile(r"[:,]\s*(\w+)\s*\(\s*([\w:.]+\s*\([^()]*\))\s*\)\s*(?=[,{])")
_PROPERTIES = re.compile(
    r"\b(?:cudaDeviceProp|hipDeviceProp_t)\s*[&*]?\s*(?:const\s*)?[&*]?\s*(\w+)|\bauto\s*[&*]?\s*(\w+)\s*=[^;]*[dD]evicePropert"
)
_NAME = re.compile(r"[A-Za-z_]\w*")
_SEPARATOR = re.compile(r"[][(){},]")
_PARENTHESIS = re.compile(r"[()]")
# After a function's name, and after its parameters where these were a call's arguments.
_HEAD = r"\s*(?:<[^;{}()]*>\s*)?\("
_CALLED = re.compile(r"\s*(?:[;,).+*/<>=?|\]%^!]|-(?!>)|&&?(?!&|\s*(?:\{|const|noexcept|override|->))|\Z)")
SHORT = 4  # names this short are shared by functions that have nothing to do with one another
COMMON = frozenset({"if", "for", "while", "switch", "return", "sizeof", "static_cast", "major", "minor"})


@dataclass(frozen=True)
class Facts:
    """A function's names: those that it declares, and what it assigns, unpacks, returns and passes on.

    ``attributes`` are the names that a part of the compute capability is asked into, with that part.
    """

    declared: frozenset[str]
    attributes: tuple[tuple[str, str], ...]
    pairs: tuple[tuple[str, str, str], ...]
    assigned: tuple[tuple[str, str], ...]
    returned: tuple[str, ...]
    calls: tuple[tuple[str, tuple[str, ...]], ...]


def asks(text: str) -> bool:
    """Tell whether a text asks the CUDA runtime for the architecture."""
    return ("COMPUTE_CAPABILITY_M" in text or "ComputeCapabilityM" in text or "eviceProp" in text) and (
        _SOURCE.search(text) is not None
    )


def initialised_members(text: str) -> tuple[tuple[str, str], ...]:
    """Return the members that constructors initialise by a call, and the calls."""
    return tuple((match[1], match[2]) for match in _MEMBER.finditer(text))


def declared_properties(text: str) -> tuple[str, ...]:
    """Return the names of device properties that a file declares, wherever it does."""
    found = _PROPERTIES.finditer(text) if "eviceProp" in text else ()
    return tuple(match[1] or match[2] for match in found)


@lru_cache(maxsize=1000)
def _word(name: str, then: str = r"\b") -> re.Pattern[str]:
    """Return a pattern of a whole word; it begins with the word, which is what makes it fast."""
    return re.compile(rf"{re.escape(name)}(?<!\w{re.escape(name)}){then}")


def mentions(text: str, name: str) -> bool:
    """Tell whether a text has a name as a whole word."""
    return name in text and _word(name).search(text) is not None


def may_define(text: str, name: str) -> bool:
    """Tell whether a text may define a function, rather than call or declare it."""
    heads = _word(name, _HEAD).finditer(text) if name in text else ()
    return any(not _CALLED.match(text, _closing(text, head.end())) for head in heads)


def _closing(text: str, start: int) -> int:
    """Return where the parenthesis that is open at a place has been closed."""
    depth = 1
    for match in _PARENTHESIS.finditer(text, start):
        depth += 1 if match[0] == "(" else -1
        if not depth:
            return match.end()
    return len(text)


def read_facts(text: str) -> Facts:
    """Read the facts from a function's text without comments."""
    assigned = [*_ASSIGNED.finditer(text), *_BRACED.finditer(text)]
    return Facts(
        declared=frozenset(match[1] for match in _DECLARED.finditer(text)),
        attributes=tuple((_NAME.findall(match[1])[-1], match[2].lower()) for match in _ATTRIBUTE.finditer(text)),
        pairs=tuple((match[1], match[2], match[3]) for match in _PAIR.finditer(text)),
        assigned=tuple(
            (names[-1], match[2])
            for match in sorted(assigned, key=lambda match: match.start())
            if (names := _NAME.findall(match[1]))
        ),
        returned=tuple(match[1] for match in _RETURNED.finditer(text)),
        calls=tuple(
            (match[1], arguments_after(text, match.end()))
            for match in _CALL.finditer(text)
            if match[1] not in COMMON and len(match[1]) > SHORT
        ),
    )


def arguments_after(text: str, start: int) -> tuple[str, ...]:
    """Split a call's arguments at its commas; at most 2,000 characters are looked at."""
    pieces: list[str] = []
    depth, begin = 0, start
    for match in _SEPARATOR.finditer(text, start, start + 2000):
        char = match[0]
        if char in "([{":
            depth += 1
        elif char == ",":
            if depth == 0:
                pieces.append(text[begin : match.start()].strip())
                begin = match.end()
        elif depth == 0:
            return (*pieces, text[begin : match.start()].strip())
        else:
            depth -= 1
    return tuple(pieces)
