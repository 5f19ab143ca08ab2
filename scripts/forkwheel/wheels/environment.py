"""Build environments: isolated, made of locked requirements, and cached by what is in them."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from packaging.markers import Marker
from packaging.tags import Tag, sys_tags
from packaging.utils import parse_wheel_filename

from forkwheel.console import Log, plural
from forkwheel.errors import BuildError, FetchError, ForkwheelError, PinMismatchError
from forkwheel.release.inputs import LockedRequirement
from forkwheel.store import Store, remove_tree, write_whole
from forkwheel.wheels.listing import is_whole, write_listing
from forkwheel.wheels.pip import ROOM, PipError, is_disk_full, pip_environment, run_pip

_FORMAT = 1
_COMPLETE = "complete"
_TRY = re.compile(r"try-[a-z0-9_]+")


def build_environment(
    requirements: tuple[LockedRequirement, ...], *, store: Store, log: Log, offline: bool = False
) -> Path:
    """Return the Python executable of an environment that holds exactly ``requirements``.

    It is made once and cached; one that a killed run left half made is made anew. Raise
    FetchError where it would need the index and ``offline`` forbids that, PinMismatchError
    where the index serves other files than the lock names.
    """
    wanted = tuple(requirement for requirement in requirements if _applies(requirement))
    digest = environment_digest(wanted)
    folder = store.path("envs", digest)
    with store.lock(f"env-{digest}", waiting=lambda: log.info("waiting for another run's build environment")):
        if (python := _finished(folder)) is not None:
            return python
        if offline:
            raise FetchError(
                f"the build environment for {log.package} is not whole in the cache, and --offline forbids fetching it",
                hint="run once without --offline",
            )
        _check_platform(wanted)
        log.info(f"making a build environment of {plural(len(wanted), 'locked requirement')}")
        return _make(folder, wanted, store=store)


def environment_digest(requirements: Iterable[LockedRequirement]) -> str:
    """Name an environment by what is installed in it and by the Python that runs it."""
    parts = {
        "format": _FORMAT,
        "python": [platform.python_implementation(), platform.python_version(), sys.platform, platform.machine()],
        "prefix": sys.base_prefix,
        "requirements": sorted([item.name, item.version, *item.hashes] for item in requirements),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _applies(requirement: LockedRequirement) -> bool:
    return requirement.marker is None or Marker(requirement.marker).evaluate()


def _check_platform(requirements: Iterable[LockedRequirement]) -> None:
    """Refuse, before anything is fetched, a requirement that is locked for other platforms only."""
    supported = frozenset(sys_tags())
    for requirement in requirements:
        if requirement.files and not any(_tags(file) & supported for file, _ in requirement.files):
            raise BuildError(
                f"{requirement.name} {requirement.version} is locked without a wheel for Python "
                f"{platform.python_version()} on {sys.platform} {platform.machine()}",
                hint="use CPython 3.10 to 3.13 on Linux x86_64 or aarch64, or write its lock anew",
            )


def _tags(filename: str) -> frozenset[Tag]:
    return parse_wheel_filename(filename)[3]


def _finished(folder: Path) -> Path | None:
    """Return the python of the environment that was made whole in ``folder``, if one was and still is."""
    try:
        name = (folder / _COMPLETE).read_text(encoding="ascii")
    except (OSError, ValueError):  # whatever stands there is not what a finished run wrote
        return None
    environment = folder / name
    if not _TRY.fullmatch(name) or environment.is_symlink() or not is_whole(environment, _listing(environment)):
        return None
    python = _python(environment)
    return python if python.exists() else None


def _listing(environment: Path) -> Path:
    return environment.with_name(f"{environment.name}.files")


def _python(environment: Path) -> Path:
    return environment / "bin" / "python"


def _make(folder: Path, requirements: tuple[LockedRequirement, ...], *, store: Store) -> Path:
    """Make an environment in its place (it cannot be moved), and name it as complete at the very end.

    Each try has a folder of its own: the pip of a killed run may still be writing to that run's.
    """
    try:
        _clear(folder)
        folder.mkdir(exist_ok=True)
        environment = Path(tempfile.mkdtemp(dir=folder, prefix="try-"))
        _make_venv(environment)
        with store.temporary() as temporary:
            _install(environment, requirements, temporary=temporary)
        write_listing(environment, _listing(environment))
        write_whole(folder / _COMPLETE, environment.name.encode())
    except OSError as error:
        full = "disk full: " if is_disk_full(str(error)) else ""
        raise BuildError(
            f"{full}the build environment cannot be written to {folder}: {error.strerror or error}",
            hint=ROOM if full else "see that the cache (FORKWHEEL_CACHE) can be written to",
        ) from error
    return _python(environment)


def _clear(folder: Path) -> None:
    """Remove what stands in an environment's place, as far as no process writes to it."""
    if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir()):
        folder.unlink()
    elif folder.exists():
        with suppress(OSError):  # each try has a folder of its own
            remove_tree(folder)


def _make_venv(folder: Path) -> None:
    command = [sys.executable, "-I", "-m", "venv", "--without-pip", str(folder)]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    output = (result.stdout + result.stderr).strip()
    if result.returncode and is_disk_full(output):
        raise BuildError(f"disk full: python -m venv failed: {output[-500:]}", hint=ROOM)
    if result.returncode:
        raise BuildError(
            f"python -m venv failed: {output[-500:]}",
            hint="install Python's venv module (Debian and Ubuntu: python3-venv)",
        )


def _install(folder: Path, requirements: tuple[LockedRequirement, ...], *, temporary: Path) -> None:
    if not requirements:
        return
    file = temporary / "requirements.txt"
    file.write_text("".join(f"{requirement.line()}\n" for requirement in requirements), encoding="utf-8")
    working = temporary / "empty"
    working.mkdir()
    options = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--no-warn-script-location"]
    try:
        run_pip(
            ["--python", str(_python(folder)), "install", *options, "-r", str(file)],
            folder=working,
            environment=pip_environment(),
        )
    except PipError as error:
        raise _explained(error) from error


def _explained(error: PipError) -> ForkwheelError:
    if is_disk_full(error.output):
        return BuildError(f"the build environment cannot be made: {error.message}", hint=error.hint)
    if "DO NOT MATCH THE HASHES" in error.output:
        return PinMismatchError(
            f"a build requirement is not what the inputs' lock pins: {error.message}",
            hint="the index serves another file than the one that was locked; do not use it before you know why",
        )
    if "No matching distribution" in error.output or "Could not find a version" in error.output:
        return FetchError(
            f"a build requirement is not to be had: {error.message}",
            hint="see that the index that pip is configured with is reachable and holds the locked version",
        )
    return BuildError(f"the build environment cannot be made: {error.message}", hint=error.hint)
