"""The command ``fetch``: fill the cache, or a bundle for a machine without a network."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from forkwheel.build_commands import add_source_options, open_shop
from forkwheel.console import Console, readable_size
from forkwheel.cuda.toolchain import load_toolchain_lock, toolchain_lock_file
from forkwheel.pipeline import Workshop, plan_all
from forkwheel.release.bundle import make_bundle
from forkwheel.wheels.environment import build_environment

if TYPE_CHECKING:
    from forkwheel.cli import Commands

SCHEMA = 1


def register(commands: Commands) -> None:
    """Add ``fetch``."""
    parser = commands.add("fetch", help="fetch all that a build needs, into the cache or into a bundle")
    add_source_options(parser)
    parser.add_argument("--bundle", type=Path, metavar="DIR", help="collect it in this folder, for --from-bundle")
    parser.add_argument("--no-toolchain", action="store_true", help="leave the CUDA toolkit out of the bundle")
    parser.add_argument("--no-tools", action="store_true", help="leave nox and forkwheel's own needs out of it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    """Fetch everything."""
    shop = open_shop(options, console)
    if options.bundle is None:
        _fill(shop, options.source, console)
        return 0
    inputs = [shop.inputs]
    if not options.no_toolchain and toolchain_lock_file(shop.recipe.folder).is_file():
        inputs.append(load_toolchain_lock(shop.recipe.folder))
    bundle = make_bundle(
        shop.recipe,
        options.bundle,
        inputs=inputs,
        context=shop.context,
        tools=None if options.no_tools else Path(),
    )
    size = sum((bundle.file_folder / name).stat().st_size for name in bundle.files)
    if console.json_mode:
        console.data(
            {"schema": SCHEMA, "bundle": str(bundle.folder), "files": dict(bundle.files), "bytes": size}
            | {"repositories": list(bundle.repositories)}
        )
    console.line(f"{bundle.folder}: {len(bundle.files)} files, {readable_size(size)}", kind="done")
    return 0


def _fill(shop: Workshop, kind: str | None, console: Console) -> None:
    for plan in plan_all(shop, kind=kind):
        build_environment(plan.inputs.requirements, store=shop.store, log=shop.log(plan), offline=shop.context.offline)
    console.line("the cache holds all that a build needs: --offline works", kind="done")
