"""What each kernel's instructions are, as nvdisasm reads them, and what a kernel takes, as cuobjdump tells."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from forkwheel.cuda.cubins import Cubin, ReadingTools
from forkwheel.errors import VerificationError

_INSTRUCTION = struct.Struct("16s")
_CHUNK = 50_000
"""Instructions that one nvdisasm reads: some 40 MB of memory, and half a second."""

_BATCH = 64 << 20
"""Bytes of code whose distinct instructions are held in memory at once: some 100 MB, where they recur as they do."""

_PRINTED = re.compile(rb"^ +/\*[0-9a-f]+\*/ +(?:@!?\w+ +)?(\w+)")
_WAIT, _LAUNCH, _LOCAL = b"ACQBULK", b"PREEXIT", (b"LDL", b"STL")
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


def disassemble(cubins: Iterable[Cubin], *, tools: ReadingTools, workers: int | None = None) -> list[dict[str, Counts]]:
    """Count the instructions of every kernel, by mangled name, for each of ``cubins``.

    An instruction is 16 bytes that mean the same wherever they stand, and most recur: each is
    disassembled once, which takes a seventh of the time. Raise VerificationError where nvdisasm
    can't read one.
    """
    return [counts for batch in _batches(cubins) for counts in _disassembled(batch, tools, workers)]


def _batches(cubins: Iterable[Cubin]) -> Iterator[list[Cubin]]:
    """Group cubins so that memory stays bounded however many there are."""
    batch: list[Cubin] = []
    total = 0
    for cubin in cubins:
        size = sum(symbol.size for symbol in cubin.kernels)
        if batch and total + size > _BATCH:
            yield batch
            batch, total = [], 0
        batch.append(cubin)
        total += size
    if batch:
        yield batch


def _disassembled(cubins: Sequence[Cubin], tools: ReadingTools, workers: int | None) -> list[dict[str, Counts]]:
    found: dict[str, set[bytes]] = {}
    for cubin in cubins:
        found.setdefault(cubin.target, set()).update(*(_instructions(code, cubin) for _, code in cubin.code()))
    names = {target: _names(target, sorted(distinct), tools, workers) for target, distinct in found.items()}
    return [
        {name: _counts(_instructions(code, cubin), names[cubin.target]) for name, code in cubin.code()}
        for cubin in cubins
    ]


def _instructions(code: memoryview, cubin: Cubin) -> Iterator[bytes]:
    if len(code) % _INSTRUCTION.size:
        raise VerificationError(f"{cubin.label}: {len(code)} bytes are no whole instructions", hint="compile it again")
    return (instruction for (instruction,) in _INSTRUCTION.iter_unpack(code))


def _counts(instructions: Iterable[bytes], names: dict[bytes, bytes]) -> Counts:
    counts = Counts()
    for instruction in instructions:
        counts.instructions += 1
        name = names.get(instruction)
        if name is None:
            continue
        if name == _WAIT:
            counts.waits += 1
        elif name == _LAUNCH:
            counts.launches += 1
        else:
            counts.local += 1
    return counts


def _names(target: str, instructions: Sequence[bytes], tools: ReadingTools, workers: int | None) -> dict[bytes, bytes]:
    """Return the names of those instructions that are counted by themselves."""
    chunks = [instructions[start : start + _CHUNK] for start in range(0, len(instructions), _CHUNK)]
    with ThreadPoolExecutor(workers or len(os.sched_getaffinity(0))) as pool:
        read = pool.map(partial(_read, target=target, tools=tools), chunks)
        counted = (_WAIT, _LAUNCH, *_LOCAL)
        pairs = zip(instructions, chain.from_iterable(read), strict=True)
        return {instruction: name for instruction, name in pairs if name in counted}


def _read(instructions: Sequence[bytes], *, target: str, tools: ReadingTools) -> list[bytes]:
    with TemporaryDirectory(prefix="forkwheel-census-") as folder:
        file = Path(folder, "code")
        file.write_bytes(b"".join(instructions))
        machine = target.replace("sm_", "SM")
        result = subprocess.run(
            [str(tools.nvdisasm), "-b", machine, "-raw", "-ndf", str(file)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    names = printed_names(result.stdout.splitlines())
    if result.returncode or len(names) != len(instructions):
        said = result.stderr.decode(errors="replace").strip()[-300:] or "it said nothing"
        raise VerificationError(
            f"nvdisasm read {len(names)} of {len(instructions)} instructions for {target}: {said}",
            hint="the object is damaged, or newer than the locked nvdisasm",
        )
    return names


def printed_names(lines: Iterable[bytes]) -> list[bytes]:
    """Return the name of each instruction that nvdisasm prints, without predicate and modifiers."""
    return [match[1] for line in lines if (match := _PRINTED.match(line))]


def usage(cubin: Cubin, *, tools: ReadingTools) -> dict[str, Usage]:
    """Return what each function of a cubin takes, by mangled name; raise VerificationError where one is not told."""
    result = subprocess.run(
        [str(tools.cuobjdump), "-res-usage", str(cubin.path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if result.returncode:
        raise VerificationError(
            f"{cubin.label}: cuobjdump failed: {result.stderr.strip()[-300:]}", hint="compile it again"
        )
    found = {
        match["name"]: Usage(int(match["registers"]), int(match["stack"]), int(match["shared"]))
        for match in _USAGE.finditer(result.stdout)
    }
    for symbol in cubin.kernels:
        if symbol.name not in found:
            raise VerificationError(
                f"{cubin.label}: cuobjdump does not tell what {symbol.name} takes", hint="compile it again"
            )
    return found
