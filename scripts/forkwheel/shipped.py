"""Which members of a wheel a file of the source tree became."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from forkwheel.errors import VerificationError
from forkwheel.patching.apply import Change
from forkwheel.patterns import matches
from forkwheel.recipe import Package
from forkwheel.tree import Tree


def members_of(path: str, *, members: Iterable[str], tree: Iterable[str]) -> tuple[str, ...]:
    """List the members that hold the file ``path`` of a tree.

    A build keeps a file's trailing path: ``csrc/a.cu`` becomes ``pkg/data/csrc/a.cu``, and
    ``src/pkg/a.py`` becomes ``pkg/a.py``. Where several files of the tree share a member's
    trailing path, the one that shares most of it is meant.
    """
    name = path.rsplit("/", 1)[-1]
    rivals = [other for other in tree if other.rsplit("/", 1)[-1] == name]
    found = []
    for member in (member for member in members if member.rsplit("/", 1)[-1] == name):
        shared = _shared(path, member)
        if shared and shared >= max((_shared(other, member) for other in rivals), default=0):
            found.append(member)
    return tuple(found)


def _shared(path: str, member: str) -> int:
    """Count the trailing names that a path and a member share, if the shorter one is shared whole."""
    names, others = path.split("/"), member.split("/")
    count = min(len(names), len(others))
    return count if names[-count:] == others[-count:] else 0


def expected_members(
    package: Package, changes: tuple[Change, ...], *, members: Iterable[str], tree: Tree
) -> Mapping[str, str | None]:
    """Map each member that a wheel must hold to its SHA-256, or to None where any content will do.

    ``tree`` is the tree that the wheel was built from. Raises VerificationError where a
    patched file is in no member, or a deleted one still is.
    """
    members = tuple(members)
    entries = tree.by_path()
    expected: dict[str, str | None] = dict.fromkeys(package.must_contain)
    for change in changes:
        holding = members_of(change.path, members=members, tree=(*entries, change.path))
        if change.after is None and holding:
            raise VerificationError(
                f"{holding[0]} is in the wheel, but the series deletes {change.path}",
                hint="the build took it from elsewhere: look at the package's build configuration",
            )
        if change.after is not None and not holding and not matches(change.path, package.not_shipped):
            raise VerificationError(
                f"{change.path} is patched, but the wheel of {package.name} does not hold it",
                hint="if it is not meant to be in the wheel, list it under `not_shipped` in the recipe",
            )
        if change.after is not None:
            expected |= dict.fromkeys(holding, entries[change.path].sha256)
    return expected
