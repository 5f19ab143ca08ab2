"""The files that an audit reads: of a folder, a wheel or an sdist."""

from __future__ import annotations

import hashlib
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from forkwheel.errors import UsageError
from forkwheel.tree import walk

PYTHON = (".py",)
CPP = (".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".inc", ".inl")
_SUFFIXES = (*PYTHON, *CPP)
_LARGEST = 16 << 20  # bytes; a larger file is data
_MOST = 4 << 30  # bytes, all files of an archive together


@dataclass(frozen=True)
class SourceFile:
    """One file: the tree's name, its path there, where it lies, and the SHA-256 of its bytes."""

    root: str
    path: str
    file: Path
    digest: str

    def text(self) -> str:
        """Read the file, with a byte order mark and bytes that are not UTF-8 passed over."""
        return self.file.read_bytes().decode("utf-8-sig", "replace").replace("\r\n", "\n")


def list_files(roots: Mapping[str, Path]) -> list[SourceFile]:
    """List the Python and C++ files of some folders, sorted; files that are too large are left out."""
    found = []
    for name, root in roots.items():
        for path in walk(root):
            file = root / path
            if path.endswith(_SUFFIXES) and file.is_file() and file.stat().st_size <= _LARGEST:
                found.append(SourceFile(name, path, file, hashlib.sha256(file.read_bytes()).hexdigest()))
    return found


@contextmanager
def opened(path: Path) -> Iterator[Path]:
    """Give a folder with the sources at ``path``, which is a folder, a wheel or an sdist."""
    if path.is_dir():
        yield path
        return
    with TemporaryDirectory(prefix="forkwheel-audit-") as work:
        try:
            if zipfile.is_zipfile(path):
                _unzip(path, Path(work))
            elif tarfile.is_tarfile(path):
                _untar(path, Path(work))
            else:
                raise UsageError(f"{path} is neither a folder nor a wheel nor an sdist", hint="give one of these")
        except (OSError, zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
            raise UsageError(f"{path} cannot be read: {error}", hint="check the path") from error
        inner = [entry for entry in Path(work).iterdir() if entry.is_dir()]
        yield inner[0] if path.name.endswith(".tar.gz") and len(inner) == 1 else Path(work)


def _unzip(path: Path, target: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        wanted = [info for info in archive.infolist() if _is_wanted(info.filename, info.file_size)]
        _check_size(path, sum(info.file_size for info in wanted))
        for info in wanted:
            _write(target, info.filename, archive.read(info))


def _untar(path: Path, target: Path) -> None:
    with tarfile.open(path) as archive:
        total = 0
        for member in archive:
            if member.isfile() and _is_wanted(member.name, member.size):
                total += member.size
                _check_size(path, total)
                content = archive.extractfile(member)
                assert content is not None
                _write(target, member.name, content.read())


def _check_size(path: Path, total: int) -> None:
    if total > _MOST:
        raise UsageError(
            f"{path} holds more than {_MOST} bytes of sources", hint="unpack what you trust of it, and audit that"
        )


def _is_wanted(name: str, size: int) -> bool:
    parts = name.split("/")
    safe = not name.startswith("/") and ".." not in parts and "\\" not in name and "\0" not in name
    return safe and name.endswith(_SUFFIXES) and size <= _LARGEST


def _write(target: Path, name: str, content: bytes) -> None:
    file = target / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
