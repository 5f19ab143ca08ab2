"""Show the lines that a hunk expects beside the lines that were found."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest

from forkwheel.patching.model import CONTEXT

WIDTH = 58
"""Characters of each of the two columns, so that both fit into 132 with their numbers."""
_ROWS = 30
_LEAD = 16


def beside(expected: Sequence[bytes], lines: Sequence[bytes], *, start: int) -> str:
    """Return a table of a hunk's lines and those of the file around the index ``start``.

    Equal lines stand side by side also where lines were added or removed between them; each row
    has its line in the file. Rows that differ are marked ``!``. In them a tab, a carriage return,
    a space at the end and a missing newline are spelled out, and long lines are cut around the
    first difference.
    """
    rows = []
    for left, right in _pairs(expected, lines, start):
        found = None if right is None else lines[right]
        rows.append(_row(None if left is None else expected[left], found, None if right is None else right + 1))
    width = max((len(left) for _, left, _ in rows), default=0)
    shown = [f"{head} | {left:<{max(width, 8)}} | {right}".rstrip() for head, left, right in rows]
    title = f"{'':>8} | {'expected':<{max(width, 8)}} | found"
    return textwrap.indent("\n".join([title, *_shortened(shown)]), "  ")


def _pairs(expected: Sequence[bytes], lines: Sequence[bytes], start: int) -> Iterator[tuple[int | None, int | None]]:
    """Yield which expected line stands beside which of the file's, by index."""
    low, high = max(0, start - CONTEXT), start + len(expected) + CONTEXT
    matcher = SequenceMatcher(None, expected, lines[low:high], autojunk=False)
    codes = matcher.get_opcodes()
    if all(code[0] != "equal" for code in codes):
        yield from zip_longest(range(len(expected)), range(start, min(start + len(expected), len(lines))))
        return
    for _, left, left_end, right, right_end in codes:
        if left == 0:
            right = max(right, right_end - (left_end - left))
        elif left_end == len(expected):
            right_end = min(right_end, right + left_end - left)
        yield from zip_longest(range(left, left_end), range(low + right, low + right_end))


def _row(left: bytes | None, right: bytes | None, line: int | None) -> tuple[str, str, str]:
    same = left == right
    texts = [_plain(side) if same else _spelled(side) for side in (left, right)]
    start = 0 if same else _cut(texts[0], texts[1])
    return f"{'' if same else '!':>1} {line or '':>6}", _clip(texts[0], start), _clip(texts[1], start)


def _plain(line: bytes | None) -> str:
    return "" if line is None else _text(line.rstrip(b"\r\n")).expandtabs(4)


def _spelled(line: bytes | None) -> str:
    if line is None:
        return "(no line)"
    body = line[:-1] if line.endswith(b"\n") else line
    ending = "" if line.endswith(b"\n") else "(no newline)"
    kept = body.rstrip(b" \t\r")
    tail = body[len(kept) :].replace(b" ", b"\\s").replace(b"\t", b"\\t").replace(b"\r", b"\\r")
    indent = kept[: len(kept) - len(kept.lstrip(b" \t"))]
    shown = indent.replace(b"\t", b"\\t") + kept[len(indent) :].replace(b"\t", b"\\t")
    return _text(shown + tail) + ending


def _text(line: bytes) -> str:
    text = line.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in text)


def _cut(left: str, right: str) -> int:
    if max(len(left), len(right)) <= WIDTH:
        return 0
    same = next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    return max(0, same - _LEAD)


def _clip(text: str, start: int) -> str:
    shown = ("..." if start else "") + text[start:]
    return shown if len(shown) <= WIDTH else shown[: WIDTH - 3] + "..."


def _shortened(rows: list[str]) -> list[str]:
    """Keep the rows near one that differs, up to a bound."""
    if len(rows) <= _ROWS:
        return rows
    marked = [number for number, row in enumerate(rows) if row.startswith("!")]
    near = sorted({n for mark in marked for n in range(max(0, mark - 3), min(len(rows), mark + 4))})[:_ROWS]
    return [rows[number] for number in near] + [f"... {len(rows) - len(near)} more lines"]
