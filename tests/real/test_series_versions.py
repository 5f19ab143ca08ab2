"""Which cubin and jit-cache packages FlashInfer accepts: the rules of its own ``jit/env.py``."""

from __future__ import annotations

import os
import pathlib
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import packaging.version
import pytest
from series_python import Namespace, function, imported, parse, run

OURS = "0.6.3+sm120.1"
DEVELOPMENT = "0.6.3+sm120.dev.k1a2b3c4"

CUBINS = [
    (OURS, "0.6.3", True),
    (OURS, "0.6.3+sm120.1", True),
    (OURS, "0.6.3.0", True),
    (DEVELOPMENT, "0.6.3", True),
    ("0.6.3", "0.6.3", True),
    (OURS, "0.6.30", False),
    (OURS, "0.6.4", False),
    (OURS, "0.6", False),
    (OURS, "0.6.3rc1", False),
    (OURS, "0.6.3.post1", False),
    (OURS, "0.6.3.dev20260101", False),
    (OURS, "1!0.6.3", False),
    (OURS, "not a version", False),
    (OURS, "", False),
]
JIT_CACHES = [
    (OURS, "0.6.3+sm120.1", True),
    (OURS, "0.6.3+sm120.1.cu130", True),
    (OURS, "0.6.3+sm120.1.cu128", True),
    (DEVELOPMENT, DEVELOPMENT, True),
    (DEVELOPMENT, f"{DEVELOPMENT}.cu130", True),
    ("0.6.3", "0.6.3", True),
    ("0.6.3", "0.6.3+cu129", True),
    (OURS, "0.6.3", False),
    (OURS, "0.6.3+cu130", False),
    (OURS, "0.6.3+sm120.10", False),
    (OURS, "0.6.3+sm120.2", False),
    (OURS, "0.6.3+sm120.1+cu130", False),
    (OURS, "0.6.3+sm120.1.cu", False),
    (OURS, "0.6.3+sm120.1.cu130.1", False),
    (OURS, "0.6.3+sm120.1.dev.k1a2b3c4", False),
    (OURS, "0.6.3+sm120.1\n", False),
    (OURS, "0.6.30+sm120.1", False),
    (OURS, "0x6.3+sm120.1", False),
    (OURS, DEVELOPMENT, False),
    (DEVELOPMENT, OURS, False),
    (DEVELOPMENT, "0.6.3+sm120.dev.k9999999", False),
    ("0.6.3", "0.6.30", False),
    ("0.6.3", "0.6.3.1", False),
    ("0.6.3", OURS, False),
    ("0.6.3", "0.6.3.cu129", False),
]


def accepts(
    tree: Path, monkeypatch: pytest.MonkeyPatch, *, name: str, getter: str, directory: str, own: str, other: str
) -> bool:
    """Run FlashInfer's function beside a package of version ``other``; a refusal names both versions."""
    monkeypatch.delenv("FLASHINFER_DISABLE_VERSION_CHECK", raising=False)
    monkeypatch.setitem(sys.modules, name, package(name, version=other, directory=directory))
    found = environment(tree, own=own)[getter]
    try:
        folder = found()
    except RuntimeError as error:
        refusal = str(error)
    else:
        assert folder == Path("from-package")
        return True
    assert f"({own})" in refusal
    assert f"({other})" in refusal
    return False


def package(name: str, *, version: str, directory: str) -> Any:
    module: Any = ModuleType(name)
    module.__version__ = version
    setattr(module, directory, lambda: "from-package")
    return module


def environment(tree: Path, *, own: str) -> Namespace:
    """Return the version rules of ``jit/env.py``, with FlashInfer's own version given."""
    module = parse(tree / "flashinfer" / "jit" / "env.py")
    stand_ins = {
        "os": os,
        "pathlib": pathlib,
        "re": re,
        "Version": packaging.version.Version,
        "InvalidVersion": packaging.version.InvalidVersion,
        "flashinfer_version": own,
    }
    namespace = imported(module, stand_ins)
    namespace |= {"has_flashinfer_cubin": lambda: True, "has_flashinfer_jit_cache": lambda: True}
    helpers = [node for node in module.body if getattr(node, "name", "").startswith("_is_same_")]
    return run([*helpers, function(module, "_get_cubin_dir"), function(module, "_get_aot_dir")], namespace)


def accepts_cubin(tree: Path, monkeypatch: pytest.MonkeyPatch, *, own: str, other: str) -> bool:
    return accepts(
        tree,
        monkeypatch,
        name="flashinfer_cubin",
        getter="_get_cubin_dir",
        directory="get_cubin_dir",
        own=own,
        other=other,
    )


def accepts_jit_cache(tree: Path, monkeypatch: pytest.MonkeyPatch, *, own: str, other: str) -> bool:
    return accepts(
        tree,
        monkeypatch,
        name="flashinfer_jit_cache",
        getter="_get_aot_dir",
        directory="get_jit_cache_dir",
        own=own,
        other=other,
    )


@pytest.mark.parametrize(("own", "other", "accepted"), CUBINS)
def test_patched_accepts_a_cubin_package_of_the_same_release(
    patched_trees: dict[str, Path], monkeypatch: pytest.MonkeyPatch, own: str, other: str, accepted: bool
) -> None:
    tree = patched_trees["flashinfer-python"]

    assert accepts_cubin(tree, monkeypatch, own=own, other=other) == accepted


@pytest.mark.parametrize(("own", "other", "accepted"), JIT_CACHES)
def test_patched_accepts_a_jit_cache_package_of_this_very_build(
    patched_trees: dict[str, Path], monkeypatch: pytest.MonkeyPatch, own: str, other: str, accepted: bool
) -> None:
    tree = patched_trees["flashinfer-python"]

    assert accepts_jit_cache(tree, monkeypatch, own=own, other=other) == accepted


def test_stock_refuses_the_cubin_package_of_its_own_release_beside_a_local_version(
    stock_trees: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not accepts_cubin(stock_trees["flashinfer-python"], monkeypatch, own=OURS, other="0.6.3")


@pytest.mark.parametrize("other", ["0.6.30", OURS])
def test_stock_accepts_a_jit_cache_package_by_its_prefix(
    stock_trees: dict[str, Path], monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    assert accepts_jit_cache(stock_trees["flashinfer-python"], monkeypatch, own="0.6.3", other=other)


def test_the_check_can_still_be_switched_off(patched_trees: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLASHINFER_DISABLE_VERSION_CHECK", "1")
    cubin = package("flashinfer_cubin", version="9", directory="get_cubin_dir")
    monkeypatch.setitem(sys.modules, "flashinfer_cubin", cubin)

    assert environment(patched_trees["flashinfer-python"], own=OURS)["_get_cubin_dir"]() == Path("from-package")


def test_nothing_else_in_flashinfer_compares_its_version(patched_trees: dict[str, Path]) -> None:
    """A new comparison elsewhere would need the same rules; ``version.py`` defines, the others show."""
    root = patched_trees["flashinfer-python"] / "flashinfer"
    compared = re.compile(r"(?:flashinfer_version|(?<!\.)\b__version__)\s*(?:==|!=|<|>)|startswith\(flashinfer_version")

    users = {file.name for file in root.rglob("*.py") if compared.search(file.read_text(encoding="utf-8"))}

    assert users == set()
