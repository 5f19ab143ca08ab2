"""Build a wheel: run the project's own backend in a fixed environment."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyproject_hooks
from build import BuildBackendException, BuildException, BuildSystemTableValidationError, ProjectBuilder

from forkwheel.children import CHILDREN
from forkwheel.console import Log
from forkwheel.errors import BuildError
from forkwheel.recipe import Package

_SHOWN_LINES = 20
_UMASK = 0o022
_OTHER = "the backend is at fault: use another version of it"


def build_wheel(
    tree: Path, package: Package, *, version: str, python: Path, dest: Path, log: Log, log_file: Path | None = None
) -> Path:
    """Build the wheel of the project in ``tree`` into the folder ``dest``, and return its path.

    ``tree`` is a private copy: backends write into it. ``python`` runs the backend and has its
    requirements. What the backend says goes to ``log_file``, by default one in ``dest``; its
    last lines are in the BuildError that a failure raises.
    """
    settings = _settings(package, version=version)
    log_file = log_file or dest / f"{package.name}.build.log"
    with _backend(tree, package, version=version, python=python, folder=dest, log_file=log_file) as builder:
        path = _built(builder, dest, settings, package=package)
    log.info(f"the backend built {path.name}")
    return path


def build_requires(tree: Path, package: Package, *, version: str, python: Path, dest: Path) -> set[str]:
    """Return the requirements that the backend itself asks for, beyond those in pyproject.toml."""
    settings = _settings(package, version=version)
    log_file = dest / f"{package.name}.requires.log"
    with _backend(tree, package, version=version, python=python, folder=dest, log_file=log_file) as builder:
        asked = builder.get_requires_for_build("wheel", settings)
    if wrong := [item for item in asked if not isinstance(item, str)]:
        raise BuildError(f"the build backend of {package.name} requires {wrong[0]!r}, which is no text", hint=_OTHER)
    return asked


def open_project(
    tree: Path,
    package: Package | None = None,
    *,
    python: str = sys.executable,
    runner: Callable[..., None] | None = None,
) -> ProjectBuilder:
    """Return the builder of the project in ``tree``; raise BuildError where its pyproject.toml is unsound.

    ``package``, where it is known, is named in the error, with what changes that file.
    """
    try:
        return ProjectBuilder(
            tree, python_executable=python, runner=runner or pyproject_hooks.default_subprocess_runner
        )
    except RecursionError as error:
        raise _unsound("pyproject.toml is nested too deeply", package) from error
    except (BuildException, BuildSystemTableValidationError, ValueError, OSError) as error:
        reason = str(error).replace(f"{tree}/", "")
        raise _unsound(reason if "pyproject.toml" in reason else f"pyproject.toml: {reason}", package) from error


def _unsound(reason: str, package: Package | None) -> BuildError:
    name = "the project" if package is None else package.name
    suspects = ["the tree's pyproject.toml"]
    if package is None or package.series is not None:
        suspects.append("the patches on it" if package is None else f"the patches on it in {package.series}")
    if package is None or any(item.path == "pyproject.toml" for item in package.substitutions):
        suspects.append("the recipe's `substitute` of it")
    return BuildError(f"{name} cannot be built: {reason}", hint=f"see {', and '.join(suspects)}")


def _built(builder: ProjectBuilder, dest: Path, settings: Mapping[str, str], *, package: Package) -> Path:
    """Run the backend and return its wheel, which it must have put into ``dest``."""
    try:
        path = Path(builder.build("wheel", dest, settings))
    except TypeError as error:
        raise BuildError(f"the build backend of {package.name} named no wheel: {error}", hint=_OTHER) from error
    if path.parent != dest or path.suffix != ".whl" or not path.is_file():
        raise BuildError(
            f"the build backend of {package.name} says that it built {os.path.relpath(path, dest)!r}, "
            "which is no wheel in the folder that it was given",
            hint=_OTHER,
        )
    return path


@contextmanager
def _backend(
    tree: Path, package: Package, *, version: str, python: Path, folder: Path, log_file: Path
) -> Iterator[ProjectBuilder]:
    """Give a builder whose hooks run in the fixed environment; raise BuildError for whatever fails in it."""
    _leave_warnings_to_the_log()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        log_file.write_bytes(b"")
        with tempfile.TemporaryDirectory(dir=folder, prefix=".build-", ignore_cleanup_errors=True) as private:
            environment = _environment(Path(private), package=package, version=version, python=python)
            runner = partial(_run_hook, log_file=log_file, environment=environment)
            yield open_project(tree, package, python=str(python), runner=runner)
    except BuildBackendException as error:
        raise BuildError(
            f"the build backend of {package.name} failed; its last lines:\n{_tail(log_file) or error}",
            hint=f"the whole output is in {log_file}",
        ) from error
    except BuildException as error:
        raise _unsound(str(error).replace(f"{tree}/", ""), package) from error
    except OSError as error:
        raise BuildError(
            f"the wheel of {package.name} cannot be built in {folder}: {error.strerror or error}",
            hint="see that the disk has room and that the folder can be written to",
        ) from error


def _leave_warnings_to_the_log() -> None:
    """Keep a backend's warnings, which newer pyproject_hooks hands on, off the terminal."""
    category = getattr(pyproject_hooks, "BuildBackendWarning", None)
    if category is not None:
        warnings.filterwarnings("ignore", category=category)


def _settings(package: Package, *, version: str) -> dict[str, str]:
    return {name: value.replace("{version}", version) for name, value in package.config_settings}


def _tail(log_file: Path) -> str:
    text = log_file.read_text(encoding="utf-8", errors="replace")
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-_SHOWN_LINES:])


def _run_hook(
    command: Sequence[str],
    cwd: str | None = None,
    extra_environ: Mapping[str, str] | None = None,
    *,
    log_file: Path,
    environment: Mapping[str, str],
) -> None:
    """Run one hook, as ``build`` asks; all that it prints goes to the log file."""
    with log_file.open("ab") as output:
        CHILDREN.run(
            command,
            folder=cwd,
            environment={**environment, **(extra_environ or {})},
            output=output,
            errors=subprocess.STDOUT,
            umask=_UMASK,
        ).check_returncode()


def _environment(private: Path, *, package: Package, version: str, python: Path) -> dict[str, str]:
    """Return the backend's environment, of which nothing is the person's.

    PATH holds the build environment alone: a git or hg found there would describe the
    checkout that happens to lie above the tree. A recipe that needs a host's tool names a
    PATH of its own in `environment`.
    """
    home, temporary = private / "home", private / "tmp"
    home.mkdir()
    temporary.mkdir()
    return {
        "PATH": os.fspath(python.parent),
        "HOME": os.fspath(home),
        "TMPDIR": os.fspath(temporary),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "SOURCE_DATE_EPOCH": str(package.epoch),
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
        **{name: value.replace("{version}", version) for name, value in package.environment},
    }
