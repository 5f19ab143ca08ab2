"""The audit against what was read by hand in the real sources, before and after the series."""

from __future__ import annotations

import re
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

import gates_sample
import pytest

from forkwheel import cli
from forkwheel.fetch import FetchContext
from forkwheel.gates.arch import Arch
from forkwheel.gates.audit import audit_all
from forkwheel.gates.compare import check_consistent, compare, judge
from forkwheel.gates.explain_symbol import explain_symbol
from forkwheel.gates.files import list_files, opened
from forkwheel.gates.model import Audit, Question
from forkwheel.gates.settings import Settings, load_settings
from forkwheel.recipe import FileSource, Package, Recipe
from forkwheel.sources import source_tree
from forkwheel.store import Store
from forkwheel.toml_file import read_toml

REPOSITORY = Path(__file__).resolve().parents[2]
TARGET = Arch(12, 0)
FROM_9 = "9.0 10.0 10.3 11.0 12.0 12.1"
FROM_10 = "10.0 10.3 11.0 12.0 12.1"
BELOW_12 = "9.0 10.0 10.3 11.0"
SRT = "sglang/srt"
FUSION = "include/flashinfer/comm/trtllm_allreduce_fusion.cuh"
ALL_REDUCE = "include/flashinfer/comm/trtllm_allreduce.cuh"

# Every architecture condition on the fusion's path, read by hand: file, line, what it admits.
TRUTH = [
    (f"{SRT}/server_args.py", 1691, "9.0 10.0 10.3"),
    (f"{SRT}/utils/common.py", 258, "10.0 10.3"),
    (f"{SRT}/utils/common.py", 263, "9.0"),
    (f"{SRT}/layers/communicator.py", 72, "9.0"),
    (f"{SRT}/layers/communicator.py", 73, "10.0 10.3"),
    (f"{SRT}/layers/communicator.py", 95, "9.0 10.0 10.3"),
    ("flashinfer/jit/comm.py", 61, "9.0 10.0 10.3"),
    ("flashinfer/compilation_context.py", 44, FROM_9),
    ("flashinfer/compilation_context.py", 57, "8.0 8.9 9.0 10.0 10.3 11.0 12.0 12.1"),
    ("flashinfer/aot.py", 526, "10.0"),
    *((FUSION, line, FROM_9) for line in (1012, 1164, 1204, 1251, 1271, 1317, 1399, 1490)),
    *((FUSION, line, FROM_10) for line in (491, 538, 558, 590, 624)),
    *((ALL_REDUCE, line, BELOW_12) for line in (417, 455, 485, 533, 711, 895, 950, 991, 1053, 1207, 1265, 1335, 1444)),
]


@pytest.fixture(scope="module")
def settings() -> Settings:
    return load_settings(REPOSITORY / "recipes" / "sm120" / "gates.toml")


def question(settings: Settings) -> Question:
    return Question(TARGET, settings.references, settings.entries, settings.layers)


def look(roots: dict[str, Path], settings: Settings, store: Store) -> Audit:
    return audit_all([list_files(roots)], question(settings), store=store)[0]


@pytest.fixture(scope="module")
def before(stock_trees: dict[str, Path], settings: Settings, store: Store) -> Audit:
    return look(stock_trees, settings, store)


@pytest.fixture(scope="module")
def after(patched_trees: dict[str, Path], settings: Settings, store: Store) -> Audit:
    return look(patched_trees, settings, store)


def test_every_gate_that_was_read_by_hand_is_found_with_what_it_admits(before: Audit) -> None:
    found = {(gate.place.path, gate.place.line): " ".join(gate.admitted) for gate in before.gates}

    assert {place: found.get(place) for place in [(p, n) for p, n, _ in TRUTH]} == {(p, n): a for p, n, a in TRUTH}


def test_only_one_of_the_thirteen_guards_empties_a_kernel(before: Audit) -> None:
    guards = [gate for gate in before.gates if gate.place.path == ALL_REDUCE and " ".join(gate.admitted) == BELOW_12]

    assert len(guards) == 13
    emptied = {gate.place.line: gate.holds for gate in guards if gate.holds.startswith("the whole body")}
    assert emptied == {711: "the whole body of kernel lamport_style_one_shot_all_reduce_norm_kernel"}
    assert {gate.holds for gate in guards if gate.place.line != 711} == {"a grid-dependency call"}


def test_the_path_is_ordered_as_a_person_follows_it(before: Audit) -> None:
    layers = list(dict.fromkeys(step.layer for step in before.closed))

    assert layers == ["server arguments", "layer", "JIT list", "ahead of time", "CUDA source"]


def test_the_series_opens_all_of_the_path(before: Audit, after: Audit, settings: Settings) -> None:
    difference = compare(before, after)
    check_consistent(before, after, expectations=settings.expectations)

    assert judge(after, settings.expectations).unexpected == ()
    assert len(difference.opened) == 17
    assert difference.newly_closed == ()


@pytest.mark.parametrize("state", ["stock", "patched"])
def test_the_audit_of_the_path_alone_finds_the_same_path(
    state: str,
    stock_trees: dict[str, Path],
    patched_trees: dict[str, Path],
    settings: Settings,
    before: Audit,
    after: Audit,
) -> None:
    whole = before if state == "stock" else after
    roots = stock_trees if state == "stock" else patched_trees

    (alone,) = audit_all([list_files(roots)], question(settings), path_only=True)

    assert alone.path == whole.path
    assert alone.gates == tuple(step.gate for step in whole.path)


# Each patch that opens a gate of the path, by package: the layer that is closed without it, and where.
GATE_PATCHES = {
    ("sglang", "communicator-admit-sm120.patch"): ("layer", f"{SRT}/layers/communicator.py"),
    ("sglang", "server-args-fusion-on-sm120.patch"): ("server arguments", f"{SRT}/server_args.py"),
    ("flashinfer-python", "jit-comm-admit-sm120.patch"): ("JIT list", "flashinfer/jit/comm.py"),
    ("flashinfer-python", "aot-trtllm-comm-sm120.patch"): ("ahead of time", "flashinfer/aot.py"),
    ("flashinfer-python", "allreduce-no-sm120-ceiling.patch"): ("CUDA source", ALL_REDUCE),
}


def recipe_without(patch: str, package: Package, stock: Path, folder: Path) -> Path:
    """Copy the recipe with a series that does what the shipped one does, but for a patch, as one patch of its own."""
    assert package.series is not None
    work, series = folder / "work", folder / "series"
    names = [line for line in (package.series / "series").read_text().split() if line.endswith(".patch")]
    for name in names:
        for path in re.findall(r"^--- a/(\S+)", (package.series / name).read_text(), re.MULTILINE):
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(stock / path, work / path)
    git = ["git", "-c", "user.name=test", "-c", "user.email=test", "-C", str(work)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "--all", "--force"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "stock"], check=True)
    for name in (name for name in names if name != patch):
        subprocess.run(["patch", "--quiet", "--strip=1", f"--directory={work}", f"--input={package.series / name}"])
    for left in [*work.rglob("*.rej"), *work.rglob("*.orig")]:
        left.unlink()
    diff = subprocess.run([*git, "diff", "--unified=3"], check=True, capture_output=True).stdout
    series.mkdir()
    (series / "series").write_text("all.patch\n")
    header = "Description: the series without one patch\nOrigin: test\nForwarded: no\nLast-Update: 2026-11-29\n\n"
    (series / "all.patch").write_bytes(header.encode() + diff)
    recipe = shutil.copytree(REPOSITORY / "recipes" / "sm120", folder / "sm120")
    text = (recipe / "recipe.toml").read_text().replace('"../../patches/', f'"{REPOSITORY}/patches/')
    (recipe / "recipe.toml").write_text(text.replace(f'"{package.series}"', f'"{series}"'))
    return recipe


@pytest.mark.parametrize("command", ["audit", "build"])
@pytest.mark.parametrize(("package_name", "patch"), GATE_PATCHES)
def test_without_any_one_gate_patch_the_command_fails_and_names_the_place(
    package_name: str,
    patch: str,
    command: str,
    recipe: Recipe,
    context: FetchContext,
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    package = next(package for package in recipe.packages if package.name == package_name)
    stock = source_tree(package, context=context).tree.root
    folder = recipe_without(patch, package, stock, tmp_path)
    options = {"audit": ["--path-only"], "build": ["--out", str(tmp_path / "dist")]}[command]
    monkeypatch.setenv("FORKWHEEL_CACHE", str(store.root))

    code = cli.run([command, "--recipe", str(folder), "--offline", *options])

    layer, path = GATE_PATCHES[(package_name, patch)]
    captured = capsys.readouterr()
    assert code == 7, captured.err
    assert "12.0 is admitted by " in captured.err
    assert f"kept out by {path}:" in captured.err
    assert f"({layer})" in captured.err
    assert not (tmp_path / "dist").exists()


def sample() -> list[tuple[str, str, int, bool, str]]:
    top = read_toml(Path(__file__).with_name("gates_sample.toml"))
    return [
        (s.string("tree"), s.string("path"), s.integer("line"), s.flag("gate", default=False), s.string("stratum"))
        for s in top.sections("place")
    ]


def test_recall_and_precision_on_the_labelled_sample(before: Audit, capsys: pytest.CaptureFixture[str]) -> None:
    lines: dict[tuple[str, str], set[int]] = {}
    for gate in before.differing:
        span = {gate.place.line, *range(gate.first, gate.last + 1)}
        lines.setdefault((gate.place.root, gate.place.path), set()).update(span)

    answers = [
        (place, line in lines.get((tree, path), ()), gate)
        for place in sample()
        for tree, path, line, gate, _ in [place]
    ]
    found = [place for place, answer, gate in answers if answer and gate]
    missed = [place for place, answer, gate in answers if gate and not answer]
    false = [place for place, answer, gate in answers if answer and not gate]
    recall, precision = len(found) / (len(found) + len(missed)), len(found) / (len(found) + len(false))
    with capsys.disabled():
        print(f"\ngates: {len(answers)} places, recall {recall:.3f}, precision {precision:.3f}")

    assert len(answers) >= 60
    assert recall >= 0.95, missed
    assert precision >= 0.95, false


UNREAD = frozenset({"python mention", "python look-alike", "C++ look-alike"})  # not labelled for the second seed


def test_the_labelled_places_are_what_the_seeds_draw(
    stock_trees: dict[str, Path], recipe: Recipe, store: Store
) -> None:
    with ExitStack() as stack:
        roots = {}
        for package in recipe.packages:
            source = next(source for source in package.sources if isinstance(source, FileSource))
            roots[package.name] = stack.enter_context(opened(store.path("archives", source.sha256, source.filename)))
        first, second = (gates_sample.draw(roots, seed=seed) for seed in gates_sample.SEEDS)

    known = {place[1:] for place in first}
    drawn = first + [place for place in second if place[0] not in UNREAD and place[1:] not in known]
    assert drawn == [(stratum, tree, path, line) for tree, path, line, _, stratum in sample()]


def test_explain_names_the_definition_the_re_export_and_the_values(stock_trees: dict[str, Path]) -> None:
    (found,) = explain_symbol(
        list_files({"sglang": stock_trees["sglang"]}),
        "sglang.srt.utils.utils.is_sm120_supported",
        target=TARGET,
        references=(Arch(9, 0), Arch(10, 0)),
    )

    assert str(found.place) == f"{SRT}/utils/common.py:253"
    assert f"{SRT}/utils/__init__.py:2" in map(str, found.exported_by)
    values = {str(arch): value for arch, value in found.values}
    assert (values["9.0"], values["12.0"], values["12.1"]) == ("False", "True", "True")
