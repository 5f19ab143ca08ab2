"""Later patches carried over a change: to where they belong, or not at all."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from patch_support import HEADER, make_tree

from forkwheel.patching.apply import DoesNotApply, apply_patch
from forkwheel.patching.export import Run, hunks_from, render
from forkwheel.patching.model import MODIFY, FilePatch
from forkwheel.patching.overlay import File, Overlay
from forkwheel.patching.renumber import renumber
from forkwheel.patching.series import Patch, parse_patch


def patch_of(runs: list[Run], lines: list[bytes]) -> Patch:
    file = FilePatch(0, MODIFY, "f", "f", None, None, hunks_from(runs, lines))
    return parse_patch(HEADER + render([file]), Path("later.patch"))


def composed(lines: list[bytes], runs: list[Run]) -> list[bytes]:
    result = list(lines)
    for run in sorted(runs, key=lambda run: run.start, reverse=True):
        result[run.start : run.stop] = run.new
    return result


def carried(tmp_path: Path, lines: list[bytes], change: Run, later: Run) -> bytes | None:
    """Return the file after both, or None where the later one is refused."""
    old = Overlay(make_tree(tmp_path / "tree", {"f": b"".join(lines)}))
    new = old.copy()
    new.put("f", File("100644", b"".join(composed(lines, [change]))))
    patch = patch_of([later], lines)
    try:
        moved = renumber(patch, old=old, new=new, folder=tmp_path)
    except DoesNotApply:
        return None
    assert moved.header == patch.header
    return new.read("f").content


@pytest.mark.parametrize("seed", range(40))
def test_among_distinct_lines_every_distant_change_is_carried(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    lines = [b"%d\n" % number for number in range(60)]
    at = dice.choice([5, 50])
    change = Run(at, at + dice.randint(0, 4), tuple(b"new %d\n" % n for n in range(dice.randint(1, 6))))
    later = Run(25, 25 + dice.randint(0, 3), (b"later\n",))

    assert carried(tmp_path, lines, change, later) == b"".join(composed(lines, [change, later]))


@pytest.mark.parametrize("seed", range(60))
def test_among_equal_lines_a_patch_is_carried_rightly_or_refused(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    block = [b"%d\n" % dice.randrange(2) for _ in range(dice.choice([1, 2, 7, 9]))]
    lines = [b"top\n", *block * dice.randint(6, 12), b"bottom\n"]
    first, second = dice.sample(range(len(lines) - 4), 2)
    change = Run(first, first + dice.choice([0, len(block)]), tuple(block * dice.choice([0, 1, 2])))
    later = Run(second, second + 1, (b"later\n",))
    if change.start < later.stop and change.stop > later.start:
        return

    found = carried(tmp_path, lines, change, later)

    assert found in (None, b"".join(composed(lines, [change, later])))


def test_a_block_added_among_equal_ones_leaves_the_place_uncertain(tmp_path: Path) -> None:
    block = [b"a\n", b"b\n", b"c\n", b"d\n"]
    lines = [b"top\n", *block * 8, b"bottom\n"]

    assert carried(tmp_path, lines, Run(1, 1, tuple(block)), Run(18, 19, (b"later\n",))) is None


def test_a_change_in_the_context_is_a_conflict(tmp_path: Path) -> None:
    lines = [b"%d\n" % number for number in range(30)]

    for at in (12, 13, 14, 15, 17, 18):
        assert carried(tmp_path, lines, Run(at, at + 1, (b"x\n",)), Run(15, 16, (b"later\n",))) is None
    for at in (11, 19):
        assert carried(tmp_path, lines, Run(at, at + 1, (b"x\n",)), Run(15, 16, (b"later\n",))) is not None


def test_a_patch_of_other_files_is_left_as_it_is(tmp_path: Path) -> None:
    lines = [b"%d\n" % number for number in range(30)]
    old = Overlay(make_tree(tmp_path / "tree", {"f": b"".join(lines), "g": b"g\n"}))
    new = old.copy()
    new.put("g", File("100644", b"G\n"))
    patch = patch_of([Run(15, 16, (b"later\n",))], lines)

    assert renumber(patch, old=old, new=new, folder=tmp_path) is patch
    expected = Overlay(make_tree(tmp_path / "tree", {}))
    apply_patch(expected, patch, folder=tmp_path)
    assert old.read("f") == new.read("f") == expected.read("f")
