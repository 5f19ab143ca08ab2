"""What each kernel's instructions are, counted from nvdisasm's output as it comes."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from forkwheel.cuda.cubins import Cubin, ReadingTools, Symbol, without_intermediate_code
from forkwheel.errors import VerificationError

_CHUNK = 2_500_000
"""Bytes of code that one nvdisasm reads: it takes some 200 MB then, and half a second to begin."""

_SECTION = b"//--------------------- .text."
_INSTRUCTION = b"        /*"
_PRINTED_TARGET = re.compile(r"^\t\.target\t(\w+)", re.MULTILINE)
_USAGE = re.compile(
    r"^ Function (?P<name>\S+):\n\s+REG:(?P<registers>\d+) STACK:(?P<stack>\d+) SHARED:(?P<shared>\d+)", re.M
)


@dataclass
class Counts:
    """What was counted in one kernel; ``local`` are loads and stores of local memory."""

    instructions: int = 0
    waits: int = 0
    launches: int = 0
    local: int = 0


@dataclass(frozen=True)
class Usage:
    """Registers per thread; stack (per thread) and static shared memory (per block) in bytes."""

    registers: int
    stack: int
    shared: int


@dataclass
class _Chunk:
    cubin: Cubin
    path: Path
    symbols: list[Symbol] = field(default_factory=list)
    size: int = 0


def disassemble(cubins: Iterable[Cubin], *, tools: ReadingTools, workers: int | None = None) -> list[dict[str, Counts]]:
    """Count the instructions of every kernel, by mangled name, for each of ``cubins``.

    Raise VerificationError where nvdisasm fails or leaves a kernel out.
    """
    cubins = list(cubins)
    chunks = sorted((chunk for cubin in cubins for chunk in _chunks(cubin)), key=lambda chunk: -chunk.size)
    counted: dict[Path, dict[str, Counts]] = {cubin.path: {} for cubin in cubins}
    with ThreadPoolExecutor(workers or len(os.sched_getaffinity(0))) as pool:
        for chunk, counts in zip(chunks, pool.map(lambda chunk: _count(chunk, tools), chunks), strict=True):
            counted[chunk.cubin.path] |= counts
    for cubin in cubins:
        for symbol in cubin.kernels:
            if symbol.name not in counted[cubin.path]:
                raise VerificationError(f"{cubin.label}: nvdisasm shows no {symbol.name}", hint="compile it again")
    return [counted[cubin.path] for cubin in cubins]


def _chunks(cubin: Cubin) -> Iterator[_Chunk]:
    path = without_intermediate_code(cubin)
    chunk = _Chunk(cubin, path)
    for symbol in cubin.kernels:
        if chunk.symbols and chunk.size + symbol.size > _CHUNK:
            yield chunk
            chunk = _Chunk(cubin, path)
        chunk.symbols.append(symbol)
        chunk.size += symbol.size
    if chunk.symbols:
        yield chunk


def _count(chunk: _Chunk, tools: ReadingTools) -> dict[str, Counts]:
    indices = ",".join(str(symbol.index) for symbol in chunk.symbols)
    command = [str(tools.nvdisasm), "-c", "-raw", "-ndf", "-fun", indices, str(chunk.path)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        counts = count_lines(process.stdout)
        said = process.stderr.read().decode(errors="replace").strip()
    if process.returncode:
        raise VerificationError(f"{chunk.cubin.label}: nvdisasm failed: {said[-300:]}", hint="compile it again")
    return counts


def count_lines(lines: Iterable[bytes]) -> dict[str, Counts]:
    """Count, by kernel, the instructions in what ``nvdisasm -c`` prints."""
    counts: dict[str, Counts] = {}
    current = Counts()
    for line in lines:
        if line.startswith(_INSTRUCTION):
            current.instructions += 1
            if b" ACQBULK" in line:
                current.waits += 1
            elif b" PREEXIT" in line:
                current.launches += 1
            elif b" LDL" in line or b" STL" in line:
                current.local += 1
        elif line.startswith(_SECTION):
            name = line[len(_SECTION) :].split(b" ", 1)[0].decode()
            current = counts.setdefault(name, Counts())
    return counts


def target_of(cubin: Cubin, *, tools: ReadingTools) -> str:
    """Return what a cubin was compiled for, such as ``sm_120a``: cuobjdump names it, and nvdisasm otherwise."""
    if cubin.named_target:
        return cubin.named_target
    smallest = min(cubin.kernels, key=lambda symbol: symbol.size, default=None)
    options = ["-fun", str(smallest.index)] if smallest else []
    result = subprocess.run(
        [str(tools.nvdisasm), "-c", *options, str(cubin.path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    printed = _PRINTED_TARGET.search(result.stdout)
    return printed[1] if printed else ""


def usage(cubin: Cubin, *, tools: ReadingTools) -> dict[str, Usage]:
    """Return what each function of a cubin takes, by mangled name."""
    result = subprocess.run(
        [str(tools.cuobjdump), "-res-usage", str(cubin.path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise VerificationError(
            f"{cubin.label}: cuobjdump failed: {result.stderr.strip()[-300:]}", hint="compile it again"
        )
    return {
        match["name"]: Usage(int(match["registers"]), int(match["stack"]), int(match["shared"]))
        for match in _USAGE.finditer(result.stdout)
    }
