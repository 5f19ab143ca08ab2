"""Finish a wheel: check what the backend made, add the records, pack it deterministically."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from forkwheel.errors import BuildError, VerificationError
from forkwheel.recipe import Package
from forkwheel.store import write_whole
from forkwheel.wheels.archive import Member, archive
from forkwheel.wheels.metadata import fields, rewrite_requirements
from forkwheel.wheels.record import WheelName, check_record, open_wheel, read_members, write_record

_HINT = "the build backend made a wheel that the recipe does not describe"
_VERSION_HINT = (
    "set the version where the project states it: with `substitute` or `generated` in the recipe, or in "
    "`environment` where the backend takes it from a variable"
)


@dataclass(frozen=True)
class Wheel:
    """A finished wheel; ``size`` in bytes."""

    path: Path
    filename: str
    sha256: str
    size: int


def finish_wheel(
    raw: Path,
    *,
    package: Package,
    version: str,
    requires: Mapping[str, str],
    records: Mapping[str, bytes],
    dest: Path,
) -> Wheel:
    """Turn a backend's wheel into the one that is handed out, in the folder ``dest``.

    ``requires`` maps requirements of the recipe (``NAME==VERSION``) to their new versions.
    ``records`` are added below the ``.dist-info`` folder by their paths in it. Raise BuildError
    where the raw wheel is unsound, of another version, or lacks a requirement.
    """
    with _as_build_errors(package, dest):
        members, dist_info = _read(raw, package=package, version=version)
        return assemble(
            members,
            dist_info=dist_info,
            package=package,
            version=version,
            requires=requires,
            records=records,
            path=dest / raw.name,
        )


def assemble(
    members: Sequence[Member],
    *,
    dist_info: str,
    package: Package,
    version: str,
    requires: Mapping[str, str],
    records: Mapping[str, bytes],
    path: Path,
) -> Wheel:
    """Write the wheel ``path`` of members that have no RECORD yet, with requirements rewritten and records added."""
    with _as_build_errors(package, path.parent):
        _check_own_version(members, package=package, version=version)
        rewritten = _rewrite(members, dist_info=dist_info, requires=requires)
        rewritten += _recorded(rewritten, records, dist_info=dist_info)
        return _write(rewritten, dist_info=dist_info, epoch=package.epoch, path=path)


@contextmanager
def _as_build_errors(package: Package, dest: Path) -> Iterator[None]:
    try:
        yield
    except VerificationError as error:
        raise BuildError(error.message, hint=_HINT) from error
    except OSError as error:
        raise BuildError(
            f"the wheel of {package.name} cannot be written to {dest}: {error.strerror or error}",
            hint="see that the disk has room and that the folder can be written to",
        ) from error


def _read(raw: Path, *, package: Package, version: str) -> tuple[list[Member], str]:
    """Read the raw wheel without its RECORD, checked row by row, and find its .dist-info folder."""
    name = WheelName.parse(raw.name)
    if name.name != canonicalize_name(package.name) or name.version != Version(version):
        raise BuildError(f"the backend built {raw.name}, not {package.name} {version}", hint=_VERSION_HINT)
    with open_wheel(raw) as opened:
        members = read_members(opened)
    contents = {member.name: member.content for member in members}
    dist_info = name.dist_info(contents)
    for file in ("METADATA", "WHEEL", "RECORD"):
        if f"{dist_info}/{file}" not in contents:
            raise BuildError(f"{raw.name} lacks {dist_info}/{file}", hint=_HINT)
    check_record(contents, record=f"{dist_info}/RECORD", wheel=raw.name)
    _check_metadata(contents[f"{dist_info}/METADATA"], package=package, version=version, wheel=raw.name)
    unkept = {f"{dist_info}/{file}" for file in ("RECORD", "RECORD.jws", "RECORD.p7s")}
    return [member for member in members if member.name not in unkept], dist_info


def _check_metadata(metadata: bytes, *, package: Package, version: str, wheel: str) -> None:
    found = fields(metadata)
    for field, wanted in (("name", package.name), ("version", version)):
        value = ", ".join(found.get(field, ["nothing"]))
        same = canonicalize_name(value) == canonicalize_name(wanted) if field == "name" else _equal(value, wanted)
        if not same:
            raise BuildError(f"{wheel}: METADATA gives the {field} {value}, not {wanted}", hint=_HINT)


def _equal(left: str, right: str) -> bool:
    try:
        return Version(left) == Version(right)
    except InvalidVersion:
        return False


def _check_own_version(members: Sequence[Member], *, package: Package, version: str) -> None:
    """Check the ``__version__`` that the package itself reports, without running its code."""
    if package.version_file is None:
        return
    path = package.version_file
    found = [member for member in members if path == member.name or path.endswith(f"/{member.name}")]
    if not found:
        raise BuildError(f"the wheel of {package.name} lacks its `version_file` {path}", hint=_HINT)
    member = max(found, key=lambda candidate: len(candidate.name))
    own = _assigned(member.content, "__version__", file=member.name)
    if own != version:
        raise BuildError(f"{member.name} says __version__ = {own!r}, not {version!r}", hint=_VERSION_HINT)


def _assigned(source: bytes, name: str, *, file: str) -> object:
    """Return the literal that a module last assigns to ``name`` at its top level, or None."""
    try:
        statements = ast.parse(source).body
    except (SyntaxError, ValueError) as error:
        raise BuildError(f"{file} cannot be parsed: {error}", hint=_HINT) from error
    value: object = None
    for statement in statements:
        targets: Sequence[ast.expr] = ()
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets = (statement.target,)
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            assert isinstance(statement, ast.Assign | ast.AnnAssign)
            value = statement.value.value if isinstance(statement.value, ast.Constant) else None
    return value


def _rewrite(members: Iterable[Member], *, dist_info: str, requires: Mapping[str, str]) -> list[Member]:
    return [
        Member(member.name, rewrite_requirements(member.content, requires))
        if member.name == f"{dist_info}/METADATA"
        else member
        for member in members
    ]


def _recorded(members: Iterable[Member], records: Mapping[str, bytes], *, dist_info: str) -> list[Member]:
    taken = {member.name for member in members}
    added = []
    for path, content in records.items():
        name = f"{dist_info}/{path}"
        if name in taken:
            raise BuildError(f"the backend's wheel already has {name}, a name of forkwheel's own records", hint=_HINT)
        added.append(Member(name, content))
    return added


def _write(members: Iterable[Member], *, dist_info: str, epoch: int, path: Path) -> Wheel:
    ordered = sorted(members, key=lambda member: (member.name.startswith(f"{dist_info}/"), member.name))
    record = f"{dist_info}/RECORD"
    ordered.append(Member(record, write_record(ordered, name=record)))
    content = b"".join(archive(ordered, epoch=epoch))
    write_whole(path, content)
    return Wheel(path, path.name, hashlib.sha256(content).hexdigest(), len(content))
