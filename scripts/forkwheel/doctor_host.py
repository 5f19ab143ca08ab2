"""What a machine must have: Python, git, compiler, disk, memory, namespaces, index, GPU and toolkit."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from forkwheel.errors import ForkwheelError, NoGpuError
from forkwheel.fetch.masking import mask

BUILD, KERNELS, SMOKE, INSTALL = "build", "kernels", "smoke", "install"
PURPOSES = (BUILD, KERNELS, SMOKE, INSTALL)

_GB = 1_000_000_000
_DISK = {BUILD: 2 * _GB, KERNELS: 12 * _GB}
_MEMORY = {BUILD: 1 * _GB, KERNELS: 6 * _GB}


@dataclass(frozen=True)
class Finding:
    """One check: what it is needed for, whether it holds (None: it could not be checked), and what to do.

    ``no_gpu`` tells a machine without a GPU from one whose GPU does not serve.
    """

    name: str
    needed_for: tuple[str, ...]
    holds: bool | None
    found: str
    hint: str = ""
    no_gpu: bool = False

    def status(self, purposes: tuple[str, ...]) -> str:
        """Return ``PASS``, ``SKIP``, ``FAIL``, or ``WARN`` where it is needed for other purposes only."""
        if self.holds is None:
            return "SKIP"
        if self.holds:
            return "PASS"
        return "FAIL" if set(self.needed_for) & set(purposes) else "WARN"


def python() -> Finding:
    """Check the Python that runs this."""
    version = ".".join(map(str, sys.version_info[:3]))
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    fits = (3, 10) <= sys.version_info[:2] <= (3, 13)
    hint = "use Python 3.10 to 3.13" if not fits else "apt install python3-venv" if missing else ""
    found = f"{version}{', without ' + ' and '.join(missing) if missing else ''}"
    return Finding("Python", (BUILD, KERNELS, INSTALL), fits and not missing, found, hint)


def system() -> Finding:
    """Check the platform."""
    fits = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")
    hint = "" if fits else "use Linux on x86_64 or aarch64; macOS may build wheels without compiled code"
    return Finding("platform", PURPOSES, fits, f"{platform.system()} {platform.machine()}", hint)


def git() -> Finding:
    """Check git, which fetches the pinned commits."""
    program = shutil.which("git")
    if program is None:
        return Finding("git", (BUILD,), False, "not on PATH", "apt install git")
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return Finding("git", (BUILD,), done.returncode == 0, done.stdout.strip() or "does not run", "repair git")


def compiler(environment: Mapping[str, str]) -> Finding:
    """Check the host's C++ compiler, which writes the host side of the kernels."""
    from forkwheel.cuda.host_compiler import find_host_compiler

    try:
        host = find_host_compiler(environment)
    except ForkwheelError as error:
        return Finding("C++ compiler", (KERNELS, SMOKE), False, error.message, error.hint)
    return Finding("C++ compiler", (KERNELS, SMOKE), True, host.label)


def disk(cache: Path) -> Iterator[Finding]:
    """Check the room for the cache and for temporary files."""
    for name, folder in (("disk of the cache", cache), ("disk of temporary files", Path(tempfile.gettempdir()))):
        there = next(path for path in (folder, *folder.parents) if path.exists())
        free = shutil.disk_usage(there).free
        hint = f"free some room below {there}" + (", or set FORKWHEEL_CACHE" if folder is cache else ", or set TMPDIR")
        yield _amount(name, free, _DISK, f"{free / _GB:.1f} GB free at {there}", hint)


def memory() -> Finding:
    """Check the memory that is free for use."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return Finding("memory", (BUILD, KERNELS), None, "this system does not tell")
    return _amount("memory", free, _MEMORY, f"{free / _GB:.1f} GB available", "end other programs, or add swap")


def _amount(name: str, free: int, wanted: Mapping[str, int], found: str, hint: str) -> Finding:
    lacking = tuple(purpose for purpose, size in wanted.items() if free < size)
    sizes = ", ".join(f"{size / _GB:.0f} GB for {purpose}" for purpose, size in wanted.items())
    return Finding(name, lacking or tuple(wanted), not lacking, f"{found} (needs {sizes})", hint)


def namespaces() -> Finding:
    """Check whether a build may have a mount namespace, which gives it a path that is the same everywhere."""
    program = shutil.which("unshare")
    hint = "without it kernels are built in a folder of a fixed name; sysctl kernel.unprivileged_userns_clone=1"
    if program is None:
        return Finding("user namespaces", (), False, "unshare is not on PATH", "apt install util-linux")
    done = subprocess.run([program, "-rm", "true"], capture_output=True, text=True, check=False)
    found = "work" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["refused"])[-1]
    return Finding("user namespaces", (), done.returncode == 0, found, hint)


def proxy(environment: Mapping[str, str]) -> Finding:
    """Tell which proxy is used; none is as well."""
    names = ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
    found = [f"{name}={mask(environment[name])}" for name in names if environment.get(name)]
    return Finding("proxy", (), True, ", ".join(found) or "none")


def index() -> Finding:
    """Ask the package index that pip is configured with for one page."""
    from unearth import PackageFinder

    from forkwheel.fetch.http_client import open_client
    from forkwheel.fetch.pip_settings import read_pip_settings

    try:
        settings = read_pip_settings()
        url = settings.index_url or str(PackageFinder().sources[0]["url"])
        if settings.no_index:
            return Finding("package index", (BUILD,), None, "pip is configured with no-index")
        if "://" not in url or url.startswith("file://"):
            return Finding("package index", (BUILD,), None, f"pip's index is a folder: {mask(url)}")
        with open_client(settings, [url], silence=10) as client:
            client.get(f"{url.rstrip('/')}/pip/")
    except ForkwheelError as error:
        return Finding("package index", (BUILD,), False, error.message, error.hint)
    return Finding("package index", (BUILD,), True, f"{mask(url)} answers")


def gpu(target: str) -> Iterator[Finding]:
    """Check the GPUs, their driver, and that they are of the recipe's target, where one is given."""
    from forkwheel.gpu.devices import find_machine

    try:
        machine = find_machine()
    except ForkwheelError as error:
        hint = f"{error.hint}; a build needs none"
        yield Finding("GPU", (SMOKE,), False, error.message, hint, no_gpu=isinstance(error, NoGpuError))
        return
    wanted = "SM" + "".join(filter(str.isdigit, target))
    kinds = sorted({device.architecture for device in machine.devices})
    names = sorted({device.name for device in machine.devices})
    fits = not target or kinds == [wanted]
    hint = f"the recipe is for {wanted}: what runs here says nothing of it"
    yield Finding("GPU", (SMOKE,), fits, f"{len(machine.devices)} x {', '.join(names)} ({', '.join(kinds)})", hint)
    cuda = ".".join(map(str, machine.cuda))
    new = machine.cuda >= (12, 8)
    yield Finding("driver", (SMOKE,), new, f"{machine.driver} (CUDA {cuda})", "install a driver for CUDA 12.8 or newer")


def toolkit(environment: Mapping[str, str]) -> Finding:
    """Tell which CUDA toolkit is installed; the locked one needs none."""
    from forkwheel.cuda.toolchain import system_toolchain

    try:
        toolchain = system_toolchain(environment)
    except ForkwheelError as error:
        hint = "the JIT needs one (CUDA_HOME); `kernels` brings its own"
        return Finding("CUDA toolkit", (SMOKE,), False, error.message, hint)
    return Finding("CUDA toolkit", (SMOKE,), True, f"{toolchain.nvcc_version} in {toolchain.cuda_home}")


def host_findings(*, cache: Path, target: str, offline: bool) -> Iterator[Finding]:
    """Yield every check of the machine itself."""
    yield system()
    yield python()
    yield git()
    yield compiler(os.environ)
    yield from disk(cache)
    yield memory()
    yield namespaces()
    yield proxy(os.environ)
    yield Finding("package index", (BUILD,), None, "not asked (--offline)") if offline else index()
    yield from gpu(target)
    yield toolkit(os.environ)
