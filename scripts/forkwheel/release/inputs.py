"""The inputs' lock: the build requirements of every package, pinned with the digests of their files.

One lock serves every Python and machine that forkwheel builds on, with the same versions on
all of them: where a requirement is needed on some only, its marker says so. The toolchain's
lock has the same form; its parts are not packages of the recipe, and ask for what its author wrote.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from packaging.markers import InvalidMarker, Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from forkwheel.errors import RecipeError
from forkwheel.toml_file import Section, read_toml

FORMAT = 1
FILENAME = "inputs.lock.toml"
TOOLCHAIN_FILENAME = "toolchain.lock.toml"

COMMENT = "# The build requirements, pinned. Written by forkwheel: edit `constraints` alone.\n"
TOOLCHAIN_COMMENT = (
    "# What compiles and reads kernels, pinned. Written by `nox -s lock -- --recipe RECIPE --toolchain`:\n"
    "# edit `requires` and `constraints` alone.\n"
)

_HINT = "run `nox -s lock -- --recipe RECIPE --inputs`; of this file only `constraints` are edited by hand"
_TOOLCHAIN_HINT = (
    "write the `name` and `requires` of each part there, and have them pinned by "
    "`nox -s lock -- --recipe RECIPE --toolchain`"
)


@dataclass(frozen=True)
class LockedRequirement:
    """One build requirement; ``files`` are its wheels' names with their SHA-256 (hex)."""

    name: str
    version: str
    marker: str | None
    files: tuple[tuple[str, str], ...]

    @property
    def hashes(self) -> tuple[str, ...]:
        """The SHA-256 (hex) of every file that may be installed."""
        return tuple(sha256 for _, sha256 in self.files)

    def line(self) -> str:
        """Return the requirement as pip's requirements files spell it, with its hashes."""
        marker = f" ; {self.marker}" if self.marker else ""
        hashes = "".join(f" --hash=sha256:{sha256}" for sha256 in self.hashes)
        return f"{self.name}=={self.version}{marker}{hashes}"


@dataclass(frozen=True)
class PackageInputs:
    """One package's part of the lock.

    ``requires`` is what its pyproject.toml asks for, ``constraints`` what the recipe's
    author narrows that to, ``requirements`` what both came to.
    """

    package: str
    requires: tuple[str, ...]
    constraints: tuple[str, ...]
    requirements: tuple[LockedRequirement, ...]


@dataclass(frozen=True)
class Inputs:
    """The whole lock, and the file that it was read from."""

    file: Path
    parts: tuple[PackageInputs, ...]

    @property
    def packages(self) -> tuple[tuple[str, tuple[LockedRequirement, ...]], ...]:
        """Each package's name with its requirements."""
        return tuple((part.package, part.requirements) for part in self.parts)

    def part(self, package_name: str) -> PackageInputs:
        """Return one package's part; raise RecipeError where the lock has none."""
        for part in self.parts:
            if canonicalize_name(part.package) == canonicalize_name(package_name):
                return part
        state = "does not list" if self.file.exists() else "does not exist yet, so it does not list"
        raise RecipeError(f"{self.file} {state} the build requirements of {package_name!r}", hint=lock_hint(self.file))

    def of(self, package_name: str) -> tuple[LockedRequirement, ...]:
        """Return one package's requirements; raise RecipeError where the lock has none."""
        return self.part(package_name).requirements

    def digest(self, package_name: str) -> str:
        """Name what is installed for one package's build: the SHA-256 over its requirements."""
        rows = [[item.name, item.version, item.marker, sorted(item.hashes)] for item in self.of(package_name)]
        return hashlib.sha256(json.dumps(sorted(rows, key=str)).encode()).hexdigest()

    def text_of(self, package_name: str) -> str:
        """Return a lock that holds one package's part alone."""
        return lock_text([self.part(package_name)])

    def check_requires(self, package_name: str, requires: Iterable[str]) -> None:
        """Raise RecipeError where a tree's build requirements are not those that were locked."""
        locked, found = set(self.part(package_name).requires), set(requires)
        if locked != found:
            raise RecipeError(
                f"{self.file}: the lock of {package_name} is for {_listed(locked)}, "
                f"and its pyproject.toml requires {_listed(found)}",
                hint=lock_hint(self.file),
            )


def lock_hint(file: Path) -> str:
    """Return what to do where a lock lacks something or is damaged."""
    return _TOOLCHAIN_HINT if file.name == TOOLCHAIN_FILENAME else _HINT


def _listed(requirements: Iterable[str]) -> str:
    return ", ".join(sorted(requirements)) or "nothing"


def load_inputs(file: Path) -> Inputs:
    """Read and check a lock; raise RecipeError, with file and line, at the first fault."""
    top = read_toml(file)
    number = top.integer("format", minimum=1)
    if number > FORMAT:
        top.fail(
            f"format {number} is newer than {FORMAT}, the newest known here", key="format", hint="use a newer forkwheel"
        )
    sections = top.sections("package")
    parts = tuple(_part(section) for section in sections)
    top.finish()
    _check_distinct(sections, [part.package for part in parts], what="package")
    return Inputs(file, parts)


def _part(section: Section) -> PackageInputs:
    children = section.sections("requirement")
    requirements = tuple(_requirement(child) for child in children)
    _check_distinct(children, [requirement.name for requirement in requirements], what="requirement")
    part = PackageInputs(
        package=section.string("name"),
        requires=_requirements(section, "requires"),
        constraints=_requirements(section, "constraints"),
        requirements=requirements,
    )
    section.finish()
    return part


def _check_distinct(sections: list[Section], names: list[str], *, what: str) -> None:
    seen: set[str] = set()
    for section, name in zip(sections, names, strict=True):
        if canonicalize_name(name) in seen:
            section.fail(f"{what} {name!r} is given twice", key="name", hint="remove one of them")
        seen.add(canonicalize_name(name))


def _requirements(section: Section, key: str) -> tuple[str, ...]:
    texts = section.strings(key)
    for text in texts:
        try:
            Requirement(text)
        except InvalidRequirement as error:
            section.fail(f"{text!r} is not a requirement: {error}", key=key, hint="write it as NAME==VERSION")
    return texts


def _requirement(section: Section) -> LockedRequirement:
    name, version, marker = section.string("name"), section.string("version"), section.optional("marker")
    try:
        Version(version)
    except InvalidVersion:
        section.fail(f"{version!r} is not a version", key="version", hint=lock_hint(section.file))
    if marker is not None:
        _check_marker(section, marker)
    files = section.mapping("files")
    if not files:
        section.fail(f"{name} {version} is locked without a file", hint=lock_hint(section.file))
    for filename, sha256 in files:
        _check_file(section, filename, sha256, name=name, version=version)
    section.finish()
    return LockedRequirement(name, version, marker, files)


def _check_marker(section: Section, marker: str) -> None:
    try:
        Marker(marker)
    except InvalidMarker as error:
        section.fail(f"{marker!r} is not a marker: {error}", key="marker", hint=lock_hint(section.file))


def _check_file(section: Section, filename: str, sha256: str, *, name: str, version: str) -> None:
    child = Section(section.file, {}, section.lines, (*section.position, "files"))

    def fail(message: str) -> NoReturn:
        child.fail(message, key=filename, hint=lock_hint(section.file))

    try:
        found_name, found_version, _, _ = parse_wheel_filename(filename)
    except InvalidWheelFilename as error:
        fail(f"{filename!r} is no wheel's file name: {error}")
    if found_name != canonicalize_name(name) or found_version != Version(version):
        fail(f"{filename!r} is not of {name} {version}")
    if len(sha256) != 64 or set(sha256) - set("0123456789abcdef"):
        fail(f"{sha256!r} is not a SHA-256 of 64 lower-case hexadecimal digits")


def lock_text(parts: Iterable[PackageInputs], *, comment: str = COMMENT) -> str:
    """Return the text of a lock, which ``load_inputs`` reads back as it was."""
    return f"{comment}format = {FORMAT}\n" + "".join(_part_text(part) for part in parts)


def _part_text(part: PackageInputs) -> str:
    text = f"\n[[package]]\nname = {_quoted(part.package)}\n"
    text += f"requires = [{', '.join(map(_quoted, part.requires))}]\n"
    if part.constraints:
        text += f"constraints = [{', '.join(map(_quoted, part.constraints))}]\n"
    return text + "".join(_requirement_text(requirement) for requirement in part.requirements)


def _requirement_text(requirement: LockedRequirement) -> str:
    text = f"\n[[package.requirement]]\nname = {_quoted(requirement.name)}\nversion = {_quoted(requirement.version)}\n"
    if requirement.marker is not None:
        text += f"marker = {_quoted(requirement.marker)}\n"
    rows = "".join(f"{_quoted(filename)} = {_quoted(sha256)}\n" for filename, sha256 in requirement.files)
    return f"{text}\n[package.requirement.files]\n{rows}"


def _quoted(text: str) -> str:
    if "'" not in text and '"' in text and text.isprintable():
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
