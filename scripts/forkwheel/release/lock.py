"""The wheels' lock: which revision was built from which key, and the hashes of its wheels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from forkwheel.canonical import toml_table, toml_value
from forkwheel.errors import RecipeError, VerificationError
from forkwheel.key import Key
from forkwheel.recipe import wheel_tags
from forkwheel.store import write_whole
from forkwheel.toml_file import Section, read_toml

FORMAT = 1
_DIGEST = r"[0-9a-f]{64}"
_RESTORE = "the file was edited: restore it from version control"
_HEADER = """\
# Written by `nox -s lock`: what each revision of this recipe was built from, and what came out.

"""


@dataclass(frozen=True)
class LockedWheel:
    """One wheel of a revision; ``parts`` are those of its build key."""

    package: str
    version: str
    key: str
    filename: str
    sha256: str
    size: int
    parts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Revision:
    """A revision of a recipe; once released, its wheels never change."""

    number: int
    released: bool
    wheels: tuple[LockedWheel, ...]

    def wheel(self, package: str, *, tags: str = "") -> LockedWheel | None:
        """Return the wheel of a package, of these tags where it has several, or None."""
        name = canonicalize_name(package)
        wheels = (wheel for wheel in self.wheels if canonicalize_name(wheel.package) == name)
        return next((wheel for wheel in wheels if tags in ("", wheel_tags(wheel.filename))), None)


@dataclass(frozen=True)
class WheelsLock:
    """All revisions of a recipe, in their order."""

    file: Path
    revisions: tuple[Revision, ...]

    def revision(self, number: int) -> Revision | None:
        """Return the revision of that number, or None."""
        return next((revision for revision in self.revisions if revision.number == number), None)

    def with_revision(self, revision: Revision) -> WheelsLock:
        """Return the lock with one revision added or rewritten; a released one can't be rewritten."""
        old = self.revision(revision.number)
        if old is not None and old.released and old.wheels != revision.wheels:
            raise VerificationError(
                f"{self.file}: revision {old.number} is released, its wheels can't change",
                hint="run `nox -s lock -- --recipe RECIPE` to make the next revision",
            )
        others = tuple(other for other in self.revisions if other.number != revision.number)
        return replace(self, revisions=tuple(sorted((*others, revision), key=lambda item: item.number)))

    def write(self) -> None:
        """Write the lock's file whole."""
        write_whole(self.file.resolve(), self.text().encode())

    def text(self) -> str:
        """Return the lock as TOML."""
        tables = [toml_table("", [("format", FORMAT)]).lstrip()]
        for revision in self.revisions:
            tables.append(toml_table("[[revision]]", [("number", revision.number), ("released", revision.released)]))
            tables += [_wheel_text(wheel) for wheel in revision.wheels]
        return _HEADER + "\n".join(tables)


def _wheel_text(wheel: LockedWheel) -> str:
    fields = [(name, getattr(wheel, name)) for name in ("package", "version", "key", "filename", "sha256", "size")]
    parts = [f"{toml_value(name)} = {toml_value(value)}\n" for name, value in wheel.parts]  # empty ones too
    return toml_table("[[revision.wheel]]", fields) + "\n[revision.wheel.parts]\n" + "".join(parts)


def wheels_lock_file(recipe_folder: Path) -> Path:
    """Return where a recipe's wheels lock is."""
    return recipe_folder / "wheels.lock.toml"


def load_lock(file: Path) -> WheelsLock:
    """Read a lock; a missing file is an empty one. Raise RecipeError, with file and line, on a fault."""
    if not file.exists():
        return WheelsLock(file, ())
    top = read_toml(file)
    number = top.integer("format", minimum=1)
    if number > FORMAT:
        top.fail(f"format {number} is newer than {FORMAT}", key="format", hint="use a newer forkwheel")
    revisions = tuple(_revision(section) for section in top.sections("revision"))
    numbers = [revision.number for revision in revisions]
    if numbers != sorted(set(numbers)):
        raise RecipeError(f"{file}: the revisions are not in order", hint=_RESTORE)
    top.finish()
    return WheelsLock(file, revisions)


def _revision(section: Section) -> Revision:
    revision = Revision(
        number=section.integer("number", minimum=1),
        released=section.flag("released", default=False),
        wheels=tuple(_wheel(child) for child in section.sections("wheel")),
    )
    filenames = [wheel.filename for wheel in revision.wheels]
    for child, filename in zip(section.sections("wheel"), filenames, strict=True):
        if filenames.count(filename) > 1:
            child.fail(f"{filename} is listed twice", key="filename", hint=_RESTORE)
    section.finish()
    return revision


def _wheel(section: Section) -> LockedWheel:
    wheel = LockedWheel(
        package=section.string("package"),
        version=section.string("version"),
        key=section.string("key", pattern=_DIGEST, what="a SHA-256"),
        filename=section.string("filename", pattern=r"[^/\\\s]+\.whl", what="a wheel's file name"),
        sha256=section.string("sha256", pattern=_DIGEST, what="a SHA-256"),
        size=section.integer("size"),
        parts=section.mapping("parts"),
    )
    section.finish()
    if (found := Key(wheel.parts).digest) != wheel.key:
        section.fail(f"the key is {wheel.key}, the digest of `parts` is {found}", key="key", hint=_RESTORE)
    if not _is_named(wheel):
        message = f"{wheel.filename!r} is not a wheel of {wheel.package} {wheel.version}"
        section.fail(message, key="filename", hint=_RESTORE)
    return wheel


def _is_named(wheel: LockedWheel) -> bool:
    try:
        name, version, _, _ = parse_wheel_filename(wheel.filename)
        return name == canonicalize_name(wheel.package) and version == Version(wheel.version)
    except (InvalidWheelFilename, InvalidVersion):
        return False
