"""CUDA toolkits: one made of the package index's own packages, or the one that is installed."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from forkwheel.console import Log
from forkwheel.cuda.host_compiler import HostCompiler, find_host_compiler, make_driver_stub
from forkwheel.cuda.targets import Target
from forkwheel.errors import RecipeError, ToolchainError, host_error
from forkwheel.release.inputs import TOOLCHAIN_FILENAME, Inputs, load_inputs, lock_hint
from forkwheel.store import Store
from forkwheel.tree import sha256_file
from forkwheel.wheels.environment import build_environment
from forkwheel.wheels.listing import is_whole, write_listing

LOCKED, SYSTEM = "locked", "system"
KINDS = (LOCKED, SYSTEM)

_LAYOUT = 1  # raised when the same packages are laid out in another way
_LISTING = "forkwheel.files.json"
_RELEASE = re.compile(r"release (\d+)\.(\d+), V(\S+)")
_COMPILER_FILES = (
    "bin/nvcc",
    "bin/cudafe++",
    "bin/ptxas",
    "bin/fatbinary",
    "nvvm/bin/cicc",
    "include/cuda_runtime_api.h",
    "lib64/libcudart_static.a",
)


@dataclass(frozen=True)
class Toolchain:
    """A CUDA toolkit and the host compiler beside it.

    ``digest`` names what makes device code: the locked files, or the compiler's own.
    """

    kind: str
    cuda_home: Path
    nvcc_version: str
    digest: str
    host: HostCompiler

    @property
    def release(self) -> tuple[int, int]:
        """The CUDA release, such as (13, 0)."""
        major, minor = self.nvcc_version.split(".")[:2]
        return int(major), int(minor)

    @property
    def needs_driver(self) -> int:
        """The oldest driver that the runtime works with, as ``cuDriverGetVersion`` counts: 13000."""
        return self.release[0] * 1000

    def check_targets(self, targets: Sequence[Target]) -> None:
        """Raise ToolchainError where the compiler is older than a target."""
        for target in targets:
            if self.release < target.needs_nvcc:
                needed = ".".join(map(str, target.needs_nvcc))
                raise ToolchainError(
                    f"nvcc {self.nvcc_version} in {self.cuda_home} does not know {target.name}: it needs {needed}",
                    hint="use the locked toolkit (--toolkit locked), or set CUDA_HOME to a newer one",
                )


def toolchain_lock_file(recipe_folder: Path) -> Path:
    """Return where a recipe locks its toolchain; its parts are ``toolkit``, ``reading`` and others."""
    return recipe_folder / TOOLCHAIN_FILENAME


def load_toolchain_lock(recipe_folder: Path) -> Inputs:
    """Read the toolchain's lock, in the form of the inputs' lock; raise RecipeError where a part is not pinned."""
    lock = toolchain_parts(recipe_folder)
    for part in lock.parts:
        if part.requires and not part.requirements:
            raise RecipeError(f"{lock.file}: the part {part.package!r} is not pinned", hint=lock_hint(lock.file))
    return lock


def toolchain_parts(recipe_folder: Path) -> Inputs:
    """Read the toolchain's lock, of which its author may have written the ``requires`` alone."""
    file = toolchain_lock_file(recipe_folder)
    if not file.is_file():
        raise RecipeError(f"there is no {file}, which kernels are compiled with", hint=lock_hint(file))
    return load_inputs(file)


def locked_toolchain(
    lock: Inputs, *, store: Store, log: Log, offline: bool = False, environment: Mapping[str, str] = os.environ
) -> Toolchain:
    """Assemble the locked toolkit in the cache, once, and return it.

    Raise FetchError or PinMismatchError where its packages cannot be had as locked.
    """
    host = find_host_compiler(environment)
    home = store.path("toolkits", f"{lock.digest('toolkit')}-{platform.machine()}-{_LAYOUT}")
    with store.lock(f"toolkit-{home.name}", waiting=lambda: log.info("waiting for another run's toolkit")):
        if not is_whole(home, home / _LISTING):
            store.discard(home)
            python = build_environment(lock.of("toolkit"), store=store, log=log, offline=offline)
            with store.temporary() as temporary:
                store.publish(_assembled(site_packages(python), temporary / "toolkit", host=host), home)
    return Toolchain(LOCKED, home, _nvcc_version(home), lock.digest("toolkit"), host)


def site_packages(python: Path) -> Path:
    """Return where an environment of this Python keeps its packages."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return python.parent.parent / "lib" / version / "site-packages"


def _assembled(packages: Path, home: Path, *, host: HostCompiler) -> Path:
    """Lay the packages' files out as every CUDA_HOME is."""
    compilers = sorted(packages.glob("nvidia/*/bin/nvcc"))
    if not compilers:
        raise ToolchainError(
            "the locked toolkit has no bin/nvcc", hint="see the `toolkit` part of the toolchain's lock"
        )
    link_tree(compilers[0].parent.parent, home)
    for tool in (*(home / "bin").iterdir(), *(home / "nvvm" / "bin").iterdir()):
        if tool.is_file() and not os.access(tool, os.X_OK) and not tool.suffix:
            tool.chmod(0o755)
    for library in (home / "lib").glob("*.so.*"):
        plain = library.with_name(library.name.partition(".so.")[0] + ".so")
        if not plain.exists():
            plain.symlink_to(library.name)
    if not (home / "lib64").exists():
        (home / "lib64").symlink_to("lib")
    make_driver_stub(home / "lib64" / "stubs", compiler=host)
    write_listing(home, home / _LISTING)
    return home


def link_tree(source: Path, target: Path) -> None:
    """Copy a folder by hard links where the file system allows it; what it holds must not be changed."""
    shutil.copytree(source, target, symlinks=True, copy_function=_link)


def _link(source: str, target: str) -> str:
    with suppress(OSError):
        os.link(source, target)
        return target
    try:
        shutil.copy2(source, target)
    except OSError as error:  # one clear error: copytree would go on, and list what failed of thousands of files
        raise host_error(error) from error
    return target


def system_toolchain(environment: Mapping[str, str] = os.environ) -> Toolchain:
    """Return the installed toolkit: ``CUDA_HOME``, then the nvcc on PATH.

    Raise ToolchainError where there is none or it is unfit, with what was found.
    """
    host = find_host_compiler(environment)
    home = _named_home(environment) or _home_on_path(environment)
    version = _nvcc_version(home)
    digest = sha256()
    for name in _COMPILER_FILES:
        file = home / name
        digest.update(f"{name} {sha256_file(file) if file.is_file() else '-'}\n".encode())
    return Toolchain(SYSTEM, home, version, digest.hexdigest(), host)


def _named_home(environment: Mapping[str, str]) -> Path | None:
    named = environment.get("CUDA_HOME")
    if not named:
        return None
    hint = "set CUDA_HOME to one CUDA toolkit's folder, or unset it, or use the locked toolkit (--toolkit locked)"
    if os.pathsep in named:
        raise ToolchainError(f"CUDA_HOME is a list, {named!r}; it must be one folder", hint=hint)
    home = Path(named)
    if not (home / "bin" / "nvcc").is_file():
        raise ToolchainError(f"CUDA_HOME is {named!r}, which has no bin/nvcc", hint=hint)
    return home.resolve()


def _home_on_path(environment: Mapping[str, str]) -> Path:
    """Ask nvcc itself where its toolkit is: what is on PATH may be a link or a script."""
    nvcc = shutil.which("nvcc", path=environment.get("PATH"))
    if nvcc is None:
        raise ToolchainError(
            "there is no CUDA toolkit: CUDA_HOME is not set and nvcc is not on PATH",
            hint="use the locked toolkit (--toolkit locked), which needs neither",
        )
    result = subprocess.run(
        [nvcc, "--dryrun", "-E", "-x", "cu", "/dev/null"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    match = re.search(r"^#\$ TOP=(.+)$", result.stderr, re.MULTILINE)
    home = Path(match[1]).resolve() if match else Path(nvcc).resolve().parent.parent
    if not (home / "bin" / "nvcc").is_file():
        raise ToolchainError(f"{nvcc} belongs to no toolkit: {home} has no bin/nvcc", hint="set CUDA_HOME")
    return home


def _nvcc_version(home: Path) -> str:
    nvcc = home / "bin" / "nvcc"
    try:
        result = subprocess.run(
            [str(nvcc), "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise ToolchainError(f"{nvcc} cannot be run: {error.strerror}", hint="repair the CUDA toolkit") from error
    match = _RELEASE.search(result.stdout)
    if match is None:
        said = (result.stdout + result.stderr).strip()[-200:]
        raise ToolchainError(f"{nvcc} does not tell its version: {said!r}", hint="repair the CUDA toolkit")
    return match[3]
