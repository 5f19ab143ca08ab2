"""Build one package's wheel once, in a process of its own, and print its SHA-256.

Arguments: the recipe, the package's name, its version, the cache (which has the source),
and a folder for all that this build makes.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from forkwheel.console import Console
from forkwheel.fetch import FetchContext
from forkwheel.patching.series import load_series
from forkwheel.projection import copy_tree, write_generated
from forkwheel.recipe import load_recipe
from forkwheel.release.inputs import load_inputs
from forkwheel.release.sbom import PATH, sbom
from forkwheel.sources import source_tree
from forkwheel.store import Store
from forkwheel.wheels.build import build_wheel
from forkwheel.wheels.environment import build_environment
from forkwheel.wheels.finish import Wheel, finish_wheel


def build(recipe_file: Path, name: str, *, version: str, context: FetchContext, folder: Path) -> Wheel:
    """Build the unpatched package; requirements of the recipe get the version ``9+test``."""
    package = load_recipe(recipe_file).package(name)
    requirements = load_inputs(recipe_file.with_name("inputs.lock.toml")).of(name)
    source = source_tree(package, context=context, kind="sdist")
    write_generated(copy_tree(source.tree, folder / "tree"), package, version=version)
    python = build_environment(requirements, store=context.store, log=context.log)
    dest = folder / "raw"
    raw = build_wheel(folder / "tree", package, version=version, python=python, dest=dest, log=context.log)
    local = "+" in version
    text = sbom(package=package, version=version, key="ab" * 32, series=load_series(None), inputs=requirements)
    return finish_wheel(
        raw,
        package=package,
        version=version,
        requires=dict.fromkeys(package.requires, "9+test") if local else {},
        records={PATH: text} if local else {},
        dest=folder / "out",
    )


def main() -> None:
    recipe, name, version, cache, folder = sys.argv[1:]
    store = Store(Path(cache))
    context = FetchContext(store=store, log=Console(stream=io.StringIO()).bind(name), offline=False)
    print(build(Path(recipe), name, version=version, context=context, folder=Path(folder)).sha256)


if __name__ == "__main__":
    main()
