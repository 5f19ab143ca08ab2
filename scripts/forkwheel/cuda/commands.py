"""The command ``kernels``."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from forkwheel.build_commands import add_bundle_option, open_shop, supplied
from forkwheel.cli import Commands
from forkwheel.console import Console, Log
from forkwheel.cuda.census import census_document
from forkwheel.cuda.census_report import COLUMNS, family_rows
from forkwheel.cuda.kernel_config import load_recipe_kernels
from forkwheel.cuda.kernel_documents import kernels_document, observed_document
from forkwheel.cuda.kernel_wheel import KernelOptions, KernelWheel, check_compilable, check_options, make_kernel_wheel
from forkwheel.cuda.kernels_lock import load_kernels_lock, locked_kernels
from forkwheel.cuda.toolchain import KINDS, LOCKED
from forkwheel.options import add_mirror_option, add_recipe_option
from forkwheel.outputs import KERNEL_RECORDS, check_output_folder
from forkwheel.pipeline import Workshop, plan_all
from forkwheel.plan import Plan
from forkwheel.projection import write_generated
from forkwheel.recipe import SOURCE_KINDS, Recipe
from forkwheel.release.manifest import write_json
from forkwheel.sources import patched_tree
from forkwheel.store import copy_whole, write_whole


def register(commands: Commands) -> None:
    """Add ``kernels``."""
    kernels = commands.add("kernels", help="compile a recipe's kernels ahead of time and pack them as a wheel")
    add_recipe_option(kernels, required=True)
    kernels.add_argument("--out", type=Path, metavar="DIR", default=Path("dist"), help="output folder (default: dist)")
    kernels.add_argument("--source", choices=SOURCE_KINDS, help="use this kind of source only")
    kernels.add_argument("--lock", action="store_true", help="record the kernels in the recipe's kernels.lock.toml")
    add_mirror_option(kernels)
    add_bundle_option(kernels)
    add_kernel_options(kernels)
    kernels.set_defaults(run=_kernels)


def add_kernel_options(parser: argparse.ArgumentParser) -> None:
    """Add what every command that compiles kernels offers."""
    parser.add_argument(
        "--toolkit", choices=KINDS, default=LOCKED, help="the locked CUDA toolkit, or the installed one"
    )
    parser.add_argument("--targets", default="", metavar="LIST", help='such as "12.0a" (default: the recipe\'s target)')
    parser.add_argument("--module", action="append", default=[], metavar="NAME", help="compile this module only")
    parser.add_argument("--fast", action="store_true", help="for development: all cores at once, other bytes each time")
    parser.add_argument("--fresh", action="store_true", help="compile everything again and use no cache of objects")
    parser.add_argument("--compile-cache", action="store_true", help="compile through ccache")
    parser.add_argument("--offline", action="store_true", help="use the cache alone")


def kernel_options(options: argparse.Namespace) -> KernelOptions:
    """Read what ``add_kernel_options`` added."""
    return KernelOptions(
        toolkit=options.toolkit,
        targets=options.targets,
        modules=tuple(options.module),
        fast=options.fast,
        fresh=options.fresh,
        compile_cache=options.compile_cache,
        offline=options.offline,
    )


def _kernels(options: argparse.Namespace, console: Console) -> int:
    started = time.monotonic()
    shop = open_shop(options, console)
    check_output_folder(options.out)
    chosen = kernel_options(options)
    check_compilable(shop.recipe, chosen, environment=os.environ)
    shop = supplied(shop, options.from_bundle, with_toolchain=True)
    plans = plan_all(shop, kind=options.source)
    chosen = replace(chosen, offline=shop.context.offline)
    with kernels_made(shop, plans, options=chosen, record=options.lock) as made:
        copy_whole(made.wheel.path, options.out / made.wheel.filename)
    _write_records(made, options.out, shop.recipe)
    show_kernels(made, console, seconds=time.monotonic() - started)
    return 0


@contextmanager
def kernels_made(
    shop: Workshop, plans: tuple[Plan, ...], *, options: KernelOptions, record: bool = False
) -> Iterator[KernelWheel]:
    """Give the wheel of a recipe's kernels, whose file is gone afterwards; ``record`` writes it to the lock."""
    recipe, log = shop.recipe, shop.console.bind(shop.recipe.name)
    package = recipe.package(load_recipe_kernels(recipe).package)
    plan = next(plan for plan in plans if plan.package is package)
    check_options(options, recipe, version=plan.version, record=record)
    kind = plan.source.source.kind
    with patched_tree(package, context=shop.context, kind=kind) as patched, shop.store.temporary() as work:
        tree = write_generated(patched.tree, package, version=plan.version)
        made = make_kernel_wheel(
            tree.root,
            recipe=recipe,
            version=plan.version,
            epoch=package.epoch,
            options=options,
            store=shop.store,
            log=log,
            dest=work,
        )
        _compare(made, shop, version=plan.version, record=record, log=log)
        yield made


def _compare(made: KernelWheel, shop: Workshop, *, version: str, record: bool, log: Log) -> None:
    """Compare with the recipe's lock, or record there; a fast build or one for another GPU has no place in it."""
    recipe = shop.recipe
    if made.build.fast or [target.name for target in made.build.targets] != [recipe.target]:
        return
    lock = load_kernels_lock(recipe.folder)
    build = locked_kernels(made.build, made.wheel, version=version)
    said = lock.compared(build)
    unexpected = not record and ".dev." not in version and not lock.knows(build)
    log.warning(said) if unexpected else log.info(said)
    if record:
        revision = shop.lock.revision(recipe.revision)
        lock.with_build(build, released=revision is not None and revision.released).write()
        log.info(f"recorded in {lock.file.name}")


def kernel_records(made: KernelWheel, recipe: Recipe) -> dict[str, dict[str, Any]]:
    """Map the suffix of each record of a kernel wheel to its document: what was compiled, observed and counted."""
    documents = (
        kernels_document(made.build, wheel=made.wheel, recipe_folder=recipe.folder),
        observed_document(made.build),
        census_document(made.census),
    )
    return dict(zip(KERNEL_RECORDS, documents, strict=True))


def _write_records(made: KernelWheel, out: Path, recipe: Recipe) -> None:
    for suffix, document in kernel_records(made, recipe).items():
        write_whole(out / f"{recipe.name}.{suffix}", write_json(document))


def show_kernels(made: KernelWheel, console: Console, *, seconds: float) -> None:
    """Show the census and the wheel."""
    if console.json_mode:
        console.data(kernels_document(made.build, wheel=made.wheel))
    console.table(COLUMNS, family_rows(made.census), title="kernel census")
    rows = [(made.wheel.filename, made.wheel.size, made.wheel.sha256, f"{seconds:.1f}")]
    console.table(("wheel", "size", "sha256", "seconds"), rows)
