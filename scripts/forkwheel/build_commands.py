"""The commands ``build`` and ``lock``."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from forkwheel.cli import Commands
from forkwheel.console import Console, readable_size
from forkwheel.cuda.jit_cache import clear_after_build
from forkwheel.errors import UsageError, VerificationError
from forkwheel.explain import explanation_rows
from forkwheel.fetch import FetchContext, parse_mirrors
from forkwheel.hints import short_path
from forkwheel.options import add_mirror_option, add_recipe_option
from forkwheel.outputs import KernelOutput, check_output_folder, write_outputs
from forkwheel.pipeline import Workshop, audit_plans, build_all, open_workshop, plan_all
from forkwheel.plan import Plan
from forkwheel.recipe import SOURCE_KINDS, find_recipe, load_recipe
from forkwheel.release.manifest import Built, manifest, read_manifest
from forkwheel.store import Store


def register(commands: Commands) -> None:
    """Add ``build`` and ``lock``."""
    build = commands.add("build", help="build the wheels of a recipe")
    add_source_options(build)
    build.add_argument("--out", type=Path, metavar="DIR", default=Path("dist"), help="output folder (default: dist)")
    build.add_argument("--explain", action="store_true", help="show the build keys and what changed; build nothing")
    build.add_argument("--locked", action="store_true", help="refuse to build what the lock does not know")
    add_bundle_option(build)
    build.add_argument("--keep-jit-cache", action="store_true", help="leave the JIT cache of this user as it is")
    build.add_argument(
        "--with-kernels", action="store_true", help="compile the recipe's kernels ahead of time, too; needs g++"
    )
    build.add_argument(
        "--no-audit", action="store_true", help="build a series that opens a path's gates halfway; it can't be locked"
    )
    build.set_defaults(run=_build)
    lock = commands.add("lock", help="build the wheels and record them in the recipe's lock")
    add_source_options(lock)
    lock.add_argument("--inputs", action="store_true", help="choose the build requirements anew first")
    lock.add_argument("--toolchain", action="store_true", help="choose what compiles and reads the kernels anew first")
    lock.add_argument("--release", action="store_true", help="mark the revision as released: it can't change any more")
    lock.set_defaults(run=_lock)


def add_source_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which recipe is meant and where its sources may come from."""
    add_recipe_option(parser, required=True)
    parser.add_argument("--source", choices=SOURCE_KINDS, help="use this kind of source only")
    parser.add_argument("--offline", action="store_true", help="use the cache alone")
    add_mirror_option(parser)


def open_shop(options: argparse.Namespace, console: Console) -> Workshop:
    """Open the recipe that the options name, with the person's cache."""
    recipe = load_recipe(find_recipe(options.recipe, recipes=Path("recipes")))
    context = FetchContext(
        store=Store.default(),
        log=console.bind(recipe.name),
        offline=options.offline,
        mirrors=parse_mirrors(options.mirror, os.environ),
    )
    return open_workshop(recipe, context=context, console=console)


def _build(options: argparse.Namespace, console: Console) -> int:
    started = _now()
    shop = open_shop(options, console)
    if not options.explain:
        check_output_folder(options.out)
    if options.with_kernels:
        _check_kernels(shop)
    shop = supplied(shop, options.from_bundle, with_toolchain=options.with_kernels)
    plans = plan_all(shop, kind=options.source)
    previous = read_manifest(options.out / f"{shop.recipe.name}.manifest.json")
    if options.explain:
        return _explain(plans, previous, console)
    _report_development(shop, plans, console, locked=options.locked)
    if not options.no_audit:
        audit_plans(shop, plans)
    built = build_all(shop, plans)
    with _kernels(shop, plans, options) as kernels, console.bind(shop.recipe.name).stage("write", quiet=True):
        written = write_outputs(options.out, shop.recipe, built, started=started, finished=_now(), kernels=kernels)
    for name in written.removed:
        shop.context.log.info(f"removed {options.out / name}, which is no part of this set")
    if not options.keep_jit_cache:
        _clear_jit_caches(shop, built)
    _summary(shop, built, console)
    return 0


def add_bundle_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a bundle."""
    parser.add_argument(
        "--from-bundle", type=Path, metavar="DIR", help="use what `fetch --bundle` collected, and no network"
    )


def supplied(shop: Workshop, folder: Path | None, *, with_toolchain: bool) -> Workshop:
    """Fill the cache from a bundle, if one is named, and use nothing but the cache from then on."""
    if folder is None:
        return shop
    from forkwheel.cuda.toolchain import load_toolchain_lock
    from forkwheel.release.bundle import fill_cache, read_bundle

    inputs = [shop.inputs, load_toolchain_lock(shop.recipe.folder)] if with_toolchain else [shop.inputs]
    with shop.context.log.stage("bundle"):
        fill_cache(read_bundle(folder, recipe=shop.recipe), shop.recipe, inputs=inputs, context=shop.context)
    return replace(shop, context=replace(shop.context, offline=True))


def _check_kernels(shop: Workshop) -> None:
    """Refuse, before any wheel is built, what would fail when the kernels' turn comes."""
    from forkwheel.cuda.kernel_wheel import KernelOptions, check_compilable

    check_compilable(shop.recipe, KernelOptions(), environment=os.environ)


@contextmanager
def _kernels(shop: Workshop, plans: tuple[Plan, ...], options: argparse.Namespace) -> Iterator[KernelOutput | None]:
    """Give what was compiled ahead of time, where that was asked for."""
    if not options.with_kernels:
        yield None
        return
    from forkwheel.cuda.commands import kernel_records, kernels_made
    from forkwheel.cuda.kernel_wheel import KernelOptions

    with kernels_made(shop, plans, options=KernelOptions(offline=shop.context.offline)) as made:
        yield KernelOutput(made.wheel, kernel_records(made, shop.recipe))


def _explain(plans: tuple[Plan, ...], previous: dict[str, object] | None, console: Console) -> int:
    explained = explanation_rows(plans, previous)
    console.data({"schema": 1, "packages": [item.document() for item in explained]}) if console.json_mode else None
    for item in explained:
        console.line(item.summary())
        for change in item.changes():
            console.line(f"  {change}")
        console.table(("unchanged" if item.against else "part", "value"), item.others())
    return 0


def _report_development(shop: Workshop, plans: tuple[Plan, ...], console: Console, *, locked: bool) -> None:
    for plan in plans:
        if plan.revision:
            continue
        changed = plan.key.changes(dict(plan.locked.parts)) if plan.locked else ()
        reason = "the lock has no such wheel yet"
        if changed:
            reason = "changed against the lock: " + ", ".join(name for name, _, _ in changed)
        if locked:
            raise VerificationError(
                f"{plan.package.name}: key {plan.key.digest[:12]} is not in the lock of {shop.recipe.name} "
                f"revision {shop.recipe.revision}: {reason}",
                hint="run `nox -s lock -- --recipe RECIPE` to record it, or build without --locked",
            )
        console.bind(plan.label).warning(f"development build {plan.version}: {reason}")


def _clear_jit_caches(shop: Workshop, built: tuple[Built, ...]) -> None:
    for item in (item for item in built if not item.reused):
        clear_after_build(
            item.plan.package,
            recipe=shop.recipe,
            version=item.plan.version,
            environment=os.environ,
            home=Path.home(),
            log=shop.log(item.plan),
        )


def _summary(shop: Workshop, built: tuple[Built, ...], console: Console) -> None:
    for item in built:
        if item.reused:
            key = item.plan.key.digest[:12]
            console.bind(item.plan.label).info(f"key {key} is unchanged: nothing was built")
    if console.json_mode:
        console.data(manifest(shop.recipe, built))
    _wheel_table(built, console)


def _wheel_table(built: tuple[Built, ...], console: Console) -> None:
    rows = [
        (item.wheel.filename, readable_size(item.wheel.size), item.wheel.sha256, f"{item.seconds:.1f}")
        for item in built
    ]
    if rows:
        console.table(("wheel", "size", "sha256", "seconds"), rows)


def _lock(options: argparse.Namespace, console: Console) -> int:
    from forkwheel.cuda.toolchain_choice import choose_toolchain
    from forkwheel.relock import relock

    if options.offline and (options.inputs or options.toolchain):
        raise UsageError("--offline forbids asking the package index what to choose", hint="leave --offline out")
    shop = open_shop(options, console)
    if options.toolchain:
        choose_toolchain(shop.recipe, store=shop.store, log=shop.context.log)
    result = relock(shop, kind=options.source, inputs=options.inputs, release=options.release)
    console.line(result.message, kind="done")
    for note in result.notes:
        console.line(note)
    _wheel_table(result.built, console)
    if result.changed:
        console.line(f"next: `nox -s build -- --recipe {shlex.quote(options.recipe)}`", kind="hint")
    if console.json_mode:
        console.data({"schema": 1, "revision": result.revision, "changed": result.changed})
    if result.changed:
        build = shlex.join(["nox", "-s", "build", "--", "--recipe", options.recipe])
        console.line(f"commit {short_path(shop.recipe.folder)}, and make the wheels with: {build}", kind="hint")
    return 0


def _now() -> str:
    return datetime.now(timezone.utc).replace(microsecond=0).isoformat()
