"""Series whose patches change the same lines of one file, of which upstream took the first few, or other ones.

The oracle is how the files are made: every state of the file is kept, and no line says the
same as another.
"""

from __future__ import annotations

import difflib
import itertools
import random
from pathlib import Path

import pytest
from patch_support import make_series, make_tree

from forkwheel.patching.overlay import Overlay
from forkwheel.upstream.verdict import judge_series

ROUNDS = 40
PATH = "src/module.py"


def states(chance: random.Random, count: int) -> list[list[str]]:
    """Invent a file, and what it is after each of ``count`` patches that are close together."""
    found = [[f"line_{number} = {chance.randint(0, 999)}\n" for number in range(40)]]
    at = chance.randint(10, 25)
    for patch in range(count):
        lines = list(found[-1])
        start = at + chance.randint(-4, 4)
        removed, added = chance.choice([(0, 1), (1, 1), (1, 2), (2, 1), (1, 0), (0, 3), (2, 0)])
        lines[start : start + removed] = [f"patch_{patch}_{number}\n" for number in range(added)]
        found.append(lines)
    return found


def verdicts(folder: Path, made: list[list[str]], new: list[str]) -> list[str]:
    names = (f"a/{PATH}", f"b/{PATH}")
    diffs = {
        f"{number:02}.patch": "".join(difflib.unified_diff(old, after, *names, n=3)).encode()
        for number, (old, after) in enumerate(itertools.pairwise(made))
    }
    series = make_series(folder / "series", diffs)
    base = make_tree(folder / "base", {PATH: "".join(made[0]).encode()})
    after = Overlay(make_tree(folder / "new", {PATH: "".join(new).encode()}))
    return [str(judged) for judged in judge_series(series, base, after, version=None)]


@pytest.mark.parametrize("shift", [0, 3])
def test_the_first_patches_that_upstream_took_are_taken_and_the_others_apply(tmp_path: Path, shift: int) -> None:
    for seed in range(ROUNDS):
        chance = random.Random(f"first {seed} {shift}")
        count = chance.randint(2, 4)
        made = states(chance, count)
        taken = chance.randint(0, count)
        new = [f"new_{number}\n" for number in range(shift)] + made[taken]
        left = f"offset {shift:+d}" if shift else "clean"
        assert verdicts(tmp_path / str(seed), made, new) == ["already-applied"] * taken + [left] * (count - taken)


def test_what_upstream_changed_in_its_own_way_is_never_taken(tmp_path: Path) -> None:
    """Upstream has the patches, but for the lines of one of them, which it wrote otherwise."""
    for seed in range(ROUNDS):
        chance = random.Random(f"own {seed}")
        count = chance.randint(2, 4)
        made = states(chance, count)
        wrong = chance.randrange(count)
        new = [line.replace(f"patch_{wrong}_", "own_") for line in made[-1]]
        if new == made[-1]:
            continue
        found = verdicts(tmp_path / str(seed), made, new)
        assert found[wrong] not in ("already-applied", "clean")
