"""Changes that upstream might make, invented at random: each class gets its verdict.

The oracle shares no code with the judge. Every line of the invented files carries an
identity through the change, so where a hunk's lines went is known and never searched for;
patches are made by difflib.
"""

from __future__ import annotations

import difflib
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from patch_support import make_series, make_tree

from forkwheel.tree import Tree
from forkwheel.upstream.files import Layer
from forkwheel.upstream.judged import JudgedPatch
from forkwheel.upstream.verdict import judge_series

ROUNDS = 25
PATH = "src/module.py"


@dataclass(frozen=True)
class Line:
    """One line: who it is (None for one that upstream added), and what it says."""

    identity: int | None
    text: str


@dataclass(frozen=True)
class Edit:
    """What the patch does around one place: lines ``start`` to ``stop`` (from 0) become ``new``."""

    start: int
    stop: int
    new: tuple[str, ...]


Base = list[Line]


def invent(chance: random.Random, *, edits: int = 3) -> tuple[Base, list[Edit]]:
    """Invent a file of distinct lines, and edits that are far enough apart to be hunks of their own."""
    words = ["alpha", "beta", "gamma", "delta", "omega", "sigma"]
    lines = [
        Line(number, f"{'    ' * chance.randint(0, 2)}{chance.choice(words)}_{number} = {chance.randint(0, 999)}\n")
        for number in range(edits * 30)
    ]
    made = []
    for index in range(edits):
        start = index * 30 + chance.randint(10, 16)
        removed = chance.randint(0, 3)
        added = chance.randint(0 if removed else 1, 4)
        made.append(Edit(start, start + removed, tuple(f"added_{start}_{n} = {n}\n" for n in range(added))))
    return lines, made


def patched(lines: Base, edits: list[Edit]) -> Base:
    """Apply some edits; what they add has no identity."""
    result = list(lines)
    for edit in sorted(edits, key=lambda item: -item.start):
        result[edit.start : edit.stop] = [Line(None, text) for text in edit.new]
    return result


def text(lines: Base) -> bytes:
    return "".join(line.text for line in lines).encode()


class World:
    """A series of one patch on the base, and judging it against another state of the file."""

    def __init__(self, folder: Path, lines: Base, edits: list[Edit]) -> None:
        self.lines, self.edits = lines, edits
        old = [line.text for line in lines]
        new = [line.text for line in patched(lines, edits)]
        diff = "".join(difflib.unified_diff(old, new, f"a/{PATH}", f"b/{PATH}", n=3))
        self.series = make_series(folder / "series", {"change.patch": diff.encode()})
        self.base = make_tree(folder / "base", {PATH: text(lines)})
        self._folder = folder
        self._count = 0

    def judge(self, lines: Base, *, path: str = PATH) -> JudgedPatch:
        return self.judge_files({path: text(lines)} if lines else {})

    def judge_files(self, files: dict[str, bytes]) -> JudgedPatch:
        self._count += 1
        tree = make_tree(self._folder / f"new{self._count}", files)
        return judge_series(self.series, self.base, Layer(_overlay(tree)), version=None)[0]

    def place(self, edit: Edit, lines: Base) -> int | None:
        """Tell by identity how far an edit's lines with their context moved; None where they are not whole."""
        wanted = self.lines[max(0, edit.start - 3) : edit.stop + 3]
        where = [index for index, line in enumerate(lines) if line.identity == wanted[0].identity]
        if len(where) != 1 or lines[where[0] : where[0] + len(wanted)] != wanted:
            return None
        return where[0] - max(0, edit.start - 3)


def _overlay(tree: Tree):  # type: ignore[no-untyped-def]
    from forkwheel.patching.overlay import Overlay

    return Overlay(tree)


def verdicts(judged: JudgedPatch) -> list[str]:
    return [str(hunk.verdict) for file in judged.files for hunk in file.hunks]


def shown(offset: int) -> str:
    return f"offset {offset:+d}" if offset else "clean"


Change = Callable[[random.Random, World], None]


def untouched(chance: random.Random, world: World) -> None:
    judged = world.judge(world.lines)
    assert verdicts(judged) == ["clean"] * len(world.edits)
    assert str(judged) == "clean"


def shifted(chance: random.Random, world: World) -> None:
    """Upstream adds or removes lines between the hunks."""
    lines = list(world.lines)
    for index in sorted(chance.sample(range(len(world.edits)), chance.randint(1, len(world.edits))), reverse=True):
        at = index * 30 + chance.randint(1, 4)
        if chance.random() < 0.5:
            lines[at:at] = [Line(None, f"upstream_{at}_{n}\n") for n in range(chance.randint(1, 9))]
        else:
            del lines[at : at + chance.randint(1, 2)]
    expected = [world.place(edit, lines) for edit in world.edits]
    assert None not in expected
    assert verdicts(world.judge(lines)) == [shown(offset) for offset in expected if offset is not None]


def taken(chance: random.Random, world: World) -> None:
    lines = patched(world.lines, world.edits)
    for _ in range(chance.randint(0, 5)):
        lines.insert(chance.randint(0, 3), Line(None, f"upstream_{chance.random()}\n"))
    judged = world.judge(lines)
    assert verdicts(judged) == ["already-applied"] * len(world.edits)
    assert str(judged) == "already-applied"


def half_taken(chance: random.Random, world: World) -> None:
    """Upstream has some of the hunks, whole."""
    chosen = chance.sample(world.edits, chance.randint(1, len(world.edits) - 1))
    lines = patched(world.lines, chosen)
    expected = []
    for edit in world.edits:
        offset = world.place(edit, lines)
        expected.append("already-applied" if edit in chosen else shown(offset or 0))
        assert edit in chosen or offset is not None
    judged = world.judge(lines)
    assert verdicts(judged) == expected
    assert str(judged) == "partly-applied"


def part_of_a_hunk_taken(chance: random.Random, world: World) -> None:
    """Upstream has some of the lines that a hunk adds, or misses some of those that it removes."""
    edit = chance.choice(world.edits)
    old = [line.text for line in world.lines[edit.start : edit.stop]]
    if edit.new:
        taken_lines = edit.new[: chance.randint(1, len(edit.new))]
        left = old if len(taken_lines) == len(edit.new) else old[chance.randint(0, len(old)) :]
    else:
        taken_lines, left = (), old[1:]
    if list(taken_lines) == list(edit.new) and not left:
        left = old
    if not old and len(taken_lines) == len(edit.new):
        taken_lines = taken_lines[:-1]
    if (not taken_lines and edit.new) or (not edit.new and len(old) < 2):
        return
    middle = [Line(None, one) for one in (*taken_lines, *left)]
    lines = [*world.lines[: edit.start], *middle, *world.lines[edit.stop :]]
    found = dict(zip(world.edits, verdicts(world.judge(lines)), strict=True))
    assert found[edit] == "partly-applied"


def reordered(chance: random.Random, world: World) -> None:
    """Upstream moves a whole part of the file, with its hunk, behind another."""
    parts = [world.lines[start : start + 30] for start in range(0, len(world.lines), 30)]
    chance.shuffle(parts)
    lines = [line for part in parts for line in part]
    expected = [world.place(edit, lines) for edit in world.edits]
    assert verdicts(world.judge(lines)) == [shown(offset) for offset in expected if offset is not None]


def lines_reordered(chance: random.Random, world: World) -> None:
    """Upstream swaps two lines that a hunk expects."""
    edit = chance.choice(world.edits)
    first, second = chance.sample(range(edit.start - 3, edit.stop + 3), 2)
    lines = list(world.lines)
    lines[first], lines[second] = lines[second], lines[first]
    found = dict(zip(world.edits, verdicts(world.judge(lines)), strict=True))
    assert found.pop(edit) == "conflict"
    assert set(found.values()) == {"clean"}


def renamed(chance: random.Random, world: World) -> None:
    """Upstream renames something on a line that a hunk expects."""
    edit = chance.choice(world.edits)
    at = chance.randrange(edit.start - 3, edit.stop + 3)
    lines = list(world.lines)
    lines[at] = Line(lines[at].identity, lines[at].text.replace("_", "_renamed_", 1))
    found = dict(zip(world.edits, verdicts(world.judge(lines)), strict=True))
    assert found[edit] not in ("clean", "already-applied")
    assert not found[edit].startswith("offset")
    assert {found[other] for other in world.edits if other != edit} == {"clean"}


def reformatted(chance: random.Random, world: World) -> None:
    """Upstream changes white space on a line that a hunk expects, or that it leaves."""
    edit = chance.choice(world.edits)
    is_taken = chance.random() < 0.5
    lines = patched(world.lines, [edit]) if is_taken else list(world.lines)
    length = len(edit.new) if is_taken else edit.stop - edit.start
    at = chance.randrange(edit.start - 3, edit.start + length + 3)
    lines[at] = Line(None, chance.choice(["\t", " "]) + lines[at].text.replace(" = ", chance.choice(["=", "  = "])))
    judged = world.judge(lines)
    found = dict(zip(world.edits, verdicts(judged), strict=True))
    assert found[edit] not in ("clean", "already-applied")
    assert not found[edit].startswith("offset")


def duplicated(chance: random.Random, world: World) -> None:
    """Upstream copies the lines that a hunk expects to another place, or right beside them."""
    edit = chance.choice(world.edits)
    copy = [Line(None, line.text) for line in world.lines[edit.start - 3 : edit.stop + 3]]
    at = chance.choice([edit.start - 3, edit.stop + 3, 0, len(world.lines)])
    lines = [*world.lines[:at], *copy, *world.lines[at:]]
    found = dict(zip(world.edits, verdicts(world.judge(lines)), strict=True))
    assert found[edit] == "ambiguous"
    for other in world.edits:
        if other != edit:
            assert found[other] == shown(world.place(other, lines) or 0)


def copied_with_the_change(chance: random.Random, world: World) -> None:
    """Upstream has the hunk's result, in a copy: the hunk's own place is still as it was."""
    edit = chance.choice(world.edits)
    copy = [Line(None, line.text) for line in patched(world.lines, [edit])[edit.start - 3 :][: 6 + len(edit.new)]]
    at = chance.choice([0, len(world.lines)])
    lines = [*world.lines[:at], *copy, *world.lines[at:]]
    found = dict(zip(world.edits, verdicts(world.judge(lines)), strict=True))
    assert found[edit] == "ambiguous"


def file_moved(chance: random.Random, world: World) -> None:
    lines = list(world.lines)
    if chance.random() < 0.7:
        del lines[1 : 1 + chance.randint(1, 3)]
    target = chance.choice(["lib/module.py", "src/other/module.py", "src/renamed.py"])
    decoy = b"".join(b"nothing = %d\n" % n for n in range(40))
    judged = world.judge_files({target: text(lines), "src/decoy.py": decoy, "lib/module.txt": text(lines)})
    assert str(judged.files[0]) == f"file moved to {target}"
    assert verdicts(judged) == [shown(world.place(edit, lines) or 0) for edit in world.edits]


def file_gone(chance: random.Random, world: World) -> None:
    kept = chance.sample(world.lines, len(world.lines) // 4)
    judged = world.judge_files({"src/decoy.py": text(kept) * chance.randint(1, 2)})
    assert judged.verdict == "file gone"
    assert set(verdicts(judged)) == {"file gone"}


CLASSES: list[Change] = [
    untouched,
    shifted,
    taken,
    half_taken,
    part_of_a_hunk_taken,
    reordered,
    lines_reordered,
    renamed,
    reformatted,
    duplicated,
    copied_with_the_change,
    file_moved,
    file_gone,
]


@pytest.mark.parametrize("change", CLASSES, ids=lambda change: change.__name__)
def test_each_class_of_change_gets_its_verdict(change: Change, tmp_path: Path) -> None:
    for seed in range(ROUNDS):
        chance = random.Random(f"{change.__name__} {seed}")
        change(chance, World(tmp_path / str(seed), *invent(chance)))


TWIN = ["before();\n", "    offset += block;\n", "\n", "#if ARCH < 1200\n", "  wait();\n", "#endif\n", "\n"]


def twins(chance: random.Random, count: int) -> tuple[Base, list[Edit]]:
    """Invent functions that all hold the same guard in the same context, as all-reduce kernels do."""
    lines: Base = []
    edits = []
    for number in range(count):
        body = [f"kernel_{number}_{n};\n" for n in range(chance.randint(6, 12))]
        for one in (*body, *TWIN, *(f"tail_{number}_{n};\n" for n in range(3))):
            lines.append(Line(len(lines), one))
            if one == "#if ARCH < 1200\n":
                edits.append(Edit(len(lines) - 1, len(lines), ("#if ARCH\n",)))
    return lines, edits


def test_twins_are_clean_where_nothing_moved_and_ambiguous_where_they_did(tmp_path: Path) -> None:
    for seed in range(ROUNDS):
        chance = random.Random(f"twins {seed}")
        world = World(tmp_path / str(seed), *twins(chance, chance.randint(2, 6)))
        below = [*world.lines, Line(None, "more;\n")]
        assert set(verdicts(world.judge(below))) == {"clean"}
        moved = [*(Line(None, f"new {n};\n") for n in range(chance.randint(1, 30))), *world.lines]
        assert set(verdicts(world.judge(moved))) == {"ambiguous"}


def test_a_twin_at_the_place_of_another_is_never_taken_for_it(tmp_path: Path) -> None:
    for seed in range(ROUNDS):
        chance = random.Random(f"place {seed}")
        world = World(tmp_path / str(seed), *twins(chance, 4))
        shift = world.edits[1].start - world.edits[0].start
        lines = world.lines[shift:]  # the first function is gone: each guard stands where the one before it stood
        found = verdicts(world.judge(lines))
        for edit, verdict in zip(world.edits, found, strict=True):
            assert verdict == "ambiguous" or world.place(edit, lines) == 0


def test_twins_that_upstream_took_in_part_are_told_apart(tmp_path: Path) -> None:
    for seed in range(ROUNDS):
        chance = random.Random(f"part {seed}")
        world = World(tmp_path / str(seed), *twins(chance, 5))
        chosen = chance.sample(world.edits, chance.randint(1, 4))
        judged = world.judge(patched(world.lines, chosen))
        assert verdicts(judged) == ["already-applied" if edit in chosen else "clean" for edit in world.edits]
        assert str(judged) == "partly-applied"


def test_twins_that_upstream_took_and_moved_are_taken(tmp_path: Path) -> None:
    for seed in range(ROUNDS):
        chance = random.Random(f"all {seed}")
        world = World(tmp_path / str(seed), *twins(chance, 5))
        lines = [*(Line(None, f"new {n};\n") for n in range(chance.randint(1, 9))), *patched(world.lines, world.edits)]
        assert set(verdicts(world.judge(lines))) == {"already-applied"}
