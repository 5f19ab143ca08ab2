"""Lists of architectures whose use cannot be followed, known by what they hold and what they are for."""

from __future__ import annotations

import re

from forkwheel.gates.arch import KNOWN_MAJORS, KNOWN_NUMBERS, Arch
from forkwheel.gates.values import Value, Varying

_DECLARES = re.compile(r"capabilit|compute_cap|major_versions|supported_arch|supported_sm|_ccs$")


def declared_list(parameter: str, collection: Value, archs: tuple[Arch, ...]) -> Varying | None:
    """Return how an architecture is written in a list that a parameter takes, or None where it holds none."""
    if not _DECLARES.search(parameter) or not isinstance(collection, (list, tuple, set, frozenset)) or not collection:
        return None
    if all(type(item) is int and item in KNOWN_NUMBERS for item in collection):
        return Varying(tuple(arch.number for arch in archs))
    if "major" in parameter and all(type(item) is int and item in KNOWN_MAJORS for item in collection):
        return Varying(tuple(arch.major for arch in archs))
    return None
