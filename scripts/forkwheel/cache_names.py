"""What an entry of the cache is, in a person's words, where a record in it or its name tells."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_DIGEST = re.compile(r"[0-9a-f]{40,64}")
_SHORT = 8
_LISTED = 3
_LARGEST = 1 << 26  # bytes of a record; a larger one is not read for its name
_ILL_FORMED = (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError)


def entry_name(path: Path) -> str:
    """Name an entry by what it holds and by its key, shortened; by its own name where nothing tells."""
    key = _DIGEST.sub(lambda match: match[0][:_SHORT], path.name.removesuffix(".json"))
    tell = _TELLING.get(path.parent.name)
    try:
        told = tell(path) if tell is not None else ""
    except _ILL_FORMED:
        told = ""
    return f"{told} ({key})" if told else key


def _archive(path: Path) -> str:
    """Return the file's name, under which alone an archive is looked for."""
    return min(file.name for file in path.iterdir())


def _archive_read(path: Path) -> str:
    return _archive(path.parent.parent / "archives" / path.stem)


def _wheel(path: Path) -> str:
    return _list([_record(file)["filename"] for file in sorted(path.glob("*/build.json"))])


def _tree(path: Path) -> str:
    observed = dict(_record(path / "tree.json")["observed"])
    address = urlsplit(observed["from"].rstrip("/"))
    return f"{observed['kind']} {unquote(address.path.rpartition('/')[2])}"


def _environment(path: Path) -> str:
    found = [info.name for info in path.glob("*/lib/python*/site-packages/*.dist-info")]
    return _list(sorted(" ".join(name.removesuffix(".dist-info").rsplit("-", 1)) for name in found))


def _kernels(path: Path) -> str:
    return _list([module["name"] for module in _record(path / "build.json")["modules"]])


def _audit(path: Path) -> str:
    document = _record(path)
    if document.get("passed"):
        return "passed"
    if "trees" not in document:  # what a part of an audit found
        return _list(sorted({gate["tree"] for gate in document["gates"]}))
    return f"{_list(document['trees'])} for {document['target']}"


def _census(path: Path) -> str:
    return _list(list(dict.fromkeys(one["name"].partition("#")[0] for one in _record(path)["objects"])))


def _record(file: Path) -> Any:
    if file.stat().st_size > _LARGEST:
        raise ValueError(f"{file} is too large for a record")
    return json.loads(file.read_bytes())


def _list(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


_TELLING: dict[str, Callable[[Path], str]] = {
    "archives": _archive,
    "upstream": _archive_read,
    "wheels": _wheel,
    "trees": _tree,
    "envs": _environment,
    "kernels": _kernels,
    "audits": _audit,
    "census": _census,
}
"""How the entries of a folder are told."""
