"""The command ``fetch``: fill the cache, or a bundle for a machine without a network."""

from __future__ import annotations

import argparse
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forkwheel.build_commands import add_source_options, open_shop
from forkwheel.console import Console, plural, readable_size
from forkwheel.cuda.toolchain import load_toolchain_lock, toolchain_lock_file
from forkwheel.errors import UsageError
from forkwheel.pipeline import Workshop, plan_all
from forkwheel.plan import Plan
from forkwheel.recipe import GitSource
from forkwheel.release.bundle import Bundle
from forkwheel.release.bundle_making import make_bundle
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
    if options.bundle is not None and options.offline and not options.no_tools:
        raise UsageError(
            "--offline forbids asking the package index for nox and forkwheel's own needs",
            hint="leave --offline out, or add --no-tools",
        )
    shop = open_shop(options, console)
    if options.bundle is None:
        _fill(shop, options.source, console)
    else:
        _bundle(shop, options, console)
    return 0


def _bundle(shop: Workshop, options: argparse.Namespace, console: Console) -> None:
    inputs = [shop.inputs]
    if not options.no_toolchain and toolchain_lock_file(shop.recipe.folder).is_file():
        inputs.append(load_toolchain_lock(shop.recipe.folder))
    tools = None if options.no_tools else Path()
    bundle = make_bundle(shop.recipe, options.bundle, inputs=inputs, context=shop.context, tools=tools)
    size = sum((bundle.file_folder / name).stat().st_size for name in bundle.files)
    if console.json_mode:
        console.data(_bundle_document(bundle, size))
    console.line(
        f"{bundle.folder}: {plural(len(bundle.files), 'file')}, {readable_size(size)}, {_serves(bundle)}", kind="done"
    )


def _serves(bundle: Bundle) -> str:
    if not bundle.tool_pythons:
        return f"for {platform.machine()}, without nox and forkwheel's own needs"
    return f"for {platform.machine()} with Python {', '.join(bundle.tool_pythons)}"


def _bundle_document(bundle: Bundle, size: int) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "recipe": bundle.recipe,
        "bundle": str(bundle.folder),
        "bytes": size,
        "machine": platform.machine(),
        "tool_pythons": list(bundle.tool_pythons),
        "files": dict(bundle.files),
        "repositories": list(bundle.repositories),
    }


def _fill(shop: Workshop, kind: str | None, console: Console) -> None:
    plans = plan_all(shop, kind=kind)
    for plan in plans:
        build_environment(plan.inputs.requirements, store=shop.store, log=shop.log(plan), offline=shop.context.offline)
    if console.json_mode:
        packages = [_package_document(plan) for plan in plans]
        document = {"schema": SCHEMA, "recipe": shop.recipe.name, "cache": str(shop.store.root), "packages": packages}
        console.data(document)
    console.line("the cache holds all that a build needs: --offline works", kind="done")


def _package_document(plan: Plan) -> dict[str, Any]:
    """Say which source of a package is in the cache, and which build requirements."""
    source = plan.source.source
    pin = {"commit": source.commit} if isinstance(source, GitSource) else {"sha256": source.sha256}
    return {
        "name": plan.package.name,
        "version": plan.package.version,
        "source": {"kind": source.kind, **pin},
        "requirements": {item.name: item.version for item in plan.inputs.requirements},
    }
