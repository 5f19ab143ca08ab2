"""Fixtures on the real upstream sources, fetched once for a test run."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from forkwheel.console import Console
from forkwheel.fetch import FetchContext
from forkwheel.projection import copy_tree, write_generated
from forkwheel.recipe import Recipe, load_recipe
from forkwheel.sources import patched_tree, source_tree
from forkwheel.store import Store

REPOSITORY = Path(__file__).resolve().parents[2]
VERSION = {"flashinfer-python": "0.6.3+sm120.1", "sglang": "0.5.9+sm120.1"}


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all workers of this run share; FORKWHEEL_TEST_CACHE keeps it between runs."""
    if named := os.environ.get("FORKWHEEL_TEST_CACHE"):
        return Path(named)
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"


@pytest.fixture(scope="session")
def store(shared: Path) -> Store:
    return Store(shared / "cache")


@pytest.fixture(scope="session")
def recipe() -> Recipe:
    return load_recipe(REPOSITORY / "recipes" / "sm120" / "recipe.toml")


@pytest.fixture(scope="session")
def context(store: Store) -> FetchContext:
    return FetchContext(store=store, log=Console(stream=io.StringIO()).bind("test"))


@pytest.fixture(scope="session")
def stock_trees(
    recipe: Recipe, context: FetchContext, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Path]]:
    """Return each package's projected tree, unpatched, with its generated files."""
    folder = tmp_path_factory.mktemp("stock")
    for package in recipe.packages:
        tree = source_tree(package, context=context, kind="sdist").tree
        write_generated(copy_tree(tree, folder / package.name), package, version=package.version)
    yield {package.name: folder / package.name for package in recipe.packages}
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def patched_trees(
    recipe: Recipe, context: FetchContext, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Path]]:
    """Return each package's projected tree with its series applied and its generated files."""
    folder = tmp_path_factory.mktemp("patched")
    for package in recipe.packages:
        with patched_tree(package, context=context, kind="sdist") as patched:
            copied = copy_tree(patched.tree, folder / package.name)
        write_generated(copied, package, version=VERSION[package.name])
    yield {package.name: folder / package.name for package in recipe.packages}
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def cpu_torch_python(store: Store) -> Path:
    """Return the python of an environment with a CPU torch, the real cubin package, and what FlashInfer needs."""
    requirements = (Path(__file__).parent / "cpu-torch.txt").read_text().split()
    folder = store.path("test-envs", sha256(" ".join(requirements).encode()).hexdigest()[:12])
    python = folder / "bin" / "python"
    with store.lock("cpu-torch"):
        if not (folder / "complete").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *requirements], check=True)
            (folder / "complete").touch()
    return python
