"""Patch series: the file ``series`` and the patches that it lists, read and linted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from packaging.version import Version

from forkwheel.errors import PatchError
from forkwheel.patching.diff import read_diff
from forkwheel.patching.fault import Place
from forkwheel.patching.header import PATCH_NAME, read_header
from forkwheel.patching.model import FilePatch, Header, split_lines
from forkwheel.patching.pending import finish_pending
from forkwheel.patching.second_reader import check_agreement

SERIES = "series"


@dataclass(frozen=True)
class Patch:
    """One patch file: its name in the series, its bytes, and what they say.

    ``sha256`` is over the whole file, in hexadecimal digits.
    """

    name: str
    content: bytes
    header: Header
    files: tuple[FilePatch, ...]
    sha256: str

    @property
    def diff(self) -> bytes:
        """The bytes after the header."""
        return self.content[len(self.header.text) :]

    @property
    def diff_sha256(self) -> str:
        """The SHA-256 (hex) of the diff alone: what the patch does, whatever its header says."""
        return sha256(self.diff).hexdigest()


@dataclass(frozen=True)
class Series:
    """The patches of one package, in order; none, and the folder ``.``, for an unpatched package."""

    folder: Path
    patches: tuple[Patch, ...]

    def index(self, name: str) -> int:
        """Return a patch's position; raise PatchError where the series has none of that name."""
        for index, patch in enumerate(self.patches):
            if patch.name == name:
                return index
        names = ", ".join(patch.name for patch in self.patches) or "none"
        raise PatchError(f"{self.folder / SERIES} lists no {name!r}", hint=f"its patches are: {names}")

    def file(self, patch: Patch) -> Path:
        """Return the file that a patch was read from."""
        return self.folder / patch.name


def load_series(folder: Path | None, *, allow_todo: bool = False) -> Series:
    """Read and lint a series; ``None`` is that of an unpatched package.

    ``allow_todo`` accepts headers that are yet to be filled in. Raises PatchError, with file
    and line, at the first fault.
    """
    if folder is None:
        return Series(Path(), ())
    finish_pending(folder)
    names = _read_names(folder / SERIES)
    _check_listed(folder, names)
    patches = tuple(
        parse_patch(_read(folder / name, Place(folder / SERIES, line)), folder / name, allow_todo=allow_todo)
        for name, line in names.items()
    )
    series = Series(folder, patches)
    _check_requires(series)
    return series


def parse_patch(content: bytes, file: Path, *, allow_todo: bool = False) -> Patch:
    """Read and lint the bytes of one patch, which are, or will be, those of ``file``."""
    lines = split_lines(content)
    header = read_header(lines, file=file, allow_todo=allow_todo)
    if not content.endswith(b"\n"):
        Place(file, len(lines)).fail("the last line has no newline", hint="end the patch with a newline")
    skipped = header.text.count(b"\n")
    diff = lines[skipped:]
    files = read_diff(diff, file=file, first_line=skipped + 1)
    check_agreement(files, diff, file=file, first_line=skipped + 1)
    return Patch(file.name, content, header, files, sha256(content).hexdigest())


def _read(file: Path, listed: Place) -> bytes:
    if file.is_symlink():
        listed.fail(f"{file.name} is a symbolic link", hint="put the patch itself beside the series")
    try:
        return file.read_bytes()
    except FileNotFoundError:
        listed.fail(f"{file.name} does not exist", hint=f"add it to {file.parent}, or remove the line")
    except OSError as error:
        listed.fail(f"{file.name} cannot be read: {error.strerror}", hint="a patch is a regular file")


def _read_names(file: Path) -> dict[str, int]:
    """Return the names that a series lists, in order, each with its line."""
    try:
        text = file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise PatchError(f"{file} does not exist", hint="a series is a folder with a file named series") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PatchError(f"{file} cannot be read: {error}", hint="the file is UTF-8 text") from error
    names: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        name = re.sub(r"(^|\s)#.*", "", line).strip(" ")
        if not name:
            continue
        place = Place(file, number)
        if not PATCH_NAME.fullmatch(name):
            place.fail(f"{name!r} is no plain patch name", hint="write one NAME.patch a line, without a folder")
        if name in names:
            place.fail(f"{name} is listed twice; first at line {names[name]}", hint="remove one of the lines")
        names[name] = number
    return names


def _check_listed(folder: Path, names: dict[str, int]) -> None:
    for file in sorted(folder.iterdir()):
        if file.suffix == ".patch" and file.name not in names:
            raise PatchError(f"{file}:1: the patch is not listed in {SERIES}", hint="list it, or remove the file")


def _check_requires(series: Series) -> None:
    """Require what ``Requires`` names to be in the series; at which place, application decides."""
    names = {patch.name for patch in series.patches}
    for patch in series.patches:
        for required in patch.header.requires:
            if required == patch.name or required not in names:
                Place(series.file(patch), patch.header.line_of("Requires")).fail(
                    f"{patch.name} requires {required}, "
                    + ("which is itself" if required == patch.name else f"which {SERIES} does not list"),
                    hint="list the required patch, or drop the field",
                )


def check_expiry(series: Series, version: str) -> None:
    """Raise PatchError naming the first patch that upstream's ``version`` no longer needs.

    Those are the patches whose ``Drop-After`` or ``Applied-Upstream`` release is that version
    or an older one; an ``Applied-Upstream`` that is only a commit cannot be compared.
    """
    built = Version(version)
    for patch in series.patches:
        for field, limit in (
            ("Drop-After", patch.header.drop_after),
            ("Applied-Upstream", patch.header.applied_upstream),
        ):
            if limit is not None and built >= limit:
                Place(series.file(patch), patch.header.line_of(field)).fail(
                    f"{patch.name} has expired: `{field}` is {limit} and the package's version is {version}",
                    hint=f"drop {patch.name} from {series.folder / SERIES} and delete the file",
                )
