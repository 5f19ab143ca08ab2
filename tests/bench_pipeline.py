"""Compare the pipeline's speed with the hand-made way on this machine, both in this one call.

Prints ratios (ours over theirs, lower is better) and what they are meant to stay below.
The sources are downloaded before anything is timed.
"""

from __future__ import annotations

import argparse
import io
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from forkwheel.console import Console
from forkwheel.fetch import FetchContext, fetch_package
from forkwheel.outputs import write_outputs
from forkwheel.patching.apply import check_series, write_changes
from forkwheel.patching.series import load_series
from forkwheel.pipeline import Workshop, build_all, open_workshop, plan_all
from forkwheel.projection import copy_tree
from forkwheel.recipe import FileSource, load_recipe
from forkwheel.sources import source_tree
from forkwheel.store import Store

ROOT = Path(__file__).resolve().parents[1]


def timed(action: Callable[[], object]) -> float:
    """Return the seconds that an action takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def by_hand(shop: Workshop, work: Path) -> None:
    """Unpack, patch and build each package in turn, as a person would."""
    for package in shop.recipe.packages:
        source = next(source for source in package.sources if isinstance(source, FileSource))
        archive = shop.store.root / "archives" / source.sha256 / source.filename
        tree = work / package.name
        tree.mkdir()
        subprocess.run(["tar", "xzf", str(archive), "-C", str(tree), "--strip-components=1"], check=True)
        for patch in load_series(package.series).patches:
            subprocess.run(
                ["patch", "-p1", "--silent", "-d", str(tree)], input=patch.content, check=True, capture_output=True
            )
        command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(work / "out"), str(tree)]
        subprocess.run(command, check=True, capture_output=True)


def ours(shop: Workshop, out: Path) -> None:
    """Plan, build and write both wheels."""
    write_outputs(out, shop.recipe, build_all(shop, plan_all(shop, kind="sdist")), started="", finished="")


def patch_all(shop: Workshop, work: Path) -> float:
    """Return the seconds that checking and applying every series takes, the copies not counted."""
    seconds = 0.0
    for package in shop.recipe.packages:
        tree = copy_tree(source_tree(package, context=shop.context, kind="sdist").tree, work / package.name)

        def apply(package=package, tree=tree) -> None:
            write_changes(check_series(load_series(package.series), tree), tree)

        seconds += timed(apply)
    return seconds


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipe", type=Path, default=ROOT / "recipes" / "sm120" / "recipe.toml")
    options = parser.parse_args()
    console = Console(stream=io.StringIO())
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        context = FetchContext(store=Store(work / "cache"), log=console.bind("bench"))
        shop = open_workshop(load_recipe(options.recipe), context=context, console=console)
        for package in shop.recipe.packages:
            fetch_package(package, work / "warm" / package.name, context=context, kind="sdist")
        ours(shop, work / "first")
        for made in ("wheels", "trees"):
            shutil.rmtree(context.store.root / made)
        cold = timed(lambda: ours(shop, work / "cold"))
        again = timed(lambda: ours(shop, work / "cold"))
        (work / "patched").mkdir()
        applied = patch_all(shop, work / "patched")
        (work / "hand").mkdir()
        hand = timed(lambda: by_hand(shop, work / "hand"))
    memory = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024
    rows = [
        ("cold key, environment cached, over by hand", f"{cold / hand:.2f}", "0.60", f"{cold:.1f} s / {hand:.1f} s"),
        ("same key again, over by hand", f"{again / hand:.3f}", "-", f"{again:.2f} s, to stay below 0.5 s"),
        ("checking and applying, over by hand", f"{applied / hand:.3f}", "-", f"{applied:.2f} s, to stay below 0.3 s"),
        ("memory, MB", f"{memory:.0f}", "300", "largest process"),
    ]
    Console().table(("what", "ratio", "at most", "from"), rows)


if __name__ == "__main__":
    main()
