"""The commands ``kernels`` and ``census``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forkwheel.build_commands import open_shop
from forkwheel.cli import Commands
from forkwheel.console import Console, Log
from forkwheel.cuda.census import Census, census, census_document
from forkwheel.cuda.census_report import COLUMNS, change_rows, changed_kernels, family_rows
from forkwheel.cuda.census_rules import check_rules
from forkwheel.cuda.kernel_config import kernels_file, load_kernels
from forkwheel.cuda.kernel_documents import kernels_document, observed_document
from forkwheel.cuda.kernel_wheel import KernelOptions, KernelWheel, make_kernel_wheel
from forkwheel.cuda.kernels import reading_tools
from forkwheel.cuda.kernels_lock import load_kernels_lock, locked_kernels
from forkwheel.cuda.targets import parse_targets
from forkwheel.cuda.toolchain import KINDS, LOCKED, load_toolchain_lock, toolchain_lock_file
from forkwheel.errors import UsageError
from forkwheel.outputs import KERNEL_RECORDS
from forkwheel.pipeline import Workshop, plan_all
from forkwheel.plan import Plan
from forkwheel.projection import write_generated
from forkwheel.recipe import SOURCE_KINDS, Recipe, find_recipe, load_recipe
from forkwheel.release.manifest import write_json
from forkwheel.sources import patched_tree
from forkwheel.store import Store, copy_whole, write_whole

_RECIPES = Path("recipes")


def register(commands: Commands) -> None:
    """Add ``kernels`` and ``census``."""
    kernels = commands.add("kernels", help="compile a recipe's kernels ahead of time and pack them as a wheel")
    kernels.add_argument("--recipe", required=True, help="name or path of the recipe")
    kernels.add_argument("--out", type=Path, default=Path("dist"), help="output folder (default: dist)")
    kernels.add_argument("--source", choices=SOURCE_KINDS, help="use this kind of source only")
    kernels.add_argument("--lock", action="store_true", help="record the kernels in the recipe's kernels.lock.toml")
    kernels.add_argument("--mirror", action="append", default=[], metavar="URL=PATH", help="fetch a git URL from there")
    add_kernel_options(kernels)
    kernels.set_defaults(run=_kernels)
    taken = commands.add("census", help="show every kernel in wheels, shared objects, object files or cubins")
    taken.add_argument("files", type=Path, nargs="+", metavar="FILE", help="a .whl, .so, .o or .cubin")
    taken.add_argument("--recipe", help="whose locked tools read the files (default: the first that locks some)")
    taken.add_argument("--against", type=Path, metavar="OTHER", help="show what changed since this file")
    taken.add_argument("--check", action="store_true", help="check the rules of the recipe's kernels.toml")
    taken.add_argument("--targets", default="", help="what the files must be for, with --check (default: the recipe's)")
    taken.add_argument("--offline", action="store_true", help="use the cache alone")
    taken.set_defaults(run=_census)


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
    plans = plan_all(shop, kind=options.source)
    with kernels_made(shop, plans, options=kernel_options(options), record=options.lock) as made:
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
    package = recipe.package(load_kernels(kernels_file(recipe.folder)).package)
    plan = next(plan for plan in plans if plan.package is package)
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
        _compare(made, recipe, version=plan.version, record=record, log=log)
        yield made


def _compare(made: KernelWheel, recipe: Recipe, *, version: str, record: bool, log: Log) -> None:
    """Compare with the recipe's lock, or record there; a fast or foreign build has no place in it."""
    if made.build.fast or [target.name for target in made.build.targets] != [recipe.target]:
        return
    lock = load_kernels_lock(recipe.folder)
    build = locked_kernels(made.build, made.wheel, version=version)
    log.info(lock.compared(build))
    if record:
        lock.with_build(build).write()
        log.info(f"recorded in {lock.file.name}")


def kernel_records(made: KernelWheel) -> dict[str, dict[str, Any]]:
    """Map the suffix of each record of a kernel wheel to its document: what was compiled, observed and counted."""
    documents = (
        kernels_document(made.build, wheel=made.wheel),
        observed_document(made.build),
        census_document(made.census),
    )
    return dict(zip(KERNEL_RECORDS, documents, strict=True))


def _write_records(made: KernelWheel, out: Path, recipe: Recipe) -> None:
    for suffix, document in kernel_records(made).items():
        write_whole(out / f"{recipe.name}.{suffix}", write_json(document))


def show_kernels(made: KernelWheel, console: Console, *, seconds: float) -> None:
    """Show the census and the wheel."""
    if console.json_mode:
        console.data(kernels_document(made.build, wheel=made.wheel))
    console.table(COLUMNS, family_rows(made.census), title="kernel census")
    rows = [(made.wheel.filename, made.wheel.size, made.wheel.sha256, f"{seconds:.1f}")]
    console.table(("wheel", "size", "sha256", "seconds"), rows)


def _census(options: argparse.Namespace, console: Console) -> int:
    recipe = load_recipe(find_recipe(options.recipe or _first_recipe(), recipes=_RECIPES))
    store, log = Store.default(), console.bind(recipe.name)
    lock = load_toolchain_lock(recipe.folder)
    tools = reading_tools(lock, store=store, log=log, offline=options.offline)
    taken = census(options.files, tools=tools)
    before = census([options.against], tools=tools) if options.against else None
    if console.json_mode:
        console.data(_census_document(taken, before))
    _census_tables(taken, before, console)
    if options.check:
        targets = [target.name for target in parse_targets(options.targets or recipe.target)]
        partial = any(file.suffix not in (".whl", ".so") for file in options.files)
        check_rules(taken, load_kernels(kernels_file(recipe.folder)).rules, targets=targets, partial=partial)
        console.line("every rule holds", kind="done")
    return 0


def _first_recipe() -> str:
    locks = sorted(_RECIPES.glob(f"*/{toolchain_lock_file(Path()).name}"))
    if not locks:
        raise UsageError("no recipe here locks the tools that read kernels", hint="name one with --recipe")
    return locks[0].parent.name


def _census_document(taken: Census, before: Census | None) -> dict[str, Any]:
    document = census_document(taken)
    if before is not None:
        columns = ("family", "what", "before", "after")
        document["changes"] = [dict(zip(columns, row, strict=True)) for row in change_rows(before, taken)]
        document["changed_kernels"] = list(changed_kernels(before, taken))
    return document


def _census_tables(taken: Census, before: Census | None, console: Console) -> None:
    title = f"{len(taken.kernels)} kernels for {', '.join(taken.targets)}"
    console.table(COLUMNS, family_rows(taken), title=title)
    if before is not None:
        rows = change_rows(before, taken)
        changed = len(changed_kernels(before, taken))
        console.table(("family", "what", "before", "after"), rows, title=f"{changed} kernels changed")
