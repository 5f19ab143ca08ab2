"""Run pip with the person's index settings and none of the others.

A person's pip may be told to constrain versions, to install into the user's folder or to
refuse to work outside an environment. Which index is asked, and how, is theirs to say;
what is installed, and where, is ours.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from forkwheel.children import CHILDREN
from forkwheel.errors import BuildError
from forkwheel.fetch.masking import mask
from forkwheel.fetch.pip_settings import PipSettings, read_pip_settings

_KEPT = ("PIP_CACHE_DIR", "PIP_KEYRING_PROVIDER", "PIP_NO_CACHE_DIR", "PIP_RETRIES")
_WITHOUT_PREFIXES = ("PIP_", "_PIP_", "PYTHON", "GIT_", "VIRTUAL_ENV", "__PYVENV")
_SHOWN_LINES = 12


def pip_environment() -> dict[str, str]:
    """Return the environment for pip runs: the person's own, but of pip's settings only the index's.

    Credentials are in it, and so never among a process's arguments.
    """
    own = os.environ.items()
    kept = {name: value for name, value in own if name in _KEPT or not name.startswith(_WITHOUT_PREFIXES)}
    fixed = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PYTHONNOUSERSITE": "1",
        "LC_ALL": "C.UTF-8",
    }
    return {**kept, **index_variables(read_pip_settings()), **fixed}


def index_variables(settings: PipSettings) -> dict[str, str]:
    """Spell the settings that say which index is asked, and how, as pip's environment variables."""
    values = {
        "PIP_INDEX_URL": settings.index_url,
        "PIP_EXTRA_INDEX_URL": " ".join(settings.extra_index_urls),
        "PIP_FIND_LINKS": " ".join(settings.find_links),
        "PIP_NO_INDEX": "1" if settings.no_index else None,
        "PIP_TRUSTED_HOST": " ".join(settings.trusted_hosts),
        "PIP_CERT": settings.cert,
        "PIP_CLIENT_CERT": settings.client_cert,
        "PIP_PROXY": settings.proxy,
        "PIP_TIMEOUT": f"{settings.timeout:g}",
    }
    return {name: value for name, value in values.items() if value}


def run_pip(arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str]) -> str:
    """Run pip and return its standard output; raise PipError with its last lines where it fails.

    ``folder`` is an empty folder to run in, so that nothing lying around is imported.
    """
    command = [sys.executable, "-m", "pip", *arguments]
    result = CHILDREN.run(command, folder=folder, environment=environment)
    if result.returncode:
        raise PipError(mask(result.stdout + result.stderr))
    return result.stdout


class PipError(BuildError):
    """Pip failed; ``output`` is what it said, without credentials."""

    def __init__(self, output: str) -> None:
        lines = [line for line in output.splitlines() if line.strip()]
        said = "\n".join(lines[-_SHOWN_LINES:]) or "it said nothing"
        if is_disk_full(output):
            super().__init__(f"disk full: pip failed: {said}", hint=ROOM)
        else:
            super().__init__(
                f"pip failed: {said}", hint="see that pip is installed for this Python and can reach its index"
            )
        self.output = output


def is_disk_full(text: str) -> bool:
    """Tell whether what a Python program said of its failure is that a disk or a quota is full."""
    return any(os.strerror(number) in text for number in (errno.ENOSPC, errno.EDQUOT))


ROOM = "make room on the disks of the cache (FORKWHEEL_CACHE), of pip's own cache and of the temporary folder (TMPDIR)"
"""What to do where a disk is full."""
