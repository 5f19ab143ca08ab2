"""The checkout's own environment, made on first use: nox and forkwheel in ``.venv``.

Needs nothing but Python and its standard library, so that the first command of the
README works on a machine whose Python refuses installs outside an environment.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

try:
    import fcntl
except ModuleNotFoundError:
    sys.exit("error: Windows is not supported\nhint: use Linux, or macOS for wheels without compiled code")

NOX = "nox>=2025.2.9"


def run_nox(root: Path, arguments: list[str]) -> NoReturn:
    """Replace this process by nox, run on the noxfile in ``root``."""
    program = str(environment(root) / "bin" / "nox")
    os.execv(program, [program, "--noxfile", str(root / "noxfile.py"), *arguments])  # noqa: S606


def environment(root: Path) -> Path:
    """Return the environment, made anew where pyproject.toml has changed."""
    missing = _missing()
    if missing:
        _fail(f"missing on this machine: {', '.join(missing)}", "apt install " + " ".join(missing))
    folder = root / ".venv"
    wanted = hashlib.sha256((root / "pyproject.toml").read_bytes() + f"{NOX} {root}".encode()).hexdigest()
    with (root / "pyproject.toml").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        stamp = folder / "forkwheel-installed"
        if not stamp.exists() or stamp.read_text() != wanted or not _runs(folder / "bin" / "python"):
            _install(root, folder)
            stamp.write_text(wanted)
    return folder


def _runs(python: Path) -> bool:
    """Tell whether an interpreter still works; one whose base was upgraded or removed does not."""
    return python.exists() and subprocess.run([str(python), "-c", ""], check=False).returncode == 0


def _install(root: Path, folder: Path) -> None:
    print(f"setting up {folder}", flush=True)
    python = str(folder / "bin" / "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([*pip, "install", NOX, "--editable", str(root)], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        _fail(f"{folder} could not be set up: {error}", "read the lines above; does pip reach its package index?")


def _missing() -> list[str]:
    if sys.version_info < (3, 10):
        _fail(f"Python {sys.version.split()[0]} is too old", "use Python 3.10 or newer")
    missing = [] if shutil.which("git") else ["git"]
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        missing.append("python3-venv")
    return missing


def _fail(message: str, hint: str) -> NoReturn:
    sys.exit(f"error: {message}\nhint: {hint}")
