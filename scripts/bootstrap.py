"""The checkout's own environment, made on first use: nox and forkwheel in ``.venv``.

Needs nothing but Python and its standard library, so that the first command of the
README works on a machine whose Python refuses installs outside an environment, and,
from a bundle, on one without a network.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

try:
    import fcntl
except ModuleNotFoundError:
    sys.exit("error: Windows is not supported\nhint: use Linux, or macOS for wheels without compiled code")

NOX = "nox>=2025.2.9"
_FROM_BUNDLE = "--from-bundle"
_BUNDLE_OPTIONS = (_FROM_BUNDLE, "--bundle")
_USAGE = 2


def run_nox(root: Path, arguments: list[str]) -> NoReturn:
    """Replace this process by nox, run on the noxfile in ``root``."""
    program = str(environment(root, resolved(arguments, Path.cwd())) / "bin" / "nox")
    os.execv(program, [program, "--noxfile", str(root / "noxfile.py"), *arguments])  # noqa: S606


def resolved(arguments: Sequence[str], folder: Path) -> list[str]:
    """Return the arguments with the folders of bundles as seen from ``folder``; nox itself works beside its noxfile."""
    result: list[str] = []
    previous = ""
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if previous in _BUNDLE_OPTIONS:
            argument = str(folder / argument)
        elif equals and name in _BUNDLE_OPTIONS:
            argument = f"{name}={folder / value}"
        result.append(argument)
        previous = argument
    return result


def environment(root: Path, arguments: Sequence[str] = ()) -> Path:
    """Return the environment, made anew where pyproject.toml has changed.

    Where the ``arguments`` of the run name a bundle to build from, it is made of that bundle alone.
    """
    bundle = _read_bundle(arguments)
    missing = _missing()
    if missing:
        _fail(f"missing on this machine: {', '.join(missing)}", "apt install " + " ".join(missing))
    folder = root / ".venv"
    wanted = hashlib.sha256((root / "pyproject.toml").read_bytes() + f"{NOX} {root}".encode()).hexdigest()
    with (root / "pyproject.toml").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        stamp = folder / "forkwheel-installed"
        if not stamp.exists() or stamp.read_text() != wanted or not _runs(folder / "bin" / "python"):
            _install(root, folder, bundle)
            stamp.write_text(wanted)
    return folder


def _runs(python: Path) -> bool:
    """Tell whether an interpreter still works; one whose base was upgraded or removed does not."""
    return python.exists() and subprocess.run([str(python), "-c", ""], check=False).returncode == 0


def _install(root: Path, folder: Path, bundle: _Bundle | None) -> None:
    if bundle:
        bundle.check_serves()
    print(f"setting up {folder}", flush=True)
    python = str(folder / "bin" / "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    variables = bundle.variables() if bundle else None
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([*pip, "install", NOX, "--editable", str(root)], check=True, env=variables)
    except (OSError, subprocess.CalledProcessError) as error:
        advice = "make the bundle anew from this checkout" if bundle else "does pip reach its package index?"
        _fail(f"{folder} could not be set up: {error}", f"read the lines above; {advice}")


class _Bundle(NamedTuple):
    """A bundle's folder, and the Python versions and the machine that its tools serve."""

    folder: Path
    pythons: tuple[str, ...]
    machine: str

    def check_serves(self) -> None:
        """Say what pip would say in many lines: that the bundle was made for others."""
        python, machine = "{}.{}".format(*sys.version_info[:2]), platform.machine()
        if not self.pythons:
            _fail(f"the bundle {self.folder} lacks nox and forkwheel's own needs", "make it without --no-tools", _USAGE)
        if python not in self.pythons or machine != self.machine:
            served = f"Python {', '.join(self.pythons)} on {self.machine}"
            message = f"the bundle {self.folder} is for {served}; this is Python {python} on {machine}"
            _fail(message, "use one of these Pythons, or make a bundle on a machine like this one", _USAGE)

    def variables(self) -> dict[str, str]:
        """Have pip read the bundle and nothing else."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        links = (self.folder / "files").as_uri()
        return {**kept, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": links}


def _read_bundle(arguments: Sequence[str]) -> _Bundle | None:
    named = _named_bundle(arguments)
    if named is None:
        return None
    folder = Path(named).absolute()
    try:
        record: dict[str, Any] = json.loads((folder / "bundle.json").read_bytes())
        return _Bundle(folder, tuple(record["tool_pythons"]), str(record["machine"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        hint = "make one with `python3 noxfile.py -s fetch -- --recipe NAME --bundle DIR`"
        reason = error.strerror if isinstance(error, OSError) else error
        _fail(f"{folder} is no bundle: bundle.json cannot be read: {reason}", hint, _USAGE)


def _named_bundle(arguments: Sequence[str]) -> str | None:
    remaining = iter(arguments)
    for argument in remaining:
        name, equals, value = argument.partition("=")
        if name == _FROM_BUNDLE:
            return value if equals else next(remaining, "")
    return None


def _missing() -> list[str]:
    if sys.version_info < (3, 10):
        _fail(f"Python {sys.version.split()[0]} is too old", "use Python 3.10 or newer")
    missing = [] if shutil.which("git") else ["git"]
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        missing.append("python3-venv")
    return missing


def _fail(message: str, hint: str, code: int = 1) -> NoReturn:
    print(f"error: {message}\nhint: {hint}", file=sys.stderr)
    raise SystemExit(code)
