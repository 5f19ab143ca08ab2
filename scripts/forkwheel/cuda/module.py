"""A module's units and commands. What forkwheel changes in the commands is here, and nowhere else."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from forkwheel.cuda.build_root import ROOT
from forkwheel.cuda.toolchain import Toolchain

STUBS = ROOT / "stubs"
"""Where the linker finds a ``libcuda.so`` without content."""

_KNOWS_SEEDS = (13, 0)


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
    return (command[0], *passed, *arguments, f"-L{STUBS}", "-ldl", "-lrt", "-lpthread")


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
