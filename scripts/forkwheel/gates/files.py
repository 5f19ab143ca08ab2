"""The files that an audit reads: of a folder, a wheel or an sdist."""

from __future__ import annotations

import re
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from forkwheel.errors import UsageError
from forkwheel.patching.overlay import Change
from forkwheel.tree import SYMLINK, Tree, sha256_file, walk

PYTHON = (".py",)
CPP = (".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".inc", ".inl")
_SUFFIXES = (*PYTHON, *CPP)
_LARGEST = 16 << 20  # bytes; a larger file is data
_ENCODING = re.compile(rb"^(?:[^\n]*\n)?[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")  # PEP 263
_MOST = 4 << 30  # bytes, all files of an archive together


FileKey = tuple[str, str, str]  # tree, path, digest


@dataclass(frozen=True)
class SourceFile:
    """One file: the tree's name, its path there, the SHA-256 of its bytes, and where these are.

    ``content`` holds the bytes of a file that is not on disk as it is audited: a patch changes it.
    """

    root: str
    path: str
    digest: str
    file: Path
    content: bytes | None = field(default=None, repr=False)

    @property
    def key(self) -> FileKey:
        """What tells the file from all others."""
        return self.root, self.path, self.digest

    def read(self) -> bytes:
        """Return the bytes."""
        return self.file.read_bytes() if self.content is None else self.content

    def text(self) -> str:
        """Return the text, with bytes that its encoding does not have passed over."""
        return decode(self.read(), is_python=self.is_python)

    @property
    def is_python(self) -> bool:
        """Tell Python from C and C++."""
        return self.path.endswith(PYTHON)


@dataclass(frozen=True)
class PackedFile(SourceFile):
    """A file that is still in its archive; ``digest`` is the archive's."""

    archive: zipfile.ZipFile | None = field(default=None, compare=False, repr=False)

    def read(self) -> bytes:
        """Return the bytes."""
        assert self.archive is not None
        return self.archive.read(self.path)


def decode(content: bytes, *, is_python: bool) -> str:
    """Decode a source: as a Python file declares it, else as UTF-8; a byte order mark is left out."""
    declared = _ENCODING.match(content) if is_python else None
    text = None
    if declared is not None:
        with suppress(LookupError, ValueError):
            text = content.decode(declared[1].decode())
    if text is None:
        text = content.decode("utf-8-sig", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def list_files(roots: Mapping[str, Path]) -> list[SourceFile]:
    """List the Python and C++ files of some folders, sorted; files that are too large are left out."""
    found = []
    for name, root in roots.items():
        for path in walk(root):
            file = root / path
            if path.endswith(_SUFFIXES) and file.is_file() and file.stat().st_size <= _LARGEST:
                found.append(SourceFile(name, path, sha256_file(file), file))
    return found


def files_of(name: str, tree: Tree, changes: Sequence[Change] = ()) -> list[SourceFile]:
    """List the Python and C++ files of a tree whose digests are known, as they are after some changes."""
    entries = tree.by_path()
    content = {}
    for change in changes:
        entries.pop(change.path, None)
        if change.after is not None:
            entries[change.path], content[change.path] = change.after, change.content
    found = []
    for path, entry in sorted(entries.items()):
        if not path.endswith(_SUFFIXES):
            continue
        file = tree.root / path
        if entry.mode == SYMLINK or (path not in content and file.stat().st_size > _LARGEST):
            if not file.is_file() or file.stat().st_size > _LARGEST:
                continue
            entry = replace(entry, sha256=sha256_file(file))
        found.append(SourceFile(name, path, entry.sha256, file, content.get(path)))
    return found


def files_in_wheel(name: str, wheel: Path, *, digest: str, stack: ExitStack) -> list[SourceFile]:
    """List the Python and C++ files of a wheel, to be read while ``stack`` is open; nothing is unpacked."""
    archive = stack.enter_context(zipfile.ZipFile(wheel))
    infos = sorted(archive.infolist(), key=lambda info: info.filename)
    return [
        PackedFile(name, info.filename, digest, wheel, archive=archive)
        for info in infos
        if _is_wanted(info.filename, info.file_size)
    ]


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
