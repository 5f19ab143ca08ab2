"""What must hold before the first all-reduce: versions, files and objects are what they seem."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from packaging.utils import canonicalize_name

from forkwheel.children import CHILDREN
from forkwheel.gpu.checks import Check, failed, passed, skipped
from forkwheel.gpu.devices import Machine
from forkwheel.gpu.environment import Environment, InstalledWheel
from forkwheel.gpu.plan import GpuPlan
from forkwheel.gpu.rank_group import rank_environment
from forkwheel.recipe import Recipe
from forkwheel.shipped import members_of
from forkwheel.tree import sha256_file

_IMPORT = """
import importlib, json, sys
module = importlib.import_module(sys.argv[1])
print(json.dumps({"file": module.__file__, "version": getattr(module, "__version__", "")}))
"""


def gpus(machine: Machine) -> Check:
    """Name the GPUs and their architectures."""
    names = [f"{device.index}: {device.name} ({device.architecture})" for device in machine.devices]
    kinds = {device.capability for device in machine.devices}
    if len(kinds) > 1:
        return failed("gpus", f"the GPUs differ: {'; '.join(names)}")
    return passed("gpus", "; ".join(names))


def versions(machine: Machine, environment: Environment, toolkit: str | None) -> Check:
    """Compare the driver's CUDA, torch's and the toolkit's."""
    driver = ".".join(map(str, machine.cuda))
    text = f"driver {machine.driver} (CUDA {driver}), torch {environment.torch} (CUDA {environment.torch_cuda})"
    text += f", toolkit {toolkit}" if toolkit else ", no toolkit"
    torch_major = int(environment.torch_cuda.split(".")[0])
    if torch_major > machine.cuda[0]:
        return failed("versions", f"{text}: the driver is too old for torch")
    if toolkit and int(toolkit.split(".")[0]) != torch_major:
        return failed("versions", f"{text}: toolkit and torch are of different CUDA majors")
    return passed("versions", text)


def nvcc(variables: Mapping[str, str]) -> str:
    """Return the compiler that CUDA_HOME or PATH names."""
    home = (os.environ | dict(variables)).get("CUDA_HOME")
    return str(Path(home) / "bin" / "nvcc") if home else "nvcc"


def tool_path(python: Path) -> dict[str, str]:
    """Return a PATH that finds the tools (ninja) of the interpreter's environment and of its base first."""
    folders = [str(python.parent), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return {"PATH": os.pathsep.join(folders)}


def toolkit_version(variables: Mapping[str, str]) -> str | None:
    """Return the version of the nvcc that CUDA_HOME or PATH names, or None."""
    try:
        done = subprocess.run([nvcc(variables), "--version"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    marker = "release "
    return done.stdout.partition(marker)[2].partition(",")[0] or None


def imported(
    plan: GpuPlan, environment: Environment, manifest: Mapping[str, Any], variables: Mapping[str, str]
) -> Check:
    """Import the package under test, and see that it is the one that was installed."""
    name = "imported package"
    command = [str(environment.python), "-c", _IMPORT, plan.module]
    answer = _answer(command, variables=variables, seconds=300)
    if isinstance(answer, str):
        return failed(name, f"{plan.module} cannot be imported: {answer}")
    file = Path(answer["file"] or "a folder without __init__.py")
    text = f"{plan.module} {answer['version']} from {file.parent}"
    ours = canonicalize_name(plan.package)
    versions = [one["version"] for one in manifest["packages"] if canonicalize_name(one["name"]) == ours]
    if environment.site not in file.parents:
        return failed(name, f"{text}, not from {environment.site}")
    if answer["version"] not in versions:
        return failed(name, f"{text}, not {', '.join(versions) or f'known: the manifest lists no {plan.package}'}")
    return passed(name, text)


def _answer(command: list[str], *, variables: Mapping[str, str], seconds: float) -> dict[str, Any] | str:
    """Run a program whose last line is a JSON object, and return that, or what went wrong."""
    try:
        done = CHILDREN.run(command, seconds=seconds, environment=rank_environment(variables))
    except subprocess.TimeoutExpired:
        return f"it did not end within {seconds:g} s"
    if done.returncode:
        *before, last = done.stderr.strip().splitlines()[-8:] or [f"it ended with {done.returncode}"]
        return "\n".join([last.strip(), *before])
    try:
        answer = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return "it printed no answer"
    return answer if isinstance(answer, dict) else "it printed no answer"


def patched_files(environment: Environment, manifest: Mapping[str, Any]) -> list[Check]:
    """Compare each patched file, as installed, with its digest in the manifest."""
    found = []
    for package in manifest["packages"]:
        record = _members(environment.site, package)
        if not record:
            found.append(failed(f"patched files of {package['name']}", f"it is not installed in {environment.site}"))
            continue
        for path, digest in package.get("patched_files", {}).items():
            name = f"patched file {path}"
            members = members_of(path, members=record, tree=(path,))
            wrong = [member for member in members if _digest(environment.site / member) != digest]
            if digest is None or not members:
                found.append(skipped(name, "no installed file came from it"))
            elif wrong:
                found.append(failed(name, f"{environment.site / wrong[0]} is not what the manifest says ({digest})"))
            else:
                found.append(passed(name, digest[:16]))
    return found


def _members(site: Path, package: Mapping[str, Any]) -> list[str]:
    stem = package["wheel"]["filename"].split("-")
    record = site / f"{stem[0]}-{stem[1]}.dist-info" / "RECORD"
    return [line.rsplit(",", 2)[0] for line in record.read_text().splitlines()] if record.is_file() else []


def _digest(file: Path) -> str:
    return sha256_file(file) if file.is_file() else "missing"


def known_objects(wheels: Iterable[InstalledWheel]) -> dict[str, str]:
    """Map the digest of every compiled object in the tested wheels to the wheel's name."""
    known = {}
    for wheel in wheels:
        with ZipFile(wheel.file) as archive:
            names = [name for name in archive.namelist() if name.endswith(".so")]
            if names:
                for line in (
                    archive.read(next(n for n in archive.namelist() if n.endswith("/RECORD"))).decode().splitlines()
                ):
                    name, value, _ = line.rsplit(",", 2)
                    if name in names:
                        known[value] = wheel.file.name
    return known


def planted(recipe: Recipe, plan: GpuPlan, environment: Environment, known: Mapping[str, str]) -> Check:
    """Look for prebuilt objects that would be loaded and that no tested wheel holds."""
    name = "prebuilt objects"
    cache = recipe.package(plan.package).jit_cache
    patterns = cache.prebuilt if cache else ()
    objects = [file for pattern in patterns for file in environment.site.glob(pattern) if file.is_file()]
    for file in objects:
        if record_digest(file) not in known:
            return failed(name, f"{file} is in no tested wheel, and would be loaded instead of what the JIT compiles")
    return passed(name, f"{len(objects)} prebuilt objects, each from a tested wheel" if objects else "none")


def record_digest(file: Path) -> str:
    """Return a file's digest as a wheel's RECORD writes it."""
    digest = base64.urlsafe_b64encode(bytes.fromhex(sha256_file(file))).decode().rstrip("=")
    return f"sha256={digest}"


def loaded_object(
    plan: GpuPlan, environment: Environment, variables: Mapping[str, str], known: Mapping[str, str], seconds: float
) -> Check:
    """Make or find the compiled object, load it, and say where it came from."""
    name = f"object {plan.object}"
    command = [str(environment.python), str(plan.compile)]
    answer = _answer(command, variables=variables, seconds=seconds)
    if isinstance(answer, str):
        return failed(name, f"cannot be compiled or loaded: {answer}")
    file = Path(str(answer.get("object")))
    if not file.is_file():
        return failed(name, f"{plan.compile.name} names no file but {answer.get('object')!r}")
    cache = Path(variables[plan.workspace_variable])
    digest = sha256_file(file)
    if cache in file.parents:
        return passed(name, f"compiled here by the JIT: {file.name}", sha256=digest, source="jit")
    if wheel := known.get(record_digest(file)):
        return passed(name, f"from {wheel}", sha256=digest, source=wheel)
    return failed(
        name, f"{file} is in no tested wheel and was not compiled by this run", sha256=digest, source=str(file)
    )
