"""The package's own specification of its modules, as the commands that build them.

The package is asked for its ninja files, in the build root; ninja expands them. What is
changed in the commands afterwards is here, and nowhere else.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from forkwheel.cuda.build_root import ROOT, BuildRoot
from forkwheel.cuda.host_compiler import make_driver_stub
from forkwheel.cuda.kernel_config import Kernels
from forkwheel.cuda.targets import Target
from forkwheel.cuda.toolchain import LOCKED, Toolchain, link_tree, site_packages
from forkwheel.errors import BuildError, RecipeError

_KNOWS_SEEDS = (13, 0)
_EVALUATE = Path(__file__).with_name("evaluate.py")
_TREE, _TOOLKIT, _PACKAGES, _WORK, _OBJECTS, _PYTHON, _STUBS = (
    ROOT / name for name in ("tree", "toolkit", "packages", "work", "objects", "python", "stubs")
)


@dataclass(frozen=True)
class Unit:
    """One translation unit: its source, its object and the command between them, below ``ROOT``."""

    source: str
    output: str
    command: tuple[str, ...]

    @property
    def name(self) -> str:
        """The source's file name."""
        return Path(self.source).name


@dataclass(frozen=True)
class Module:
    """One shared object: its units and the command that links them."""

    name: str
    units: tuple[Unit, ...]
    output: str
    link: tuple[str, ...]


def stage_inputs(root: BuildRoot, *, tree: Path, kernels: Kernels, toolchain: Toolchain, python: Path) -> None:
    """Lay out in the build root all that the commands read; ``python`` is the specification's environment."""
    stage = root.stage
    link_tree(tree, stage / "tree")
    for name, path in kernels.links:
        if not (stage / "tree" / path).exists():
            raise RecipeError(f"{kernels.file}: `links` names {path}, which the tree lacks", hint="correct `links`")
        link = stage / "tree" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(stage / "tree" / path, link.parent))
    if toolchain.kind == LOCKED:
        link_tree(toolchain.cuda_home, stage / "toolkit")
    link_tree(site_packages(python), stage / "packages")
    make_driver_stub(stage / "stubs", compiler=toolchain.host)
    for name in ("work", "objects", "python", "tmp"):
        (stage / name).mkdir()


def evaluate(
    root: BuildRoot,
    *,
    kernels: Kernels,
    modules: Sequence[str],
    targets: Sequence[Target],
    toolchain: Toolchain,
    python: Path,
) -> tuple[Module, ...]:
    """Ask the package how its modules are built for ``targets``; raise BuildError where it refuses."""
    request = {
        "tree": str(_TREE),
        "packages": str(_PACKAGES),
        "package": kernels.evaluation.package,
        "first": kernels.evaluation.first,
        "stand_ins": kernels.evaluation.stand_ins,
        "values": dict(kernels.evaluation.values),
        "modules": {name: generator for name, generator in kernels.modules if name in modules},
    }
    command = [sys.executable, "-I", "-S", "-B", str(_EVALUATE), json.dumps(request)]
    environment = _environment(kernels, targets=targets, toolchain=toolchain)
    result = subprocess.run(
        root.command(command),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if result.returncode:
        lines = result.stderr.strip().splitlines() or ["it said nothing"]
        raise BuildError(
            f"the specification of {', '.join(modules)} cannot be evaluated: {lines[-1]}",
            hint="see that the patches admit the target and that `evaluation` in kernels.toml names what it imports",
        )
    answer = json.loads(result.stdout.splitlines()[-1])
    ninja = python.with_name("ninja")
    found = []
    for name, module in answer["modules"].items():
        entries = _expanded(root.staged(module["ninja"]), ninja=ninja)
        moved = ((str(Path(module["ninja"]).parent), str(_OBJECTS / name)), (answer["python_include"], str(_PYTHON)))
        found.append(_module(name, entries, moved=moved, toolchain=toolchain))
    return tuple(found)


def compile_environment(toolchain: Toolchain) -> dict[str, str]:
    """Return every command's whole environment: of the person's own only PATH, which finds the host compiler."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(_WORK),
        "TMPDIR": str(ROOT / "tmp"),
        "LC_ALL": "C",
        "CUDA_HOME": str(_cuda_home(toolchain)),
        "SOURCE_DATE_EPOCH": "315532800",
        "ZERO_AR_DATE": "1",
    }


def _cuda_home(toolchain: Toolchain) -> Path:
    return _TOOLKIT if toolchain.kind == LOCKED else toolchain.cuda_home


def _environment(kernels: Kernels, *, targets: Sequence[Target], toolchain: Toolchain) -> dict[str, str]:
    named = {"targets": " ".join(target.capability for target in targets), "work": str(_WORK)}
    environment = compile_environment(toolchain)
    environment |= {name: text.format_map(named) for name, text in kernels.evaluation.environment}
    if toolchain.host.chosen:
        environment |= {"CXX": toolchain.host.command, "CC": toolchain.host.command}
    return environment


def _expanded(ninja_file: Path, *, ninja: Path) -> list[dict[str, str]]:
    result = subprocess.run(
        [str(ninja), "-f", str(ninja_file), "-t", "compdb"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise BuildError(
            f"ninja cannot read what the package wrote: {result.stderr.strip()[-300:]}",
            hint="see the package's own code that writes it",
        )
    entries: list[dict[str, str]] = json.loads(result.stdout)
    return entries


def _module(
    name: str, entries: Sequence[dict[str, str]], *, moved: Sequence[tuple[str, str]], toolchain: Toolchain
) -> Module:
    units, links = [], []
    for entry in entries:
        words = [entry["file"], entry["output"], *shlex.split(entry["command"])]
        for old, new in moved:
            words = [word.replace(old, new) for word in words]
        source, output, *command = words
        if output.endswith(".so"):
            links.append((output, linked_statically(command)))
        else:
            units.append(Unit(source, output, compiled_alike(command, seed=Path(source).name, toolchain=toolchain)))
    if len(links) != 1 or not units:
        raise BuildError(
            f"the specification of {name} has {len(units)} units and {len(links)} shared objects, not some and one",
            hint="forkwheel knows modules of one shared object",
        )
    return Module(name, tuple(units), *links[0])


def compiled_alike(command: Sequence[str], *, seed: str, toolchain: Toolchain) -> tuple[str, ...]:
    """Make a compilation repeatable: of nvcc's choices, two enter the object and change from run to run.

    Its temporary files go beside the object, since it embeds their names. A unit that defines
    nothing external gets its process id into the names of its static symbols, unless nvcc is
    given a ``seed`` (which it knows since CUDA 13.0).
    """
    if Path(command[0]).name != "nvcc":
        return tuple(command)
    options = ["-objtemp", random_seed(seed)] if toolchain.release >= _KNOWS_SEEDS else ["-objtemp"]
    return (command[0], *options, *command[1:])


def random_seed(name: str) -> str:
    """Return the option that names a unit's static symbols after ``name``, which must be its own."""
    return f"-frandom-seed={name}"


def linked_statically(command: Sequence[str]) -> tuple[str, ...]:
    """Link the CUDA runtime into the object, so that it loads beside a runtime of any CUDA release.

    Its symbols stay inside. The driver's library is named only where the object itself calls it.
    """
    options = ["--as-needed", "--build-id=none", "--exclude-libs=libcudart_static.a"]
    by_nvcc = Path(command[0]).name == "nvcc"
    passed = [part for option in options for part in (("-Xlinker", option) if by_nvcc else (f"-Wl,{option}",))]
    arguments = ["-lcudart_static" if argument == "-lcudart" else argument for argument in command[1:]]
    return (command[0], *passed, *arguments, f"-L{_STUBS}", "-ldl", "-lrt", "-lpthread")


def recorded(command: Sequence[str], *, toolchain: Toolchain) -> str:
    """Write a command as the manifest records it: paths relative to the roots, the same on every machine."""
    named = [(str(toolchain.cuda_home), "toolkit"), (f"{ROOT}/", "")]
    if toolchain.host.chosen:
        named.append((toolchain.host.command, "c++"))
    text = shlex.join(command)
    for path, name in named:
        text = text.replace(path, name)
    return text


def with_option(module: Module, option: str) -> Module:
    """Return a module whose nvcc commands have one more option."""
    units = tuple(
        replace(unit, command=(unit.command[0], option, *unit.command[1:]))
        if Path(unit.command[0]).name == "nvcc"
        else unit
        for unit in module.units
    )
    return replace(module, units=units)
