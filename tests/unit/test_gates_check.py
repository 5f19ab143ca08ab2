"""The gate check of a build: which series pass, and when nothing is looked at."""

from __future__ import annotations

import shutil
import zipfile
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gates_support import FIXES, write

from forkwheel.errors import UsageError, VerificationError
from forkwheel.gates.check import check_plans, needs_check
from forkwheel.patching.overlay import Change
from forkwheel.store import Store
from forkwheel.tree import REGULAR, Entry, scan

GATES = """
references = ["9.0", "10.0"]
[[entry]]
symbol = "app.server:arrange"
concerns = "fused"
[[entry]]
symbol = "app.layer:run"
"""


def plan(root: Path, key: str = "k", *, name: str = "tree", is_taken: bool = False) -> Any:
    """Return as much of a plan as the check looks at."""
    return SimpleNamespace(
        package=SimpleNamespace(name=name, is_taken=is_taken),
        source=SimpleNamespace(tree=scan(root)),
        key=SimpleNamespace(digest=key),
    )


def changes(root: Path, fixed: Path) -> tuple[Change, ...]:
    """Return what turns one tree into another."""
    found = []
    for entry in scan(fixed).entries:
        content = (fixed / entry.path).read_bytes()
        if content != (root / entry.path).read_bytes():
            after = Entry(entry.path, REGULAR, sha256(content).hexdigest())
            found.append(Change(entry.path, scan(root).by_path()[entry.path], after, content))
    return tuple(found)


def check(tmp_path: Path, fixes: set[str], *, gates: str = GATES) -> None:
    stock = write(tmp_path / "stock", set())
    (tmp_path / "gates.toml").write_text(gates)
    patched = [(plan(stock), changes(stock, write(tmp_path / "fixed", fixes)))]
    check_plans(patched, gates_file=tmp_path / "gates.toml", target="sm_120a", store=Store(tmp_path / "cache"))


@pytest.mark.parametrize("fixes", [set(FIXES), set()], ids=["the whole series", "a series that opens nothing"])
def test_a_series_that_opens_all_or_nothing_passes(tmp_path: Path, fixes: set[str]) -> None:
    check(tmp_path, fixes)


@pytest.mark.parametrize("missing", FIXES)
def test_a_series_that_opens_a_path_halfway_is_refused_with_both_places(tmp_path: Path, missing: str) -> None:
    with pytest.raises(VerificationError) as caught:
        check(tmp_path, set(FIXES) - {missing})

    assert f"kept out by {FIXES[missing][0]}:" in caught.value.message
    assert any(f"admitted by {FIXES[other][0]}:" in caught.value.message for other in set(FIXES) - {missing})


def test_a_gate_that_stays_closed_on_purpose_is_no_fault(tmp_path: Path) -> None:
    expected = '[[expected]]\nfile = "fused.cuh"\ncondition = "1200"\nreason = "slower there"\n'

    check(tmp_path, set(FIXES) - {"header"}, gates=GATES + expected)


def test_each_variant_of_a_package_is_looked_at(tmp_path: Path) -> None:
    stock = write(tmp_path / "stock", set())
    (tmp_path / "gates.toml").write_text(GATES)
    whole = changes(stock, write(tmp_path / "whole", set(FIXES)))
    half = changes(stock, write(tmp_path / "half", {"layer"}))

    with pytest.raises(VerificationError, match="kept out by"):
        check_plans(
            [(plan(stock, "a"), whole), (plan(stock, "b"), half)],
            gates_file=tmp_path / "gates.toml",
            target="sm_120a",
            store=Store(tmp_path / "cache"),
        )


@pytest.mark.parametrize("fixes", [set(FIXES), set(FIXES) - {"list"}], ids=["open", "closed"])
def test_a_wheel_that_is_taken_as_it_is_takes_part(tmp_path: Path, fixes: set[str]) -> None:
    stock, fixed = write(tmp_path / "stock", set()), write(tmp_path / "fixed", fixes)
    (tmp_path / "gates.toml").write_text(GATES)
    wheel = tmp_path / "lib" / "lib-1-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in sorted(file for file in fixed.rglob("*") if file.is_file()):
            if path.relative_to(fixed).parts[0] != "app":
                archive.write(path, path.relative_to(fixed))
    for part in ("lib", "csrc", "include"):
        shutil.rmtree(stock / part)
        shutil.rmtree(fixed / part)

    with nullcontext() if fixes == set(FIXES) else pytest.raises(VerificationError, match=r"kept out by lib/jit\.py"):
        check_plans(
            [(plan(stock), changes(stock, fixed)), (plan(wheel.parent, name="lib", is_taken=True), ())],
            gates_file=tmp_path / "gates.toml",
            target="sm_120a",
            store=Store(tmp_path / "cache"),
        )


def test_nothing_is_looked_at_without_gates_and_where_the_same_keys_passed(tmp_path: Path) -> None:
    root, store, file = write(tmp_path / "tree", set()), Store(tmp_path / "cache"), tmp_path / "gates.toml"

    def needed(key: str, target: str = "sm_120a") -> bool:
        return needs_check([plan(root, key)], gates_file=file, target=target, store=store) is not None

    assert not needed("a")
    file.write_text(GATES)
    slot = needs_check([plan(root, "a")], gates_file=file, target="sm_120a", store=store)
    assert slot is not None
    slot.write({"passed": True})
    assert not needed("a")
    assert needed("b")
    assert needed("a", target="sm_121a")
    file.write_text(GATES + "\n# changed")
    assert needed("a")


def test_a_recipe_for_no_gpu_cannot_have_gates(tmp_path: Path) -> None:
    (tmp_path / "gates.toml").write_text(GATES)

    with pytest.raises(UsageError, match="'any' is not a compute capability"):
        check_plans([], gates_file=tmp_path / "gates.toml", target="any", store=Store(tmp_path / "cache"))
