"""A fresh environment for the wheels under test, which reuses the machine's own torch."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forkwheel.errors import UsageError, VerificationError
from forkwheel.release.shapes import fields, file_name, list_of, nothing, one_of, read_object, text
from forkwheel.tree import sha256_file

_PROBE = """
import json, sys
answer = {"version": sys.version.split()[0], "old": sys.version_info < (3, 10)}
answer["sites"] = [p for p in sys.path if p.endswith("-packages")]
try:
    import torch
    answer.update(torch=torch.__version__, cuda=torch.version.cuda)
    answer["usable"] = not answer["old"] and bool(torch.version.cuda) and torch.cuda.is_available()
except ImportError:
    pass
except Exception as error:
    answer["fault"] = "%s: %s" % (type(error).__name__, error)
print(json.dumps(answer))
"""
_MISSING = """
import importlib.util, json, sys
print(json.dumps([n for n, m in json.loads(sys.argv[1]).items() if importlib.util.find_spec(m) is None]))
"""
_NO_PREBUILT = "there is none beside the manifest"
_KERNELS = fields(
    {"targets": list_of(text()), "wheel": one_of(nothing, fields({"filename": file_name, "sha256": text()}))}
)


@dataclass(frozen=True)
class InstalledWheel:
    """A wheel that is installed; ``sha256`` is that of its file, which the manifest confirms where there is one."""

    file: Path
    sha256: str


@dataclass(frozen=True)
class Environment:
    """An interpreter with the wheels in it, what it was made from, and the torch that it uses (and its CUDA)."""

    base: Path
    python: Path
    site: Path
    torch: str
    torch_cuda: str
    python_version: str


def find_wheels(folder: Path, manifest: Mapping[str, Any]) -> tuple[InstalledWheel, ...]:
    """Return the wheels that a manifest names, from the folder it lies in; raise where one is not what it says.

    The wheel of compiled kernels is not among them: ``find_prebuilt`` tells whether it serves this GPU.
    """
    wheels = []
    for entry in (*manifest["packages"], *manifest.get("taken", ())):
        if "wheel" not in entry:
            raise UsageError(
                f"the set has several wheels of {entry['name']}", hint="only a set with one wheel of each can be run"
            )
        named = entry["wheel"]
        file = folder / named["filename"]
        if not file.is_file():
            raise UsageError(f"{file} is missing", hint="build the wheels first, or name their folder with --wheels")
        wheels.append(_verified(file, named["sha256"]))
    return tuple(wheels)


def find_prebuilt(folder: Path, record: Path, *, capability: tuple[int, int]) -> InstalledWheel | str:
    """Return the wheel of compiled kernels that ``record`` describes, or the reason why this GPU can't use it."""
    if not record.is_file():
        return _NO_PREBUILT
    try:
        kernels = read_object(record.read_bytes())
        _KERNELS(kernels, "")
    except ValueError as error:
        hint = "compile the kernels anew, or leave them out with --no-prebuilt"
        raise VerificationError(f"{record} is no record of kernels: {error}", hint=hint) from error
    named = kernels["wheel"]
    if named is None or not (folder / named["filename"]).is_file():
        return _NO_PREBUILT
    targets = [target.removeprefix("sm_").rstrip("af") for target in kernels["targets"]]
    if "{}{}".format(*capability) not in targets:
        return f"{named['filename']} is for {', '.join(kernels['targets'])}, not for SM{capability[0]}{capability[1]}"
    return _verified(folder / named["filename"], named["sha256"])


def _verified(file: Path, sha256: str) -> InstalledWheel:
    found = sha256_file(file)
    if found != sha256:
        raise VerificationError(f"{file.name} has sha256 {found}, not {sha256}", hint="build the wheels again")
    return InstalledWheel(file.resolve(), found)


def make_environment(
    folder: Path,
    *,
    base: Path | None,
    wheels: Sequence[InstalledWheel],
    needs: Mapping[str, str],
    torch: str,
) -> Environment:
    """Make an environment in ``folder`` and install the wheels by hash.

    What the interpreter ``base`` has is visible in it, behind the wheels; without one, the first
    of this machine's that has torch for CUDA is taken, and where there is none the requirement
    ``torch`` is installed. ``needs`` (distribution, import name) are installed where they are
    missing, from the index that pip is configured with or a folder that PIP_FIND_LINKS names; a
    machine that has them needs no index.
    """
    python = folder / "bin" / "python"
    chosen, answer = find_base(base)
    _run([str(chosen), "-m", "venv", "--without-pip", "--clear", str(folder)], "the environment could not be made")
    site = Path(_ask(python, _PROBE)["sites"][0])
    lines = [f"import site; site.addsitedir({path!r})" for path in answer["sites"]]
    (site / "zz-base.pth").write_text("\n".join(lines) + "\n")
    if not answer.get("usable"):
        _run(_pip(python, torch), f"no interpreter here has torch for CUDA, and {torch} could not be installed")
        answer = _usable(python)
    _install(python, wheels, folder)
    _install_needs(python, needs)
    return Environment(chosen, python, site, answer["torch"], answer["cuda"], answer["version"])


def find_base(python: Path | None) -> tuple[Path, dict[str, Any]]:
    """Return the interpreter to build on and what it has: the one that is named, or the first with torch for CUDA."""
    if python is not None:
        return python, _usable(python)
    own = Path(sys.executable)
    elsewhere = [folder for folder in os.get_exec_path() if Path(folder) != own.parent]
    found = shutil.which("python3", path=os.pathsep.join(elsewhere))
    for candidate in [own, *([Path(found)] if found else [])]:
        answer = _answer_of(candidate)
        if answer.get("usable"):
            return candidate, answer
    return own, {"sites": []}


def _answer_of(candidate: Path) -> dict[str, Any]:
    """Return what an interpreter has that nobody named: one that does not even run has nothing."""
    try:
        return dict(_ask(candidate, _PROBE))
    except UsageError:
        return {}


def _usable(python: Path) -> dict[str, Any]:
    answer: dict[str, Any] = _ask(python, _PROBE)
    if answer.get("usable"):
        return answer
    if answer.get("old"):
        what = f"is Python {answer['version']}: 3.10 or newer is needed"
    elif "fault" in answer:
        what = f"has a torch that can't be imported: {answer['fault']}"
    elif "torch" in answer:
        what = f"has torch {answer['torch']} without a usable CUDA"
    else:
        what = "has no torch"
    raise UsageError(f"{python} {what}", hint="name an interpreter that has torch for CUDA with --python")


def _install(python: Path, wheels: Sequence[InstalledWheel], folder: Path) -> None:
    requirements = folder / "wheels.txt"
    requirements.write_text("".join(f"{wheel.file.as_uri()} --hash=sha256:{wheel.sha256}\n" for wheel in wheels))
    options = ["--no-deps", "--no-index", "--require-hashes", "--no-compile", "--force-reinstall"]
    _run(_pip(python, *options, "-r", str(requirements)), "the wheels could not be installed")


def _install_needs(python: Path, needs: Mapping[str, str]) -> None:
    missing = _ask(python, _MISSING, json.dumps(dict(needs)))
    if missing:
        _run(
            _pip(python, *missing), f"what the wheels need is missing and could not be installed: {', '.join(missing)}"
        )


def _pip(python: Path, *arguments: str) -> list[str]:
    quiet = ["--disable-pip-version-check", "--quiet"]
    return [sys.executable, "-m", "pip", "--python", str(python), *quiet, "install", *arguments]


def _run(command: list[str], what: str) -> None:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        hint = f"to see more, keep the environment with --work DIR and run this by hand: {shlex.join(command)}"
        raise UsageError(f"{what}: {' '.join(last)}", hint=hint)


def _ask(python: Path, program: str, *arguments: str) -> Any:
    """Run a program whose last line is JSON in an interpreter, apart from the caller's own settings."""
    command = [str(python), "-I", "-c", program, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    except subprocess.TimeoutExpired as error:
        raise _broken(python, f"no answer within {error.timeout:g} s") from error
    except OSError as error:
        raise _broken(python, error.strerror or str(error)) from error
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError) as error:
        last = done.stderr.strip().splitlines()[-1:]
        raise _broken(python, " ".join(last) or f"it ended with {done.returncode} and no answer") from error


def _broken(python: Path, reason: str) -> UsageError:
    return UsageError(f"{python} is no interpreter to use: {reason}", hint="name a working one with --python")
