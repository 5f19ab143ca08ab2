"""Paths in patches: git's quoting, and which paths may be patched at all."""

from __future__ import annotations

import re

_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"')
# Characters that some file systems ignore in names.
_IGNORED = frozenset(
    chr(code) for code in (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF)
)
_ESCAPE = re.compile(rb"\\([0-3][0-7]{2}|.)", re.DOTALL)


def decode(name: bytes) -> str:
    """Turn a path's bytes into text; bytes that are not UTF-8 survive."""
    return name.decode("utf-8", "surrogateescape")


def encode(path: str) -> bytes:
    """Turn a path back into its bytes."""
    return path.encode("utf-8", "surrogateescape")


def printable(text: str) -> str:
    """Spell out what no terminal can show: the bytes of a path that are not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def unquote(text: bytes) -> bytes | None:
    """Undo git's C-style quoting of a whole ``"..."``; None where that is malformed."""
    match = _QUOTED.fullmatch(text)
    if match is None:
        return None
    try:
        return _ESCAPE.sub(_unescape, match[1])
    except KeyError:
        return None


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8)]) if len(code) == 3 else bytes([_ESCAPES[code.decode("latin-1")]])


def quote(name: bytes) -> bytes:
    """Quote a name as git does by default: only where a byte asks for it."""
    if not any(byte < 0x20 or byte >= 0x7F or byte in b'"\\' for byte in name):
        return name
    return b'"' + b"".join(_escape(byte) for byte in name) + b'"'


def _escape(byte: int) -> bytes:
    if byte in b'"\\':
        return b"\\" + bytes([byte])
    return bytes([byte]) if 0x20 <= byte < 0x7F else b"\\%03o" % byte


def header_name(text: bytes) -> bytes | None:
    """Read the name of a ``---`` or ``+++`` line: quoted, or up to the first tab."""
    if text.startswith(b'"'):
        end = _QUOTED.match(text)
        if end is None or text[end.end() : end.end() + 1] not in (b"", b"\t"):
            return None
        return unquote(end.group())
    return text.split(b"\t", 1)[0]


def git_line_pairs(text: bytes) -> list[tuple[bytes, bytes]]:
    """List each way to read ``a/OLD b/NEW`` of a ``diff --git`` line, whose spaces are ambiguous."""
    pairs = []
    for index in (index for index, byte in enumerate(text) if byte == 0x20):
        sides = [unquote(side) if side.startswith(b'"') else side for side in (text[:index], text[index + 1 :])]
        old, new = sides
        if old is not None and new is not None:
            pairs.append((old, new))
    return pairs


def path_fault(path: str) -> str | None:
    """Say why a path must not be patched, or None where it may be."""
    if not path:
        return "is empty"
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in path):
        return "holds a control character"
    if "\\" in path:
        return "holds a backslash"
    if path.startswith("/"):
        return "is absolute"
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "has an empty, '.' or '..' part, so that it may leave the tree"
    if any(_is_git_folder(part) for part in parts):
        return "touches a .git folder"
    return None


def _is_git_folder(part: str) -> bool:
    visible = "".join(character for character in part if character not in _IGNORED)
    return visible.casefold().rstrip(". ") in (".git", "git~1")
