"""Compare the pipeline's speed with the hand-made way on this machine, both in this one call.

Prints ratios (ours over theirs, lower is better) and what they are meant to stay below.
The sources are downloaded before anything is timed.
"""

from __future__ import annotations

import argparse
import io
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from forkwheel.console import Console
from forkwheel.fetch import FetchContext, fetch_package
from forkwheel.fetch.index import archive_of
from forkwheel.outputs import write_outputs
from forkwheel.patching.apply import check_series, write_changes
from forkwheel.patching.series import load_series
from forkwheel.pipeline import Workshop, build_all, open_workshop, plan_all, rebuild
from forkwheel.projection import copy_tree
from forkwheel.recipe import FileSource, Recipe, load_recipe
from forkwheel.sources import source_tree
from forkwheel.store import Store
from forkwheel.upstream.matrix import judge_revisions
from forkwheel.upstream.revisions import base_tree

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 2


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


def in_place(recipe: Recipe, work: Path, context: FetchContext, console: Console) -> tuple[float, float]:
    """Return the seconds that patching one wheel in place takes, and those of `unzip` and `zip` of the same file."""
    package = next(package for package in recipe.packages if package.series is not None)
    one = replace(recipe, packages=(replace(package, sources=package.sources[:1]),))
    shop = open_workshop(one, context=context, console=console)
    (plan,) = plan_all(shop)
    archive = archive_of(one.packages[0].sources[0], context.store)
    (work / "zipped").mkdir(parents=True)

    def zipped() -> None:
        subprocess.run(["unzip", "-q", str(archive), "-d", str(work / "zipped")], check=True)
        subprocess.run(["zip", "-qr", str(work / "zipped.whl"), "."], cwd=work / "zipped", check=True)

    return timed(lambda: rebuild(shop, plan)), timed(zipped)


def judged(recipe: Recipe, version: str, context: FetchContext) -> float:
    """Return the seconds that the verdicts on a version take, its source being in the cache."""
    package = next(package for package in recipe.packages if package.series is not None)
    series = load_series(package.series)

    def judge() -> None:
        judge_revisions(package, series, base_tree(package, context), [version], context=context)

    judge()
    return timed(judge)


def spent(work: Path, *arguments: str) -> tuple[float, float]:
    """Run the command with an empty cache; return the seconds on the clock, and those of all processors together."""
    environment = {**os.environ, "FORKWHEEL_CACHE": str(work / "empty")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = timed(
        lambda: subprocess.run(
            [sys.executable, "-m", "forkwheel", *arguments], check=True, capture_output=True, env=environment, cwd=work
        )
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    shutil.rmtree(work / "empty", ignore_errors=True)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def reproduce_rows(recipe: Path, work: Path) -> list[tuple[str, str, str, str]]:
    """Compare a reproduction with the build that it repeats, in turns; of each the least seconds count.

    Both fetch, make their environments and build; wheels that lie in dist/ already would not be built.
    """
    builds, again = [], []
    for number in range(ROUNDS):
        dist = work / f"dist-{number}"
        build = ("build", "--recipe", str(recipe), "--source", "sdist", "--out", str(dist), "--keep-jit-cache")
        builds.append(spent(work, *build))
        (manifest,) = dist.glob("*.manifest.json")
        again.append(spent(work, "reproduce", str(manifest), "--source", "sdist"))
    rows = []
    for at, what in enumerate(("wall", "CPU")):
        mine, other = (min(one[at] for one in runs) for runs in (again, builds))
        said = f"{mine:.1f} s / {other:.1f} s"
        rows.append((f"reproduce over a build, both without a cache, {what}", f"{mine / other:.2f}", "1.10", said))
    return rows


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipe", type=Path, default=ROOT / "recipes" / "sm120" / "recipe.toml")
    parser.add_argument("--wheels", type=Path, default=ROOT / "recipes" / "sm120-current" / "recipe.toml")
    parser.add_argument("--to", default="0.6.18", help="judge the series of the recipe's first package against this")
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
        (work / "reproduce").mkdir()
        reproduced = reproduce_rows(options.recipe.absolute(), work / "reproduce")
        processes = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        memory = max(resource.getrusage(who).ru_maxrss for who in processes) / 1024
        verdicts = judged(shop.recipe, options.to, context)
        repacked, zipped = in_place(load_recipe(options.wheels), work / "wheels", context, console)
    rows = [
        ("cold key, environment cached, over by hand", f"{cold / hand:.2f}", "0.60", f"{cold:.1f} s / {hand:.1f} s"),
        ("same key again, over by hand", f"{again / hand:.3f}", "-", f"{again:.2f} s, to stay below 0.5 s"),
        ("checking and applying, over by hand", f"{applied / hand:.3f}", "-", f"{applied:.2f} s, to stay below 0.3 s"),
        ("verdicts on another version, seconds", f"{verdicts:.2f}", "1", options.to),
        (
            "a wheel in place, over unzip and zip",
            f"{repacked / zipped:.2f}",
            "1.5",
            f"{repacked:.1f} s / {zipped:.1f} s",
        ),
        *reproduced,
        ("memory, MB", f"{memory:.0f}", "300", "largest process"),
    ]
    Console().table(("what", "ratio", "at most", "from"), rows)


if __name__ == "__main__":
    main()
