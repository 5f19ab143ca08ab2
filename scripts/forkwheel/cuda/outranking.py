"""Ask an environment what it loads in preference to the JIT cache."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forkwheel.errors import UsageError
from forkwheel.recipe import JitCache

_PROBE = Path(__file__).with_name("outranking_probe.py")
_SECONDS = 60


@dataclass(frozen=True)
class Outranking:
    """Something that is loaded instead of what the JIT would compile.

    ``kind`` is ``distribution`` or ``prebuilt``. A distribution has its ``name`` and
    ``version``, and ``is_of_fork`` tells whether it is the fork's own; ``prebuilt`` objects
    have ``name`` and ``version`` empty. ``path`` is the folder that holds them, ``files`` how
    many objects there are.
    """

    kind: str
    name: str
    version: str
    is_of_fork: bool
    path: Path
    files: int

    def describe(self) -> str:
        """Say in one line what outranks the cache and what follows from it."""
        if self.kind == "prebuilt":
            return f"{self.path}: {self.files} prebuilt objects are loaded instead of what the JIT compiles"
        text = f"{self.name} {self.version} in {self.path} is loaded instead of what the JIT compiles"
        return text + ("" if self.is_of_fork else ", and is not the fork's own")


def outranking(cache: JitCache, *, python: Path, version: str) -> tuple[Outranking, ...]:
    """Return what outranks the cache in the environment of the interpreter ``python``.

    ``version`` is that of the fork. Nothing of the environment is imported. Raise UsageError
    where the interpreter cannot be run.
    """
    answer = _ask(python, {"distributions": cache.distributions, "prebuilt": cache.prebuilt})
    found = [
        Outranking(
            kind="distribution",
            name=item["name"],
            version=item["version"],
            is_of_fork=item["version"] == version or item["version"].startswith(f"{version}."),
            path=Path(item["path"]),
            files=0,
        )
        for item in answer["distributions"]
    ]
    return (*found, *_prebuilt([Path(path) for path in answer["prebuilt"]]))


def _prebuilt(paths: list[Path]) -> list[Outranking]:
    """Sum up the objects by the folder in which each has its own folder."""
    folders: dict[Path, set[Path]] = {}
    for path in paths:
        folders.setdefault(path.parent.parent, set()).add(path)
    return [
        Outranking(kind="prebuilt", name="", version="", is_of_fork=False, path=folder, files=len(files))
        for folder, files in folders.items()
    ]


def _ask(python: Path, question: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    hint = "give the python of the environment that will run the fork (3.8 or later)"
    try:
        done = subprocess.run(
            [str(python.absolute()), "-I", str(_PROBE), json.dumps(question)],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{python} did not answer within {_SECONDS} s", hint=hint) from error
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its answer is no text"
        raise UsageError(f"{python} cannot be run: {reason or error}", hint=hint) from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise UsageError(f"{python} ended with code {done.returncode}: {last}", hint=hint)
    try:
        answer = json.loads((done.stdout.strip().splitlines() or [""])[-1])  # start-up hooks may print above it
    except json.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict):
        raise UsageError(f"{python} is no Python: it answered {done.stdout[:80]!r}", hint=hint)
    return answer
