"""Whether a recipe's ``gates.toml`` still fits when it is ported: each entry must be there in the new trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from forkwheel.errors import UsageError
from forkwheel.fetch import FetchContext
from forkwheel.gates.arch import universe
from forkwheel.gates.cpp_graph import CppGraph
from forkwheel.gates.deep import with_deep_stack
from forkwheel.gates.files import SourceFile, files_of
from forkwheel.gates.interpret import Interpreter
from forkwheel.gates.model import Entry
from forkwheel.gates.modules import Modules
from forkwheel.gates.paths import Paths
from forkwheel.gates.settings import load_settings
from forkwheel.patching.apply import check_series
from forkwheel.patching.series import load_series
from forkwheel.recipe import Package, Recipe
from forkwheel.upstream.revisions import base_tree

GATES = "gates.toml"


def carry_gates(
    recipe: Recipe, packages: Mapping[str, Package], series: Mapping[str, Path], made: Path, *, context: FetchContext
) -> list[str]:
    """Copy a recipe's ``gates.toml`` to the folder ``made``, or say why it no longer fits.

    ``packages`` are the new ones, and ``series`` where their series are now, both by name.
    """
    file = recipe.folder / GATES
    if not file.is_file():
        return []
    with context.log.stage("gates"):
        lost = _lost_entries(recipe, packages, series, context)
    if not lost:
        (made / GATES).write_bytes(file.read_bytes())
        return []
    return [*lost, f"so {GATES} is not carried over, and nothing is audited: write one that names the new places"]


def _lost_entries(
    recipe: Recipe, packages: Mapping[str, Package], series: Mapping[str, Path], context: FetchContext
) -> list[str]:
    settings = load_settings(recipe.folder / GATES)
    files = [file for package in recipe.packages for file in _files(package, packages, series, context)]
    interpreter = Interpreter(Modules(files), universe(settings.references[0], settings.references))
    paths = Paths(interpreter, CppGraph(()), ())
    found = with_deep_stack(lambda: [_lost(entry, paths) for entry in settings.entries])
    return [text for text in found if text is not None]


def _files(
    package: Package, packages: Mapping[str, Package], series: Mapping[str, Path], context: FetchContext
) -> Iterator[SourceFile]:
    tree = base_tree(packages.get(package.name, package), context)
    changes = check_series(load_series(series.get(package.name, package.series)), tree)
    yield from (file for file in files_of(package.name, tree, changes) if file.is_python)


def _lost(entry: Entry, paths: Paths) -> str | None:
    try:
        function = paths.entry(entry)
    except UsageError as error:
        return error.message
    first, last = function.node.lineno, function.node.end_lineno
    if entry.concerns and last and not function.module.mentions(entry.concerns, first, last):
        return f"entry {entry.symbol!r}: {function.module.path} has no {entry.concerns!r} there"
    return None
