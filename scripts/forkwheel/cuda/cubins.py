"""Device code inside wheels, shared objects and object files: the ELF files that hold it."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from forkwheel.cuda.toolchain import site_packages
from forkwheel.errors import ToolchainError, VerificationError
from forkwheel.tree import sha256_file
from forkwheel.wheels.record import open_wheel

_ELF_MAGIC = b"\x7fELF"
_CUDA_MACHINE = 190
_SYMBOL_TABLE = 2
_FUNCTION = 2
_ENTRY = 0x10  # in a symbol's `other`: the function is a kernel, not one that kernels call
_INTERMEDIATE = (b".nv.merc", b".nv.capmerc")
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")


@dataclass(frozen=True)
class ReadingTools:
    """The programs that read device code."""

    cuobjdump: Path
    nvdisasm: Path

    @classmethod
    def of(cls, python: Path) -> ReadingTools:
        """Find them in an environment of locked requirements; raise ToolchainError where they are missing."""
        found = {}
        for name in ("cuobjdump", "nvdisasm"):
            paths = sorted(site_packages(python).glob(f"nvidia/*/bin/{name}"))
            if not paths:
                raise ToolchainError(
                    f"the locked environment has no {name}", hint="see the `reading` part of the toolchain's lock"
                )
            found[name] = paths[0]
        return cls(**found)


@dataclass(frozen=True)
class Symbol:
    """A kernel in a cubin: its mangled name, its index in the symbol table, its size in bytes."""

    name: str
    index: int
    size: int


@dataclass(frozen=True)
class Cubin:
    """One ELF file of device code.

    ``label`` says where it came from, ``named_target`` what cuobjdump named it for, or "".
    """

    label: str
    path: Path
    named_target: str
    sha256: str
    kernels: tuple[Symbol, ...]


def extract_cubins(files: Sequence[Path], *, tools: ReadingTools, folder: Path) -> tuple[Cubin, ...]:
    """Take the device code out of wheels, shared objects, object files and cubins into ``folder``.

    Raise VerificationError for a file that holds none.
    """
    cubins: list[Cubin] = []
    for number, file in enumerate(files):
        place = folder / str(number)
        place.mkdir(parents=True)
        found = [cubin for label, path in _objects(file, place) for cubin in _cubins_of(path, label, place, tools)]
        if not found:
            raise VerificationError(f"{file} holds no device code", hint="name a wheel, .so or .o that was compiled")
        cubins += found
    return tuple(cubins)


def device_digests(file: Path, *, tools: ReadingTools, folder: Path) -> tuple[str, ...]:
    """Return the SHA-256 of each ELF file of device code, in their order in the file."""
    return tuple(cubin.sha256 for cubin in extract_cubins([file], tools=tools, folder=folder))


def _objects(file: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield each file that may hold device code, with its label."""
    if not file.is_file():
        raise VerificationError(f"{file}: no such file", hint="check the path")
    if file.suffix != ".whl":
        yield file.name, file
        return
    with open_wheel(file) as archive:
        for number, name in enumerate(archive.namelist()):
            if name.endswith((".so", ".o", ".cubin")):
                target = folder / f"member{number}" / Path(name).name
                target.parent.mkdir()
                target.write_bytes(archive.read(name))
                yield Path(name).name, target


def _cubins_of(file: Path, label: str, folder: Path, tools: ReadingTools) -> list[Cubin]:
    with file.open("rb") as opened:
        header = opened.read(_HEADER.size)
    if header[:4] != _ELF_MAGIC or len(header) < _HEADER.size:
        raise VerificationError(f"{label} is not an ELF file", hint="name a wheel, .so, .o or .cubin")
    if _HEADER.unpack(header)[2] == _CUDA_MACHINE:
        return [_cubin(file, label, "")]
    extracted = folder / f"of-{len(list(folder.iterdir()))}"
    extracted.mkdir()
    result = subprocess.run(
        [str(tools.cuobjdump), "-xelf", "all", str(file.resolve())],
        cwd=extracted,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    paths = sorted(extracted.glob("*.cubin"), key=_number)
    if result.returncode and "does not contain device code" not in result.stdout + result.stderr:
        raise VerificationError(f"{label} cannot be read: {result.stderr.strip()[-300:]}", hint="compile it again")
    return [_cubin(path, f"{label}#{number}", path.name.rsplit(".", 2)[1]) for number, path in enumerate(paths, 1)]


def _number(cubin: Path) -> int:
    """Return the position that cuobjdump writes into a name: NAME.POSITION.TARGET.cubin."""
    position = cubin.name.rsplit(".", 3)[1]
    return int(position) if position.isdigit() else 0


def _cubin(path: Path, label: str, target: str) -> Cubin:
    try:
        kernels = tuple(_kernels(path.read_bytes()))
    except (struct.error, IndexError, ValueError) as error:
        raise VerificationError(f"{label} is not a sound ELF file: {error}", hint="compile it again") from error
    return Cubin(label, path, target, sha256_file(path), kernels)


def without_intermediate_code(cubin: Cubin) -> Path:
    """Write a copy without the code that the driver may finish for other GPUs.

    Nothing disassembles it, and reading past it is a third of the time and the memory.
    """
    content = bytearray(cubin.path.read_bytes())
    header = _HEADER.unpack_from(content)
    offset, entry_size, names = header[6], header[11], header[13]
    sections = list(_sections(content))
    for number, section in enumerate(sections):
        if content.startswith(_INTERMEDIATE, sections[names][4] + section[0]):
            struct.pack_into("<I", content, offset + number * entry_size + 4, 0)
    copy = cubin.path.with_name(f"{cubin.path.name}.{cubin.sha256[:8]}.slim")
    copy.write_bytes(content)
    return copy


def _sections(content: bytes | bytearray) -> Iterator[tuple[int, ...]]:
    header = _HEADER.unpack_from(content)
    offset, entry_size, count = header[6], header[11], header[12]
    return (_SECTION.unpack_from(content, offset + number * entry_size) for number in range(count))


def _kernels(content: bytes) -> Iterator[Symbol]:
    sections = list(_sections(content))
    for section in sections:
        if section[1] != _SYMBOL_TABLE:
            continue
        names = sections[section[6]][4]
        for index in range(section[5] // _SYMBOL.size):
            name, info, other, _, _, size = _SYMBOL.unpack_from(content, section[4] + index * _SYMBOL.size)
            if info & 0xF == _FUNCTION and other & _ENTRY:
                end = content.index(b"\0", names + name)
                yield Symbol(content[names + name : end].decode(), index, size)
        return
