"""Random files and edits: git's and diff's own output, applied here, gives what they compared."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from patch_support import HEADER, make_tree

from forkwheel.errors import ForkwheelError
from forkwheel.patching.apply import apply_patch, check_series, is_applied, write_changes
from forkwheel.patching.compare import compare, export
from forkwheel.patching.export import render
from forkwheel.patching.overlay import Overlay
from forkwheel.patching.series import Series, parse_patch
from forkwheel.tree import Tree, scan

SEEDS = range(30)
WORDS = [
    b"",
    b"a",
    b"b",
    b"}",
    b"    return x;",
    b"\tif (y) {",
    b"caf\xe9",
    b"\xff\x00\x85"[:1],
    b"-- x",
    b"++ y",
    b"x\r",
]
ENVIRONMENT = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"}


def run(*command: str, folder: Path) -> bytes:
    done = subprocess.run(
        command, cwd=folder, env=ENVIRONMENT | {"HOME": str(folder)}, capture_output=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def random_lines(dice: random.Random, count: int) -> list[bytes]:
    return [dice.choice(WORDS) if dice.random() < 0.7 else b"line %d" % dice.randrange(1000) for _ in range(count)]


def edited(dice: random.Random, lines: list[bytes]) -> list[bytes]:
    result = list(lines)
    for _ in range(dice.randint(1, 5)):
        at = dice.randint(0, len(result))
        result[at : at + dice.choice([0, 0, 1, 2, 5])] = random_lines(dice, dice.choice([0, 1, 1, 3]))
    return result


def content(dice: random.Random, lines: list[bytes]) -> bytes:
    joined = b"\n".join(lines)
    return joined + b"\n" if joined and dice.random() < 0.8 else joined


def pair(seed: int) -> tuple[bytes, bytes]:
    dice = random.Random(seed)
    lines = random_lines(dice, dice.choice([1, 4, 30, 80]))
    before = content(dice, lines) or b"x\n"
    after = content(dice, edited(dice, lines))
    return before, after if after != before else after + b"more\n"


def independent_diffs(folder: Path, before: bytes, after: bytes) -> Iterator[bytes]:
    (folder / "old").write_bytes(before)
    (folder / "new").write_bytes(after)
    names = b"--- a/f\n+++ b/f\n"
    for command in (
        ("git", "diff", "--no-index", "--text", "--", "old", "new"),
        ("git", "diff", "--no-index", "--text", "--patience", "--", "old", "new"),
        ("diff", "-a", "-u", "old", "new"),
    ):
        output = run(*command, folder=folder)
        yield names + output[output.index(b"\n@@") + 1 :]


def applied(series: Series, tree: Tree) -> bytes | None:
    (change,) = check_series(series, tree)
    return change.content


def series_of(folder: Path, diff: bytes) -> Series:
    return Series(folder, (parse_patch(HEADER + diff, folder / "x.patch"),))


@pytest.mark.parametrize("seed", SEEDS)
def test_other_tools_diffs_apply_to_what_they_compared(tmp_path: Path, seed: int) -> None:
    before, after = pair(seed)
    tree = make_tree(tmp_path / "tree", {"f": before})
    (tmp_path / "after").mkdir()

    for diff in independent_diffs(tmp_path, before, after):
        series = series_of(tmp_path, diff)
        assert applied(series, tree) == after
        assert is_applied(series, make_tree(tmp_path / "after", {"f": after}))


@pytest.mark.parametrize("seed", SEEDS)
def test_exports_apply_and_are_stable(tmp_path: Path, seed: int) -> None:
    before, after = pair(seed)
    tree = make_tree(tmp_path / "tree", {"f": before})
    target = Overlay(make_tree(tmp_path / "after", {"f": after}))

    for diff in independent_diffs(tmp_path, before, after):
        patch = series_of(tmp_path, diff).patches[0]
        again = export(patch, Overlay(tree))
        kept = render(compare(Overlay(tree), target, ["f"], earlier=patch.files))
        fresh = render(compare(Overlay(tree), target, ["f"], earlier=()))
        assert again == HEADER + kept
        for text in (kept, fresh):
            exported = series_of(tmp_path, text)
            assert applied(exported, tree) == after
            assert export(exported.patches[0], Overlay(tree)) == HEADER + text


@pytest.mark.parametrize("seed", SEEDS)
def test_gnu_patch_and_git_apply_what_is_exported(tmp_path: Path, seed: int) -> None:
    before, after = pair(seed)
    tree = make_tree(tmp_path / "tree", {"f": before})
    target = Overlay(make_tree(tmp_path / "after", {"f": after}))

    (tmp_path / "x.diff").write_bytes(render(compare(Overlay(tree), target, ["f"], earlier=())))
    run("git", "init", "--quiet", folder=tree.root)
    subprocess.run(["git", "apply", "--whitespace=nowarn", "../x.diff"], cwd=tree.root, env=ENVIRONMENT, check=True)

    assert (tree.root / "f").read_bytes() == after


@pytest.mark.parametrize("seed", range(12))
def test_every_corrupted_byte_of_what_a_patch_expects_is_refused(tmp_path: Path, seed: int) -> None:
    before, after = pair(1000 + seed)
    tree = make_tree(tmp_path / "tree", {"f": before})
    diff = next(independent_diffs(tmp_path, before, after))
    position = 0
    for line in diff.split(b"\n"):
        size = len(line) + 1
        end = line.rindex(b"@@") if line.startswith(b"@@") else 0 if line.startswith(b"+") else size
        for at in range(position, min(position + end, len(diff))):
            corrupt = diff[:at] + bytes([diff[at] ^ 0x01]) + diff[at + 1 :]
            with pytest.raises(ForkwheelError):
                applied(series_of(tmp_path, corrupt), tree)
        position += size


@pytest.mark.parametrize("seed", range(12))
def test_every_corrupted_byte_of_the_lines_around_a_change_is_refused(tmp_path: Path, seed: int) -> None:
    before, after = pair(2000 + seed)
    make_tree(tmp_path / "tree", {"f": before})
    diff = next(independent_diffs(tmp_path, before, after))
    series = series_of(tmp_path, diff)
    starts = [0]
    for line in before.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    for hunk in series.patches[0].files[0].hunks:
        first, last = hunk.old_index, hunk.old_index + hunk.old_count
        for at in range(starts[first], min(starts[last], len(before))):
            spoilt = before[:at] + bytes([before[at] ^ 0x01]) + before[at + 1 :]
            tree = make_tree(tmp_path / "tree", {"f": spoilt})
            with pytest.raises(ForkwheelError):
                check_series(series, tree)


NAMES = ["a.txt", "with space.txt", "dir/b.txt", "dir/deep/ö.txt", 'quote"d.txt', os.fsdecode(b"\xff.txt")]


def change_at_random(dice: random.Random, root: Path) -> None:
    """Modify, delete, rename, create and chmod files."""
    for name in NAMES:
        file = root / name
        action = dice.choice(["edit", "delete", "rename", "chmod", "rename and edit", "none", "both"])
        if action == "delete":
            file.unlink()
        if action in ("edit", "rename and edit", "both"):
            file.write_bytes(b"new top\n" + file.read_bytes())
        if action in ("chmod", "both"):
            file.chmod(0o755)
        if action.startswith("rename"):
            (root / "moved").mkdir(exist_ok=True)
            file.rename(root / "moved" / file.name)
    (root / "created.txt").write_bytes(content(dice, random_lines(dice, 5)))
    (root / "empty").write_bytes(b"")


@pytest.mark.parametrize("quoting", ["true", "false"])
@pytest.mark.parametrize("seed", range(20))
def test_gits_own_patches_of_whole_trees_apply(tmp_path: Path, seed: int, quoting: str) -> None:
    dice = random.Random(seed)
    files = {name: b"\n".join([b"%d" % dice.randrange(99) for _ in range(30)]) + b"\n" for name in NAMES}
    tree = make_tree(tmp_path / "tree", files)
    make_tree(tmp_path / "work", files)
    work = tmp_path / "work"
    run("git", "init", "--quiet", folder=work)
    run("git", "add", "--all", folder=work)
    run("git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "-m", "base", folder=work)
    change_at_random(dice, work)
    run("git", "add", "--all", folder=work)
    diff = run("git", "-c", f"core.quotePath={quoting}", "diff", "--cached", "--find-renames", "--text", folder=work)
    subprocess.run(["rm", "-rf", str(work / ".git")], check=True)

    series = series_of(tmp_path, diff)
    patched = write_changes(check_series(series, tree), tree)

    assert patched.tree.entries == scan(work).entries
    overlay = Overlay(make_tree(tmp_path / "again", files))
    exported = series_of(tmp_path, export(series.patches[0], overlay)[len(HEADER) :])
    apply_patch(overlay, exported.patches[0], folder=tmp_path)
    assert overlay.entries() == scan(work).by_path()
