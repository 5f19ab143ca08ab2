"""The lowest platform that compiled objects run on, as auditwheel reads it from their symbols."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from forkwheel.errors import BuildError, VerificationError

_OF_EVERY_SYSTEM = (
    "libc.so",
    "libm.so",
    "libdl.so",
    "librt.so",
    "libpthread.so",
    "ld-linux",
    "libstdc++.so",
    "libgcc_s.so",
)
_DRIVER = "libcuda.so"


def platform_tag(wheel: Path, *, python: Path) -> str:
    """Return the platform tag for a wheel of the host's architecture, such as ``manylinux_2_34_x86_64``.

    ``python`` is an environment with auditwheel. Only symbol versions decide. Raise
    VerificationError for an object that needs a library that not every system has: of
    CUDA's, only the driver's own may stay outside.
    """
    command = [str(python), "-I", "-m", "auditwheel", "show", "--json", str(wheel)]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    try:
        answer = json.loads(result.stdout)
        tag = str(answer["sym_tag"])
        libraries = list(answer["external_libs"])
    except (ValueError, KeyError, TypeError) as error:
        raise BuildError(
            f"auditwheel cannot read {wheel.name}: {_said(result, result.stdout)}",
            hint="see that the objects are shared objects of this machine's architecture",
        ) from error
    _check_libraries(wheel.name, libraries)
    return tag


def _said(result: subprocess.CompletedProcess[str], answer: Any) -> str:
    lines = (result.stderr.strip() or str(answer)).splitlines()
    return lines[-1] if lines else f"exit code {result.returncode}"


def _check_libraries(wheel: str, libraries: list[str]) -> None:
    foreign = sorted(name for name in libraries if not name.startswith((*_OF_EVERY_SYSTEM, _DRIVER)))
    if foreign:
        raise VerificationError(
            f"{wheel}: its objects need {', '.join(foreign)} at load time",
            hint="link them statically, or leave the module out: another CUDA release has no such library",
        )
