"""Writing computed changes: what is verified before and after."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from patch_support import EDIT, LINES, make_series, make_tree

from forkwheel.errors import VerificationError
from forkwheel.patching import write
from forkwheel.patching.apply import Change, check_series, write_changes
from forkwheel.tree import Tree, scan


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/link").symlink_to("f.txt")
    return Tree(tmp_path / "tree", make_tree(tmp_path / "tree", {"f.txt": LINES, "other": b"o\n"}).entries)


@pytest.fixture
def changes(tmp_path: Path, tree: Tree) -> tuple[Change, ...]:
    return check_series(make_series(tmp_path / "series", {"a.patch": EDIT}), tree)


def test_the_result_is_described_and_written(tree: Tree, changes: tuple[Change, ...]) -> None:
    patched = write_changes(changes, tree)

    assert patched.changes == changes
    assert patched.tree == scan(tree.root)
    assert patched.tree.digest != tree.digest


def test_hard_linked_originals_are_left_alone(tmp_path: Path, tree: Tree, changes: tuple[Change, ...]) -> None:
    original = tmp_path / "original"
    os.link(tree.root / "f.txt", original)

    write_changes(changes, tree)

    assert original.read_bytes() == LINES
    assert b"ten\n" in (tree.root / "f.txt").read_bytes()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda root: (root / "f.txt").write_bytes(LINES + b"more\n"),
        lambda root: (root / "extra").write_bytes(b""),
        lambda root: (root / "other").unlink(),
        lambda root: (root / "other").chmod(0o755),
        lambda root: ((root / "other").unlink(), (root / "other").symlink_to("f.txt")),
        lambda root: ((root / "f.txt").rename(root.parent / "f"), (root / "f.txt").symlink_to("../f")),
    ],
)
def test_a_copy_that_is_not_the_tree_is_refused(tree: Tree, changes: tuple[Change, ...], spoil: object) -> None:
    spoil(tree.root)  # type: ignore[operator]

    with pytest.raises(VerificationError):
        write_changes(changes, tree)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda root: (root / "f.txt").write_bytes(LINES),
        lambda root: (root / "f.txt").chmod(0o755),
        lambda root: (root / "other").write_bytes(b"x\n"),
        lambda root: (root / "other").unlink(),
        lambda root: (root / "extra").write_bytes(b""),
        lambda root: os.utime(root / "other", ns=(1, 1)),
    ],
)
def test_what_else_changes_meanwhile_is_noticed(
    tree: Tree, changes: tuple[Change, ...], monkeypatch: pytest.MonkeyPatch, spoil: object
) -> None:
    real = write._write

    def write_and_spoil(path: Path, content: bytes, *, executable: bool) -> None:
        real(path, content, executable=executable)
        spoil(tree.root)  # type: ignore[operator]

    monkeypatch.setattr(write, "_write", write_and_spoil)

    with pytest.raises(VerificationError):
        write_changes(changes, tree)


def test_nothing_to_write_leaves_the_tree(tree: Tree) -> None:
    assert write_changes((), tree).tree == tree
