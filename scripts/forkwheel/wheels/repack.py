"""Patch a wheel in place: what the patches do not touch keeps its bytes, and RECORD says so.

The wheel gets the fork's version in its file name, its ``.dist-info`` (and ``.data``) folder
and METADATA; nothing is compiled, and no backend runs.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

from forkwheel.errors import BuildError, VerificationError
from forkwheel.recipe import Package
from forkwheel.wheels.archive import Member
from forkwheel.wheels.finish import Wheel, assemble
from forkwheel.wheels.metadata import fields, rewrite_version
from forkwheel.wheels.record import WheelName, check_record, open_wheel, parse_record, read_members

_UNKEPT = ("RECORD", "RECORD.jws", "RECORD.p7s")
_PROBED = 8 << 10
"""So many bytes at its start tell whether a member is text: one that is not has a NUL there."""


def repack_wheel(
    archive: Path,
    *,
    package: Package,
    version: str,
    replaced: Mapping[str, Member | None],
    requires: Mapping[str, str],
    records: Mapping[str, bytes],
    dest: Path,
) -> Wheel:
    """Write upstream's wheel ``archive`` again, as ``version``, in the folder ``dest``.

    ``replaced`` maps paths to what comes in their place, None where a file goes; a path that
    the wheel lacks is added. ``requires`` and ``records`` are as ``finish_wheel`` takes them.
    Raises BuildError where the wheel is unsound, or a change concerns its own records.
    """
    name = WheelName.parse(archive.name)
    members, dist_info = _read(archive, name, package)
    for path in replaced:
        if path.startswith(f"{dist_info}/"):
            raise BuildError(
                f"{path} of {archive.name} is the wheel's own record, which a patch must not change",
                hint="requirements are rewritten with the recipe's `requires`",
            )
    _check_texts(members, replaced, archive)
    kept = [
        replace(member, name=_renamed(member.name, dist_info, version))
        for member in _changed(members, replaced, archive)
    ]
    new_info = _renamed(f"{dist_info}/", dist_info, version).removesuffix("/")
    rewritten = [
        replace(member, content=rewrite_version(member.content, version))
        if member.name == f"{new_info}/METADATA"
        else member
        for member in kept
        if member.name not in {f"{new_info}/{file}" for file in _UNKEPT}
    ]
    return assemble(
        rewritten,
        dist_info=new_info,
        package=package,
        version=version,
        requires=requires,
        records=records,
        path=dest / fork_filename(archive.name, version),
    )


def fork_filename(filename: str, version: str) -> str:
    """Return a wheel's file name with another version."""
    parts = filename.split("-")
    return "-".join([parts[0], version, *parts[2:]])


def untouched_members(archive: Path, *, replaced: Iterable[str]) -> dict[str, str]:
    """Map each member that must keep its content to its SHA-256 (hex), as upstream's RECORD says."""
    changed = set(replaced)
    with open_wheel(archive) as opened:
        dist_info = WheelName.parse(archive.name).dist_info(opened.namelist())
        rows = parse_record(opened.read(f"{dist_info}/RECORD"), wheel=archive.name)
    return {
        path: _hex(row.digest)
        for path, row in rows.items()
        if row.digest.startswith("sha256=") and not path.startswith(f"{dist_info}/") and path not in changed
    }


def renamed_members(archive: Path, members: Mapping[str, str | None], *, version: str) -> dict[str, str | None]:
    """Give members of upstream's wheel the paths that they have in the one of another version."""
    with open_wheel(archive) as opened:
        dist_info = WheelName.parse(archive.name).dist_info(opened.namelist())
    return {_renamed(path, dist_info, version): digest for path, digest in members.items()}


def _hex(digest: str) -> str:
    encoded = digest.removeprefix("sha256=")
    return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).hex()


def _read(archive: Path, name: WheelName, package: Package) -> tuple[list[Member], str]:
    try:
        with open_wheel(archive) as opened:
            members = read_members(opened)
        contents = {member.name: member.content for member in members}
        dist_info = name.dist_info(contents)
        for file in ("METADATA", "WHEEL", "RECORD"):
            if f"{dist_info}/{file}" not in contents:
                raise BuildError(f"{archive.name} lacks {dist_info}/{file}", hint="the pinned wheel is unsound")
        check_record(contents, record=f"{dist_info}/RECORD", wheel=archive.name)
    except VerificationError as error:
        raise BuildError(error.message, hint="the pinned wheel is unsound: use another source") from error
    found = fields(contents[f"{dist_info}/METADATA"])
    if [canonicalize_name(value) for value in found.get("name", [])] != [canonicalize_name(package.name)]:
        raise BuildError(f"{archive.name}: METADATA is not of {package.name}", hint="correct the recipe's pin")
    if [Version(value) for value in found.get("version", [])] != [Version(package.version)]:
        raise BuildError(f"{archive.name}: METADATA is not of version {package.version}", hint="correct the pin")
    return members, dist_info


def _check_texts(members: list[Member], replaced: Mapping[str, Member | None], archive: Path) -> None:
    """Raise BuildError where a member that is no text is to be changed or removed."""
    for member in members:
        if member.name in replaced and b"\0" in member.content[:_PROBED]:
            raise BuildError(
                f"{member.name} of {archive.name} is compiled, or no text for another reason: no patch may touch it",
                hint="take it out of the series; what is compiled has to be built from source",
            )


def _changed(members: list[Member], replaced: Mapping[str, Member | None], archive: Path) -> list[Member]:
    present = {member.name for member in members}
    kept: list[Member] = []
    for member in members:
        new = replaced.get(member.name, member)
        if new is not None:
            kept.append(replace(new, executable=new.executable or member.executable))
    for path, new in replaced.items():
        if path not in present:
            if new is None:
                raise BuildError(f"{archive.name} has no {path} to remove", hint="the series is not made for it")
            kept.append(new)
    return kept


def _renamed(path: str, dist_info: str, version: str) -> str:
    """Put the new version into a path in the ``.dist-info`` or ``.data`` folder, which have it in their names."""
    stem, _, old = dist_info.removesuffix(".dist-info").rpartition("-")
    for kind in ("dist-info", "data"):
        if path.startswith(folder := f"{stem}-{old}.{kind}/"):
            return f"{stem}-{version}.{kind}/{path.removeprefix(folder)}"
    return path
