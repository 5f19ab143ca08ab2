"""Which members of a wheel the files of a tree became."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support import PACKAGE

from forkwheel.errors import VerificationError
from forkwheel.patching.apply import Change
from forkwheel.shipped import expected_members, members_of
from forkwheel.tree import REGULAR, Entry, Tree


@pytest.mark.parametrize(
    ("path", "members"),
    [
        ("csrc/a.cu", ("pkg/data/csrc/a.cu",)),
        ("src/pkg/a.py", ("pkg/a.py",)),
        ("a.py", ()),
        ("pkg/x.py", ("pkg/x.py", "copy/pkg/x.py")),
        ("README", ()),
        ("none.py", ()),
    ],
)
def test_a_member_belongs_to_the_file_that_shares_most_of_its_path(path: str, members: tuple[str, ...]) -> None:
    tree = ["csrc/a.cu", "src/pkg/a.py", "a.py", "pkg/x.py", "x.py", "README", "docs/README"]
    wheel = ["pkg/data/csrc/a.cu", "pkg/a.py", "pkg/x.py", "copy/pkg/x.py", "pkg/docs/README"]
    assert members_of(path, members=wheel, tree=tree) == members


def entry(path: str, digit: str = "1") -> Entry:
    return Entry(path, REGULAR, digit * 64)


def test_a_patched_file_must_be_in_the_wheel_with_the_trees_digest() -> None:
    tree = Tree(Path(), (entry("pkg/a.py", "3"),))
    changes = (Change("pkg/a.py", entry("pkg/a.py"), entry("pkg/a.py", "2"), None),)
    package = replace(PACKAGE, must_contain=("pkg/data",))
    assert expected_members(package, changes, members=["pkg/a.py"], tree=tree) == {
        "pkg/data": None,
        "pkg/a.py": "3" * 64,
    }
    with pytest.raises(VerificationError, match=r"pkg/a\.py is patched, but the wheel of demo does not hold it"):
        expected_members(PACKAGE, changes, members=[], tree=tree)
    assert expected_members(replace(PACKAGE, not_shipped=("pkg/*",)), changes, members=[], tree=tree) == {}


def test_a_deleted_file_must_not_be_in_the_wheel() -> None:
    changes = (Change("pkg/a.py", entry("pkg/a.py"), None, None),)
    with pytest.raises(VerificationError, match="the series deletes"):
        expected_members(PACKAGE, changes, members=["pkg/a.py"], tree=Tree(Path(), ()))
    assert expected_members(PACKAGE, changes, members=["pkg/b.py"], tree=Tree(Path(), ())) == {}
