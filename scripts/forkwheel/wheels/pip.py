"""Run pip with the person's index settings and none of the others.

A person's pip may be told to constrain versions, to install into the user's folder or to
refuse to work outside an environment. Which index is asked, and how, is theirs to say;
what is installed, and where, is ours.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from forkwheel.errors import BuildError
from forkwheel.fetch.masking import mask

_INDEX_SETTINGS = (
    "index-url",
    "extra-index-url",
    "find-links",
    "no-index",
    "trusted-host",
    "cert",
    "client-cert",
    "proxy",
    "timeout",
    "default-timeout",
    "retries",
    "keyring-provider",
    "cache-dir",
    "no-cache-dir",
)
_SECTIONS = ("global", "install", ":env:")  # in the order in which pip lets a later one win
_SETTING = re.compile(r"^(?P<section>[^.=]+)\.(?P<name>[^=]+)=(?P<value>.*)$")
_WITHOUT_PREFIXES = ("PIP_", "PYTHON", "GIT_", "VIRTUAL_ENV", "__PYVENV")


def index_settings(*, folder: Path) -> dict[str, str]:
    """Return the person's settings that say which index is asked and how, as pip's variables.

    ``folder`` is an empty folder to run in, so that nothing lying around is imported.
    """
    listed = run_pip(["config", "list"], folder=folder, environment=_without_python_variables())
    settings: dict[str, str] = {}
    for section in _SECTIONS:
        for line in listed.splitlines():
            match = _SETTING.match(line)
            if match is None or match["section"] != section or match["name"] not in _INDEX_SETTINGS:
                continue
            value = str(ast.literal_eval(match["value"]))
            if value:
                settings["PIP_" + match["name"].upper().replace("-", "_")] = " ".join(value.split())
    return settings


def pip_environment(*, folder: Path) -> dict[str, str]:
    """Return the environment for pip runs: the person's own, but of pip's settings only the index's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_WITHOUT_PREFIXES)}
    fixed = {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    return {**kept, **index_settings(folder=folder), **fixed, "PYTHONNOUSERSITE": "1", "LC_ALL": "C.UTF-8"}


def _without_python_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "__PYVENV"))}


def run_pip(arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str]) -> str:
    """Run pip and return its standard output; raise PipError with its last lines where it fails."""
    command = [sys.executable, "-m", "pip", *arguments]
    result = subprocess.run(
        command, cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise PipError(mask(result.stdout + result.stderr))
    return result.stdout


class PipError(BuildError):
    """Pip failed; ``output`` is what it said, without credentials."""

    def __init__(self, output: str) -> None:
        lines = [line for line in output.splitlines() if line.strip()]
        super().__init__(
            "pip failed: " + ("\n".join(lines[-12:]) or "it said nothing"),
            hint="see that pip is installed for this Python and can reach its index",
        )
        self.output = output
