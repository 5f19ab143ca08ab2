"""Say what in an environment is loaded in preference to a JIT cache.

This file is run by that environment's own interpreter, isolated, with nothing but the
standard library: ``python -I outranking_probe.py '{"distributions": […], "prebuilt": […]}'``
prints one JSON document.
"""

from __future__ import annotations

import json
import os
import re
import site
import sys
from email import message_from_string
from importlib import metadata
from pathlib import Path


def search_path() -> list[str]:
    """List the folders from which the interpreter imports when it is not isolated, in order."""
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep) + sys.path[:]
    if not os.environ.get("PYTHONNOUSERSITE") and _sees_user_site():
        folders.append(site.getusersitepackages())
    found: list[str] = []
    for folder in folders:
        real = os.path.realpath(folder)
        if folder and Path(real).is_dir() and real not in found:
            found.append(real)
    return found


def _sees_user_site() -> bool:
    """Tell whether the user's own site-packages count: not in a closed virtual environment."""
    if sys.prefix == sys.base_prefix:
        return True
    try:
        text = (Path(sys.prefix) / "pyvenv.cfg").read_text(encoding="utf-8")
    except OSError:
        return False
    return re.search(r"(?im)^\s*include-system-site-packages\s*=\s*true\s*$", text) is not None


def normalised(name: str) -> str:
    """Spell a distribution's name in the one way in which names are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions(names: list[str], folders: list[str]) -> list[dict[str, str]]:
    """Find installed distributions; of several of one name the first on the path counts."""
    wanted = {normalised(name) for name in names}
    found: dict[str, dict[str, str]] = {}
    for distribution in metadata.distributions(path=folders):
        name, version = name_and_version(distribution)
        if name in wanted and name not in found:
            found[name] = {"name": name, "version": version, "path": str(distribution.locate_file(""))}
    return list(found.values())


def name_and_version(distribution: metadata.Distribution) -> tuple[str, str]:
    """Read both from a distribution's metadata; they are empty where that is damaged or missing."""
    try:
        text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    except (OSError, UnicodeDecodeError):
        return "", ""
    fields = message_from_string(text)
    return normalised(fields["Name"] or ""), fields["Version"] or ""


def prebuilt(patterns: list[str], folders: list[str]) -> list[str]:
    """Find the files that match one of the patterns below one of the folders."""
    return [path for folder in folders for pattern in patterns for path in sorted(map(str, Path(folder).glob(pattern)))]


def main(question: str) -> None:
    """Answer the question on standard output."""
    asked = json.loads(question)
    folders = search_path()
    answer = {
        "distributions": distributions(asked["distributions"], folders),
        "prebuilt": prebuilt(asked["prebuilt"], folders),
    }
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1])
