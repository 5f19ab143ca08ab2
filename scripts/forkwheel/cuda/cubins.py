"""Device code inside wheels, shared objects and object files: the ELF files that hold it."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path, PurePosixPath
from zipfile import ZipFile, ZipInfo

from forkwheel.cuda.toolchain import site_packages
from forkwheel.errors import ToolchainError, VerificationError
from forkwheel.wheels.record import open_wheel

_ELF_MAGIC = b"\x7fELF"
_CUDA_MACHINE = 190
_SYMBOL_TABLE = 2
_FUNCTION = 2
_ENTRY = 0x10  # in a symbol's `other`: the function is a kernel, not one that kernels call
_TARGET = re.compile(r"^\t\.target\t(\w+)", re.MULTILINE)
_ENDINGS = (".so", ".o", ".cubin")
_OBJECT = "object"
_WITHOUT_CODE = ("does not contain device code", "No ELF file to extract")
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
    """A kernel in a cubin: its mangled name, its index in the symbol table, and where its code is, in bytes."""

    name: str
    index: int
    offset: int
    size: int


@dataclass(frozen=True)
class Cubin:
    """One ELF file of device code; ``label`` says where it came from, ``target`` what it was compiled for."""

    label: str
    path: Path
    target: str
    sha256: str
    kernels: tuple[Symbol, ...]

    def code(self) -> Iterator[tuple[str, memoryview]]:
        """Yield the name and the code of every kernel, with padding."""
        content = memoryview(self.path.read_bytes())
        for symbol in self.kernels:
            yield symbol.name, content[symbol.offset : symbol.offset + symbol.size]


def extract_cubins(files: Sequence[Path], *, tools: ReadingTools, folder: Path) -> tuple[Cubin, ...]:
    """Take the device code out of wheels, shared objects, object files and cubins into ``folder``.

    Raise VerificationError for a file that holds none.
    """
    groups = [tuple(_objects(file, folder / str(number))) for number, file in enumerate(files)]
    names = Counter(each.name for group in groups for each in group)
    cubins: list[Cubin] = []
    for file, group in zip(files, groups, strict=True):
        labels = [each.name if names[each.name] == 1 else each.full_name for each in group]
        found = [_cubins_of(each.path, label, tools) for each, label in zip(group, labels, strict=True)]
        if not any(found):
            raise VerificationError(
                f"{file} holds no machine code for a GPU", hint="name a wheel, .so, .o or .cubin with compiled kernels"
            )
        cubins += chain.from_iterable(found)
    return tuple(cubins)


def device_digests(file: Path, *, tools: ReadingTools, folder: Path) -> tuple[str, ...]:
    """Return the SHA-256 of each ELF file of device code, in their order in the file."""
    return tuple(cubin.sha256 for cubin in extract_cubins([file], tools=tools, folder=folder))


@dataclass(frozen=True)
class _Object:
    """A file that may hold device code, at ``path`` in a folder of its own under a name that no tool misreads."""

    path: Path
    name: str
    full_name: str


def _objects(file: Path, folder: Path) -> Iterator[_Object]:
    """Yield a file, or the members of a wheel that are objects by their names or their content."""
    if not file.is_file():
        what = "is no regular file" if file.exists() else "no such file"
        raise VerificationError(f"{file}: {what}", hint="name a wheel, .so, .o or .cubin")
    if file.suffix != ".whl":
        folder.mkdir(parents=True)
        (folder / _OBJECT).symlink_to(file.resolve())
        yield _Object(folder / _OBJECT, file.name, str(file))
        return
    with open_wheel(file) as archive:
        for number, info in enumerate(archive.infolist()):
            if not info.is_dir() and (info.filename.endswith(_ENDINGS) or _starts_as_elf(archive, info)):
                target = folder / str(number) / _OBJECT
                target.parent.mkdir(parents=True)
                with archive.open(info) as stream, target.open("wb") as copy:
                    shutil.copyfileobj(stream, copy)
                yield _Object(target, PurePosixPath(info.filename).name, f"{file.name}/{info.filename}")


def _starts_as_elf(archive: ZipFile, info: ZipInfo) -> bool:
    with archive.open(info) as stream:
        return stream.read(len(_ELF_MAGIC)) == _ELF_MAGIC


def _cubins_of(file: Path, label: str, tools: ReadingTools) -> list[Cubin]:
    with file.open("rb") as opened:
        header = opened.read(_HEADER.size)
    if header[:4] != _ELF_MAGIC or len(header) < _HEADER.size:
        raise VerificationError(f"{label} is not an ELF file", hint="name a wheel, .so, .o or .cubin")
    fields = _HEADER.unpack(header)
    if fields[6] + fields[11] * fields[12] > file.stat().st_size:
        raise VerificationError(
            f"{label} is cut short: its table of sections lies behind its end", hint="compile or download it again"
        )
    if fields[2] == _CUDA_MACHINE:
        return [_cubin(file, label, _printed_target(file, label, tools))]
    result = subprocess.run(
        [str(tools.cuobjdump), "-xelf", "all", _OBJECT],
        cwd=file.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    paths = sorted(file.parent.glob("*.cubin"), key=_number)
    said = (result.stdout + result.stderr).strip()
    if result.returncode and not any(sign in said for sign in _WITHOUT_CODE):
        raise VerificationError(
            f"{label} cannot be read: cuobjdump ended with {result.returncode}: {said[-300:] or 'it said nothing'}",
            hint="it may be cut short: compile or download it again",
        )
    return [_cubin(path, f"{label}#{number}", path.name.rsplit(".", 2)[1]) for number, path in enumerate(paths, 1)]


def _number(cubin: Path) -> int:
    """Return the position that cuobjdump writes into a name: NAME.POSITION.TARGET.cubin."""
    position = cubin.name.rsplit(".", 3)[1]
    return int(position) if position.isdigit() else 0


def _printed_target(file: Path, label: str, tools: ReadingTools) -> str:
    """Ask nvdisasm what a cubin was compiled for, such as ``sm_120a``: its own name may lie."""
    result = subprocess.run(
        [str(tools.nvdisasm), "-c", str(file)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    printed = _TARGET.search(result.stdout)
    if printed is None:
        raise VerificationError(
            f"{label}: nvdisasm does not tell what it is for: {result.stderr.strip()[-300:]}", hint="compile it again"
        )
    return printed[1]


def _cubin(path: Path, label: str, target: str) -> Cubin:
    content = path.read_bytes()
    try:
        kernels = tuple(_kernels(content))
    except (struct.error, IndexError, ValueError) as error:
        raise VerificationError(f"{label} is not a sound ELF file: {error}", hint="compile it again") from error
    return Cubin(label, path, target, sha256(content).hexdigest(), kernels)


def _sections(content: bytes) -> Iterator[tuple[int, ...]]:
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
            name, info, other, place, _, _ = _SYMBOL.unpack_from(content, section[4] + index * _SYMBOL.size)
            if info & 0xF == _FUNCTION and other & _ENTRY:
                end = content.index(b"\0", names + name)
                offset, size = sections[place][4:6]
                if offset + size > len(content):
                    raise ValueError("the code of a kernel ends behind it")
                yield Symbol(content[names + name : end].decode(), index, offset, size)
        return
