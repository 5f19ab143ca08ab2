"""The kernel census: every kernel in compiled objects, and what its machine code is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from forkwheel.cuda.cubins import Cubin, ReadingTools, extract_cubins
from forkwheel.cuda.demangle import demangle, family
from forkwheel.cuda.disassembly import Counts, Usage, disassemble, usage

SCHEMA = 1


@dataclass(frozen=True)
class Kernel:
    """One kernel.

    ``instructions`` counts padding too; ``waits`` and ``launches`` are grid-dependency
    instructions (ACQBULK, PREEXIT); ``local`` are accesses of local memory, which is where
    spilled registers go; ``stack`` and ``shared`` are in bytes.
    """

    name: str
    family: str
    object: str
    target: str
    instructions: int
    registers: int
    stack: int
    shared: int
    waits: int
    launches: int
    local: int


@dataclass(frozen=True)
class Family:
    """All instances of one kernel template in an object."""

    name: str
    kernels: tuple[Kernel, ...]

    def range(self, read: Callable[[Kernel], int]) -> tuple[int, int]:
        """Return the smallest and the largest value over the instances."""
        values = [read(kernel) for kernel in self.kernels]
        return min(values), max(values)

    def count(self, holds: Callable[[Kernel], bool]) -> int:
        """Return how many instances something holds for."""
        return sum(map(holds, self.kernels))


@dataclass(frozen=True)
class Census:
    """All kernels of some objects; ``objects`` maps each ELF file of device code to its SHA-256."""

    objects: tuple[tuple[str, str], ...]
    kernels: tuple[Kernel, ...]

    @property
    def families(self) -> tuple[Family, ...]:
        """The kernels by family, sorted by name."""
        grouped: dict[str, list[Kernel]] = {}
        for kernel in self.kernels:
            grouped.setdefault(kernel.family, []).append(kernel)
        return tuple(Family(name, tuple(grouped[name])) for name in sorted(grouped))

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets that the kernels were compiled for."""
        return tuple(sorted({kernel.target for kernel in self.kernels}))


def census(files: Sequence[Path], *, tools: ReadingTools, workers: int | None = None) -> Census:
    """Read every kernel of wheels, shared objects, object files or cubins.

    Raise VerificationError for a file that cannot be read or holds no device code.
    """
    with TemporaryDirectory(prefix="forkwheel-census-") as temporary:
        cubins = extract_cubins(files, tools=tools, folder=Path(temporary))
        counted = disassemble(cubins, tools=tools, workers=workers)
        used = [usage(cubin, tools=tools) for cubin in cubins]
    names = demangle({symbol.name for cubin in cubins for symbol in cubin.kernels})
    kernels = [
        _kernel(cubin, names[symbol.name], counts[symbol.name], takes[symbol.name])
        for cubin, counts, takes in zip(cubins, counted, used, strict=True)
        for symbol in cubin.kernels
    ]
    kernels.sort(key=lambda kernel: (kernel.family, kernel.name, kernel.target, kernel.object))
    return Census(tuple((cubin.label, cubin.sha256) for cubin in cubins), tuple(kernels))


def _kernel(cubin: Cubin, name: str, counts: Counts, takes: Usage) -> Kernel:
    return Kernel(
        name=name,
        family=family(name),
        object=cubin.label,
        target=cubin.target,
        instructions=counts.instructions,
        registers=takes.registers,
        stack=takes.stack,
        shared=takes.shared,
        waits=counts.waits,
        launches=counts.launches,
        local=counts.local,
    )


def census_document(census: Census) -> dict[str, Any]:
    """Return the census as its JSON document."""
    return {
        "schema": SCHEMA,
        "objects": [{"name": name, "sha256": sha256} for name, sha256 in census.objects],
        "targets": list(census.targets),
        "families": {
            item.name: {
                "kernels": len(item.kernels),
                "instructions": list(item.range(lambda kernel: kernel.instructions)),
                "registers": list(item.range(lambda kernel: kernel.registers)),
                "shared": list(item.range(lambda kernel: kernel.shared)),
                "stack": list(item.range(lambda kernel: kernel.stack)),
                "spilling": item.count(lambda kernel: kernel.local > 0),
                "waiting": item.count(lambda kernel: kernel.waits > 0),
                "launching": item.count(lambda kernel: kernel.launches > 0),
            }
            for item in census.families
        },
        "kernels": [dict(vars(kernel)) for kernel in census.kernels],
    }
