"""The host's C++ compiler and linker, which write the host side of every object."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from forkwheel.errors import ToolchainError


@dataclass(frozen=True)
class HostCompiler:
    """A compiler's command, what it calls itself, and the linker that it uses.

    ``chosen`` tells that the person named it (``CXX``), so that nvcc must be told too.
    """

    command: str
    version: str
    linker: str
    chosen: bool

    @property
    def label(self) -> str:
        """Name both, as locks and reports do: ``gcc 12.2.0, ld 2.40``."""
        return f"{self.version}, {self.linker}"


def find_host_compiler(environment: Mapping[str, str]) -> HostCompiler:
    """Return the compiler that ``CXX`` names, or ``c++``; raise ToolchainError where there is none."""
    named = environment.get("CXX", "")
    command = shutil.which(named or "c++", path=environment.get("PATH"))
    if command is None:
        raise ToolchainError(
            f"there is no C++ compiler: {named or 'c++'!r} is not on PATH",
            hint="install g++ (Debian and Ubuntu: apt install g++), or set CXX to one command",
        )
    command = str(Path(command).absolute())  # it is run in other folders
    numbers = _output([command, "-dumpfullversion", "-dumpversion"], environment).split()
    linker = _linker([command, "-Wl,--version"], environment)
    banner = _output([command, "--version"], environment)
    name = "clang" if "clang" in banner else "gcc"
    if not numbers:
        raise ToolchainError(f"{command} does not tell its version", hint="set CXX to a working g++")
    return HostCompiler(command, f"{name} {numbers[0]}", linker, bool(named))


def make_driver_stub(folder: Path, *, compiler: HostCompiler) -> None:
    """Make a ``libcuda.so`` without content in ``folder``, so that linking needs no driver."""
    folder.mkdir(parents=True, exist_ok=True)
    options = ["-shared", "-nostdlib", "-Wl,-soname,libcuda.so.1", "-Wl,--build-id=none"]
    command = [compiler.command, *options, "-x", "c", "/dev/null", "-o", str(folder / "libcuda.so")]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if result.returncode:
        raise ToolchainError(
            f"{compiler.command} cannot link a shared object: {result.stderr.strip()[-300:]}",
            hint="repair the compiler's installation, or set CXX to another one",
        )


def _output(command: Sequence[str], environment: Mapping[str, str]) -> str:
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=dict(environment)
        )
    except OSError as error:
        raise ToolchainError(
            f"{command[0]} cannot be run: {error.strerror}", hint="set CXX to a working g++"
        ) from error
    return result.stdout


def _linker(command: Sequence[str], environment: Mapping[str, str]) -> str:
    first = next(iter(_output(command, environment).splitlines()), "")
    match = re.match(r"(?:GNU |LLVM )?(ld|gold|LLD|mold)\b.*?(\d+\.\d+(?:\.\d+)?)", first)
    return f"{match[1]} {match[2]}" if match else f"linker {first or 'unknown'}"
