"""Upload a set through twine, to any server that has the package index's upload API.

twine brings the person's own configuration and keyring. What is secret reaches it in its
environment, never among a process's arguments.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from urllib.parse import unquote, urlunsplit

from forkwheel.errors import PublishError
from forkwheel.fetch.masking import mask
from forkwheel.release.publish import Published
from forkwheel.release.web_address import read_web_address
from forkwheel.release.wheel_set import SetWheel, WheelSet

_SHOWN_LINES = 12


def upload_set(repository: str, wheels: WheelSet, *, more: Sequence[SetWheel] = ()) -> Published:
    """Upload a set's wheels, each after those that it requires, and ``more`` that belong to it.

    ``repository`` is a name in the person's ``.pypirc``, or a URL. Raise PublishError with what
    the server said where it refuses.
    """
    if importlib.util.find_spec("twine") is None:
        raise PublishError("twine, which uploads, is not installed", hint="pip install 'forkwheel[publish]'")
    environment = {**os.environ, **twine_variables(repository), "PYTHONUTF8": "1", "NO_COLOR": "1"}
    environment |= {"TWINE_NON_INTERACTIVE": "1", "COLUMNS": "200"}
    all_wheels = (*wheels.wheels, *more)
    files = [str(wheel.path.absolute()) for wheel in all_wheels]
    done = subprocess.run(
        [sys.executable, "-m", "twine", "--no-color", "upload", "--non-interactive", "--disable-progress-bar", *files],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PublishError(
            f"the upload to {_shown(repository)} failed: {_last(done.stdout + done.stderr, environment)}",
            hint="see that the server lets this user upload (.pypirc, keyring, TWINE_USERNAME and TWINE_PASSWORD), "
            "and that it has no file of that name: a published file never changes",
        )
    return Published(tuple(wheel.filename for wheel in all_wheels), ())


def twine_variables(repository: str) -> dict[str, str]:
    """Spell a repository as twine's environment variables; a URL's user and password go apart from it."""
    if "://" not in repository:
        return {"TWINE_REPOSITORY": repository}
    parts = read_web_address(repository, what="the repository")
    port = f":{parts.port}" if parts.port else ""
    name = parts.hostname or ""
    host = f"[{name}]" if ":" in name else name
    variables = {"TWINE_REPOSITORY_URL": urlunsplit((parts.scheme, f"{host}{port}", parts.path, parts.query, ""))}
    if parts.username is not None:
        variables["TWINE_USERNAME"] = unquote(parts.username)
    if parts.password is not None:
        variables["TWINE_PASSWORD"] = unquote(parts.password)
    return variables


def _shown(repository: str) -> str:
    return mask(repository) if "://" in repository else repository


def _last(output: str, environment: Mapping[str, str]) -> str:
    """Return the last lines of what twine said, without anything secret."""
    lines = [mask(line).strip() for line in output.splitlines() if line.strip()]
    text = "\n".join(lines[-_SHOWN_LINES:]) or "twine said nothing"
    password = environment.get("TWINE_PASSWORD")
    return text.replace(password, "***") if password else text
