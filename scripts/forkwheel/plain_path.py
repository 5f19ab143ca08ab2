"""What a path in a recipe may be: relative, plain, and writable on every file system."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

LONGEST_NAME = 255
"""Bytes of one file's or folder's name: what Linux file systems hold."""
LONGEST_PATH = 2000
"""Bytes of a path in a tree: Linux takes 4095 from the root on, and trees lie in folders of their own."""

_GIT_FOLDERS = (".git", "git~1")
_UNPRINTABLE = ("Cc", "Cs", "Zl", "Zp")


def path_fault(path: str) -> str | None:
    """Say what keeps ``path``, a file of a tree or a pattern of such, from being a plain relative path."""
    parts = path.split("/")
    if path.startswith("/") or "\\" in path or any(part in ("", ".", "..") for part in parts):
        return "it must be like folder/file, without '..', '//', '\\' or a '/' at either end"
    if any(part.casefold().rstrip(" .") in _GIT_FOLDERS for part in parts):
        return "nothing may lie in a .git folder"
    return name_fault(path)


def name_fault(path: str) -> str | None:
    """Say what keeps a path of any kind, relative or absolute, from being looked up at all."""
    if any(unicodedata.category(character) in _UNPRINTABLE for character in path):
        return "it holds a control character or a line break"
    size = max(len(part.encode()) for part in path.split("/"))
    if size > LONGEST_NAME:
        return f"a name in it has {size} bytes, and file systems hold {LONGEST_NAME}"
    size = len(path.encode())
    return f"it has {size} bytes, over {LONGEST_PATH}" if size > LONGEST_PATH else None


def folders_of(path: str) -> Iterator[str]:
    """Yield the folders that a path in a tree lies in, from the outermost on."""
    parts = path.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts)))
