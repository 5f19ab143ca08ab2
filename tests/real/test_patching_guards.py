"""A real file whose thirteen guards share their context: a hunk never lands on the wrong one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from patch_support import HEADER

from forkwheel.fetch import FetchContext
from forkwheel.patching.apply import DoesNotApply, check_series
from forkwheel.patching.model import split_lines
from forkwheel.patching.series import Series, parse_patch
from forkwheel.recipe import Recipe
from forkwheel.sources import source_tree
from forkwheel.tree import Tree, scan

FILE = "include/flashinfer/comm/trtllm_allreduce.cuh"
CEILING = b" && (__CUDA_ARCH__ < 1200)"
GUARD = re.compile(rb"__CUDA_ARCH__ >= 900.*< 1200")


@pytest.fixture(scope="module")
def content(recipe: Recipe, context: FetchContext) -> bytes:
    tree = source_tree(recipe.package("flashinfer-python"), context=context, kind="sdist").tree
    return (tree.root / FILE).read_bytes()


def tree_of(root: Path, content: bytes) -> Tree:
    (root / FILE).parent.mkdir(parents=True, exist_ok=True)
    (root / FILE).write_bytes(content)
    return scan(root)


def guard_lines(content: bytes) -> list[int]:
    """Return the index (from 0) of each guard's line."""
    return [number for number, line in enumerate(split_lines(content)) if GUARD.search(line)]


def opening(content: bytes, index: int, folder: Path) -> Series:
    """Return a series that takes the ceiling from one guard, with three lines of context."""
    lines = split_lines(content)
    changed = lines[index].replace(CEILING, b"")
    assert changed != lines[index]
    start = index - 3
    body = [b" " + line for line in lines[start:index]] + [b"-" + lines[index], b"+" + changed]
    body += [b" " + line for line in lines[index + 1 : index + 4]]
    names = b"--- a/%s\n+++ b/%s\n" % (FILE.encode(), FILE.encode())
    diff = names + b"@@ -%d,7 +%d,7 @@\n" % (start + 1, start + 1) + b"".join(body)
    return Series(folder, (parse_patch(HEADER + diff, folder / "guard.patch"),))


def test_there_are_thirteen_guards(content: bytes) -> None:
    assert len(guard_lines(content)) == 13


def test_each_guard_is_opened_where_it_is(content: bytes, tmp_path: Path) -> None:
    tree = tree_of(tmp_path, content)

    for index in guard_lines(content):
        (change,) = check_series(opening(content, index, tmp_path), tree)
        assert change.content is not None
        after = split_lines(change.content)
        assert [n for n, line in enumerate(split_lines(content)) if line != after[n]] == [index]


@pytest.mark.parametrize("shift", [-5, -1, 1, 2, 7])
def test_a_shifted_file_is_refused_and_never_patched(content: bytes, tmp_path: Path, shift: int) -> None:
    added = b"// shifted\n" * shift if shift > 0 else b""
    shifted = added + b"".join(split_lines(content)[max(0, -shift) :])
    tree = tree_of(tmp_path, shifted)
    verdicts = set()

    for index in guard_lines(content):
        with pytest.raises(DoesNotApply) as caught:
            check_series(opening(content, index, tmp_path), tree)
        verdicts.add(caught.value.verdict.verdict)
        assert shift in caught.value.verdict.offsets

    assert verdicts <= {"ambiguous", "offset"}
    assert "ambiguous" in verdicts


def test_a_guard_that_is_gone_is_not_mistaken_for_one_that_looks_the_same(content: bytes, tmp_path: Path) -> None:
    lines = split_lines(content)
    around = {index: tuple(lines[index - 3 : index + 4]) for index in guard_lines(content)}
    alike = [index for index, window in around.items() if list(around.values()).count(window) > 1]
    assert alike

    for index in alike:
        tree = tree_of(tmp_path, b"".join(lines[: index - 3] + lines[index + 4 :]))
        with pytest.raises(DoesNotApply) as caught:
            check_series(opening(content, index, tmp_path), tree)
        assert caught.value.verdict.verdict in ("ambiguous", "offset")


def test_a_guard_that_is_open_already_is_refused(content: bytes, tmp_path: Path) -> None:
    first, second = guard_lines(content)[:2]
    tree = tree_of(tmp_path, content.replace(CEILING, b"", 1))
    patches = [opening(content, index, tmp_path).patches[0] for index in (second, first)]

    with pytest.raises(DoesNotApply) as caught:
        check_series(Series(tmp_path, tuple(patches)), tree)

    assert caught.value.verdict.verdict == "already-applied"
