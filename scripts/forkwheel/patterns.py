"""Path patterns of recipes: ``*`` and ``?`` within a name, ``**`` across folders."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

_PIECES = re.compile(r"(\*\*/|\*\*|\*|\?)")
_MEANING = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@cache
def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    translated = (
        "".join(_MEANING.get(piece, re.escape(piece)) for piece in _PIECES.split(pattern)) for pattern in patterns
    )
    return re.compile("|".join(f"(?:{pattern})" for pattern in translated), re.DOTALL)


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Tell whether a POSIX path matches one of the patterns as a whole."""
    patterns = tuple(patterns)
    return bool(patterns) and _compiled(patterns).fullmatch(path) is not None
