"""Compare the compilation of kernels with the hand-made way, as ratios in one run.

The hand-made way is the package's own ninja file, run by ninja, in the same build root with
the same toolkit. It compiles everything three times: some fifteen minutes on two cores.
"""

from __future__ import annotations

import argparse
import io
import os
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from forkwheel.console import Console
from forkwheel.cuda.build_root import build_root
from forkwheel.cuda.census import census
from forkwheel.cuda.compile_cache import open_compile_cache
from forkwheel.cuda.kernel_config import load_kernels
from forkwheel.cuda.kernels import KernelShop, build_kernels, reading_tools
from forkwheel.cuda.specification import compile_environment, evaluate, stage_inputs
from forkwheel.cuda.targets import parse_targets
from forkwheel.cuda.toolchain import load_toolchain_lock, locked_toolchain
from forkwheel.fetch import FetchContext
from forkwheel.projection import write_generated
from forkwheel.recipe import load_recipe
from forkwheel.sources import patched_tree
from forkwheel.store import Store
from forkwheel.wheels.environment import build_environment

REPOSITORY = Path(__file__).resolve().parents[1]
RECIPE = REPOSITORY / "recipes" / "sm120"
TARGETS = parse_targets("12.0a")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, help="keep the toolchain here (default: a temporary folder)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="forkwheel-bench-") as temporary:
        folder = Path(temporary)
        shop = open_shop(Store(options.cache or folder / "cache"))
        context = FetchContext(store=shop.store, log=shop.log)
        package = load_recipe(RECIPE / "recipe.toml").package(shop.kernels.package)
        with patched_tree(package, context=context, kind="sdist") as patched:
            tree = write_generated(patched.tree, package, version=f"{package.version}+bench.1").root
            measure(tree, shop, folder)


def open_shop(store: Store) -> KernelShop:
    log = Console(stream=io.StringIO()).bind("bench")
    lock = load_toolchain_lock(RECIPE)
    toolchain = locked_toolchain(lock, store=store, log=log)
    for part in ("specification", "reading", "compile-cache"):
        build_environment(lock.of(part), store=store, log=log)
    return KernelShop(load_kernels(RECIPE / "kernels.toml"), toolchain, lock, store, log, os.environ)


def measure(tree: Path, shop: KernelShop, folder: Path) -> None:
    by_hand = ninja_by_hand(tree, shop)
    print(f"FlashInfer's own ninja file, by hand: {by_hand:.1f} s")
    ours = Store(folder / "empty")
    for name in ("envs", "toolkits"):
        (ours.root / name).symlink_to(shop.store.root / name)
    shop = replace(shop, store=ours)
    cache = open_compile_cache(shop.toolchain, lock=shop.lock, store=ours, log=shop.log, environment={})
    runs = (("cold", None, 1.02), ("cold, filling the compile cache", cache, None), ("warm compile cache", cache, 0.1))
    for name, used, goal in runs:
        started = time.monotonic()
        built = build_kernels(tree, shop=shop, targets=TARGETS, dest=folder / name, cache=used, fresh=True)
        report(name, time.monotonic() - started, by_hand, goal)
    started = time.monotonic()
    tools = reading_tools(shop.lock, store=shop.store, log=shop.log)
    census([module.path for module in built.modules], tools=tools)
    own, child = (resource.getrusage(who).ru_maxrss >> 10 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    took = time.monotonic() - started
    print(f"census: {took:.1f} s (goal: 20), {own} MB here and {child} MB in the largest child of the whole run")


def ninja_by_hand(tree: Path, shop: KernelShop) -> float:
    python = build_environment(shop.lock.of("specification"), store=shop.store, log=shop.log)
    with build_root(shop.store) as root:
        stage_inputs(root, tree=tree, kernels=shop.kernels, toolchain=shop.toolchain, python=python)
        evaluate(
            root,
            kernels=shop.kernels,
            modules=[name for name, _ in shop.kernels.modules],
            targets=TARGETS,
            toolchain=shop.toolchain,
            python=python,
        )
        (file,) = root.stage.rglob("build.ninja")
        visible = root.visible(str(file.relative_to(root.stage)))
        command = [str(python.with_name("ninja")), "-f", str(visible)]
        started = time.monotonic()
        environment = compile_environment(shop.toolchain)
        root.run(command, environment=environment).check_returncode()
        return time.monotonic() - started


def report(what: str, seconds: float, by_hand: float, goal: float | None) -> None:
    aim = "" if goal is None else f" (goal: {goal})"
    print(f"{what}: {seconds:.1f} s, ratio {seconds / by_hand:.3f}{aim}", flush=True)


if __name__ == "__main__":
    main()
