"""METADATA: read its fields, and rewrite the requirements that a recipe pins anew.

The text is kept byte for byte but for the versions that are rewritten.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.parser import BytesHeaderParser
from email.policy import compat32

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from forkwheel.errors import BuildError

_FIELD = b"requires-dist:"


def fields(metadata: bytes) -> dict[str, list[str]]:
    """Return the values of every header, by its name in lower case."""
    values: dict[str, list[str]] = {}
    for name, value in BytesHeaderParser(policy=compat32).parsebytes(metadata).items():
        values.setdefault(name.lower(), []).append(str(value))
    return values


def rewrite_requirements(metadata: bytes, requires: Mapping[str, str]) -> bytes:
    """Give each requirement in ``requires`` (``NAME==VERSION``) its new version.

    Extras and markers are kept. Raise BuildError unless METADATA has each of them exactly once.
    """
    head, end, body = _split(metadata)
    lines = head.splitlines(keepends=True)
    for requirement, version in requires.items():
        pin = Requirement(requirement)
        found = [index for index, line in enumerate(lines) if _pins(line, pin)]
        if len(found) != 1:
            raise BuildError(
                f"METADATA requires {requirement} {len(found)} times, not once; it has: {_similar(lines, pin)}",
                hint="correct the package's `requires` in the recipe",
            )
        lines[found[0]] = _with_version(lines[found[0]], version)
    return b"".join(lines) + end + body


def rewrite_version(metadata: bytes, version: str) -> bytes:
    """Give METADATA another version; raise BuildError unless it has exactly one."""
    head, end, body = _split(metadata)
    changed, count = re.subn(rb"(?mi)^(version:[ \t]*)[^\r\n]*", lambda match: match[1] + version.encode(), head)
    if count != 1:
        raise BuildError(f"METADATA has {count} versions, not one", hint="the wheel is unsound; do not use it")
    return changed + end + body


def _split(metadata: bytes) -> tuple[bytes, bytes, bytes]:
    """Part METADATA into its headers, the empty line and the description."""
    end = re.search(rb"(?<=\n)\r?\n", metadata)
    if end is None:
        return metadata, b"", b""
    return metadata[: end.start()], end.group(), metadata[end.end() :]


def _requirement(line: bytes) -> Requirement | None:
    if not line.lower().startswith(_FIELD):
        return None
    try:
        return Requirement(line[len(_FIELD) :].decode().strip())
    except (InvalidRequirement, UnicodeDecodeError):
        return None


def _pins(line: bytes, pin: Requirement) -> bool:
    """Say whether a line requires what ``pin`` does; extras matter only where ``pin`` has some."""
    requirement = _requirement(line)
    if requirement is None or canonicalize_name(requirement.name) != canonicalize_name(pin.name):
        return False
    if pin.extras and pin.extras != requirement.extras:
        return False
    specifiers = list(requirement.specifier)
    if len(specifiers) != 1 or specifiers[0].operator != "==" or specifiers[0].version.endswith(".*"):
        return False
    return Version(specifiers[0].version) == Version(next(iter(pin.specifier)).version)


def _with_version(line: bytes, version: str) -> bytes:
    return re.sub(rb"(==\s*)[^\s;,()]+", lambda match: match[1] + version.encode(), line, count=1)


def _similar(lines: list[bytes], pin: Requirement) -> str:
    texts = []
    for line in lines:
        requirement = _requirement(line)
        if requirement is not None and canonicalize_name(requirement.name) == canonicalize_name(pin.name):
            texts.append(str(requirement))
    return ", ".join(texts) or f"no requirement on {pin.name}"
