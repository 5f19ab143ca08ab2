"""The package's own specification of its modules, as the commands that build them.

The package is asked for its ninja files, in the build root; ninja expands them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from forkwheel.children import CHILDREN
from forkwheel.cuda.build_root import ROOT, BuildRoot
from forkwheel.cuda.host_compiler import make_driver_stub
from forkwheel.cuda.kernel_config import Kernels
from forkwheel.cuda.module import STUBS, Module, Unit, compiled_alike, linked_statically
from forkwheel.cuda.targets import Target
from forkwheel.cuda.toolchain import LOCKED, Toolchain, link_tree, site_packages
from forkwheel.errors import BuildError, RecipeError

_ANSWER = '{"modules": '
_WORK_HINT = "see that `environment` in kernels.toml points the package to {work}"
_EVALUATE = Path(__file__).with_name("evaluate.py")
_TREE, _TOOLKIT, _PACKAGES, _WORK, _OBJECTS, _PYTHON = (
    ROOT / name for name in ("tree", "toolkit", "packages", "work", "objects", "python")
)


def stage_inputs(root: BuildRoot, *, tree: Path, kernels: Kernels, toolchain: Toolchain, python: Path) -> None:
    """Lay out in the build root all that the commands read; ``python`` is the specification's environment."""
    stage = root.stage
    link_tree(tree, stage / "tree")
    for name, path in kernels.links:
        if not (stage / "tree" / path).exists():
            raise RecipeError(f"{kernels.file}: `links` names {path}, which the tree lacks", hint="correct `links`")
        link = stage / "tree" / name
        if os.path.lexists(link):
            raise RecipeError(f"{kernels.file}: `links` names {name}, which the tree has", hint="correct `links`")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(stage / "tree" / path, link.parent))
    if toolchain.kind == LOCKED:
        link_tree(toolchain.cuda_home, stage / "toolkit")
    link_tree(site_packages(python), stage / "packages")
    make_driver_stub(root.staged(str(STUBS)), compiler=toolchain.host)
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
    result = root.run(command, environment=_environment(kernels, targets=targets, toolchain=toolchain))
    if result.returncode:
        lines = result.stderr.strip().splitlines() or ["it said nothing"]
        raise BuildError(
            f"the specification of {', '.join(modules)} cannot be evaluated: {lines[-1]}",
            hint="see that the patches admit the target and that `evaluation` in kernels.toml names what it imports",
        )
    try:
        answer = json.loads(next(line for line in result.stdout.splitlines() if line.startswith(_ANSWER)))
        ninja_files = {name: root.staged(module["ninja"]) for name, module in answer["modules"].items()}
    except (StopIteration, ValueError) as error:
        raise BuildError(
            f"the specification of {', '.join(modules)} wrote no ninja file below {_WORK}: {result.stdout[-300:]}",
            hint=_WORK_HINT,
        ) from error
    ninja = python.with_name("ninja")
    found = []
    for name, module in answer["modules"].items():
        entries = _expanded(ninja_files[name], ninja=ninja)
        moved = ((str(Path(module["ninja"]).parent), str(_OBJECTS / name)), (answer["python_include"], str(_PYTHON)))
        found.append(_module(name, entries, moved=moved, toolchain=toolchain))
        _check_inputs(found[-1], kernels)
    return tuple(found)


def _check_inputs(module: Module, kernels: Kernels) -> None:
    """Refuse a source or include folder that no link covers: a change there would leave the key as it is."""
    covered = [str(_TREE / name) for link in kernels.links for name in link]
    for word in chain.from_iterable(unit.command for unit in module.units):
        for path in re.findall(rf"{re.escape(str(_TREE))}[^\s,:=]*", word):
            if not any(path == folder or path.startswith(f"{folder}/") for folder in covered):
                raise RecipeError(
                    f"{kernels.file}: {module.name} is compiled from {path.removeprefix(f'{ROOT}/')}, "
                    "which no link covers",
                    hint="add its folder to `links`: what lies outside is not part of the kernels' key",
                )


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
    environment = compile_environment(toolchain)
    named = {
        "{targets}": " ".join(target.capability for target in targets),
        "{work}": str(_WORK),
        "{cuda_home}": environment["CUDA_HOME"],
    }
    for name, text in kernels.evaluation.environment:
        for word, value in named.items():
            text = text.replace(word, value)
        environment[name] = text
    if toolchain.host.chosen:
        environment |= {"CXX": toolchain.host.command, "CC": toolchain.host.command}
    return environment


def _expanded(ninja_file: Path, *, ninja: Path) -> list[dict[str, str]]:
    result = CHILDREN.run([str(ninja), "-f", str(ninja_file), "-t", "compdb"])
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
        if not output.startswith(f"{ROOT}/"):
            raise BuildError(f"the specification of {name} writes {output}, outside of {ROOT}", hint=_WORK_HINT)
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
