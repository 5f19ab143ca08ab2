"""From a patched tree to the wheel of its kernels: compile, take the census, check its rules, pack."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from forkwheel.console import Log
from forkwheel.cuda.census import SCHEMA, Census, Kernel, census, census_document
from forkwheel.cuda.census_rules import check_rules
from forkwheel.cuda.compile_cache import URL_VARIABLE, open_compile_cache
from forkwheel.cuda.host_compiler import find_host_compiler
from forkwheel.cuda.kernel_config import Kernels, load_recipe_kernels
from forkwheel.cuda.kernel_documents import kernels_document
from forkwheel.cuda.kernels import KernelBuild, KernelShop, build_kernels, reading_tools
from forkwheel.cuda.prebuilt import pack_jit_cache
from forkwheel.cuda.targets import Target, parse_targets
from forkwheel.cuda.toolchain import LOCKED, load_toolchain_lock, locked_toolchain, system_toolchain
from forkwheel.errors import UsageError
from forkwheel.recipe import ANY_TARGET, Recipe
from forkwheel.release.inputs import Inputs
from forkwheel.release.manifest import write_json
from forkwheel.store import Store, write_whole
from forkwheel.wheels.environment import build_environment
from forkwheel.wheels.finish import Wheel


@dataclass(frozen=True)
class KernelOptions:
    """What a person may choose; ``targets`` empty is the recipe's own target."""

    toolkit: str = LOCKED
    targets: str = ""
    modules: tuple[str, ...] = ()
    fast: bool = False
    fresh: bool = False
    compile_cache: bool = False
    offline: bool = False


@dataclass(frozen=True)
class KernelWheel:
    """A wheel of kernels, the build that it holds, and the census that it passed."""

    wheel: Wheel
    build: KernelBuild
    census: Census


def make_kernel_wheel(
    tree: Path,
    *,
    recipe: Recipe,
    version: str,
    epoch: int,
    options: KernelOptions,
    store: Store,
    log: Log,
    dest: Path,
    environment: Mapping[str, str] = os.environ,
    records: Mapping[str, bytes] | None = None,
) -> KernelWheel:
    """Compile the recipe's modules from the patched ``tree`` and pack them as a wheel of ``version`` in ``dest``.

    Nothing is left in ``dest`` where a rule of the census is broken (VerificationError).
    """
    kernels = load_recipe_kernels(recipe)
    lock = load_toolchain_lock(recipe.folder)
    targets = wanted_targets(recipe, kernels, options=options, log=log, environment=environment)
    shop = _shop(kernels, lock, options=options, store=store, log=log, environment=environment)
    wants_cache = options.compile_cache or bool(environment.get(URL_VARIABLE))
    cache = None
    if wants_cache and not options.fresh:
        cache = open_compile_cache(
            shop.toolchain, lock=lock, store=store, log=log, environment=environment, offline=options.offline
        )
    with store.temporary() as work:
        build = build_kernels(
            tree,
            shop=shop,
            targets=targets,
            dest=work,
            modules=options.modules or None,
            cache=cache,
            fast=options.fast,
            fresh=options.fresh,
        )
        _report_cache(build, log)
        taken = _checked_census(build, kernels, shop=shop, partial=bool(options.modules))
        with log.stage("pack"):
            tagging = build_environment(lock.of("tagging"), store=store, log=log, offline=options.offline)
            wheel = pack_jit_cache(
                build,
                config=kernels.wheel,
                version=version,
                epoch=epoch,
                tree=tree,
                tagging=tagging,
                dest=dest,
                records={"forkwheel/kernels.json": write_json(kernels_document(build)), **(records or {})},
            )
    return KernelWheel(wheel, build, taken)


def wanted_targets(
    recipe: Recipe, kernels: Kernels, *, options: KernelOptions, log: Log, environment: Mapping[str, str]
) -> tuple[Target, ...]:
    """Return the targets to compile for; raise UsageError where a list would be misread.

    The package's own variable decides nothing here, but it will on the machine that runs the
    wheel, so that one which is set is checked too.
    """
    targets = targets_of(recipe, options.targets)
    for name, text in _target_variables(kernels, environment):
        if _set_targets(name, text) != targets:
            named = ", ".join(target.name for target in targets)
            log.warning(f"{name} is {text!r} and is not used: the kernels are compiled for {named}")
    return targets


def _target_variables(kernels: Kernels, environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the variables that are set here to name targets, and what they say."""
    names = (name for name, text in kernels.evaluation.environment if text == "{targets}")
    return [(name, environment[name]) for name in names if environment.get(name)]


def check_compilable(recipe: Recipe, options: KernelOptions, *, environment: Mapping[str, str]) -> None:
    """Refuse, before anything is fetched, a recipe without kernels and a machine that can't compile them."""
    kernels = load_recipe_kernels(recipe)
    load_toolchain_lock(recipe.folder)
    targets_of(recipe, options.targets)
    for name, text in _target_variables(kernels, environment):
        _set_targets(name, text)
    find_host_compiler(environment)


def check_options(options: KernelOptions, recipe: Recipe, *, version: str, record: bool) -> None:
    """Refuse, before anything is compiled, what must not have a revision's version or be locked (UsageError)."""
    development = ".dev." in version
    if options.fast and not development:
        raise UsageError(
            f"a fast build gives other bytes each time, so it can't be {version}", hint="build it without --fast"
        )
    if not record:
        return
    reasons = {
        f"{version} is a development build": development,
        "a fast build gives other bytes each time": options.fast,
        f"the lock is for {recipe.target} alone": [target.name for target in targets_of(recipe, options.targets)]
        != [recipe.target],
        "the lock is for the locked toolkit": options.toolkit != LOCKED,
        "the lock is for all modules together": bool(options.modules),
    }
    if reason := next((text for text, holds in reasons.items() if holds), None):
        hint = "run `nox -s lock -- --recipe RECIPE` first" if development else "use --lock without other options"
        raise UsageError(f"these kernels can't be locked: {reason}", hint=hint)


def targets_of(recipe: Recipe, named: str) -> tuple[Target, ...]:
    """Return the targets that a person named, or the recipe's own."""
    if not named and recipe.target == ANY_TARGET:
        raise UsageError(f"the recipe {recipe.name} is for no GPU in particular", hint='name one: --targets "12.0a"')
    return parse_targets(named or recipe.target)


def _set_targets(variable: str, text: str) -> tuple[Target, ...]:
    try:
        return parse_targets(text)
    except UsageError as error:
        raise UsageError(f"{variable}: {error.message}", hint=f"{error.hint}; or unset {variable}") from error


def _shop(
    kernels: Kernels, lock: Inputs, *, options: KernelOptions, store: Store, log: Log, environment: Mapping[str, str]
) -> KernelShop:
    with log.stage("toolchain"):
        if options.toolkit == LOCKED:
            toolchain = locked_toolchain(lock, store=store, log=log, offline=options.offline, environment=environment)
        else:
            toolchain = system_toolchain(environment)
    log.info(f"nvcc {toolchain.nvcc_version} ({toolchain.kind} toolkit), {toolchain.host.label}")
    return KernelShop(kernels, toolchain, lock, store, log, environment, options.offline)


def _report_cache(build: KernelBuild, log: Log) -> None:
    use = build.cache_use
    if use is None or build.reused:
        return
    log.info(f"compile cache: {use.hits} answered, {use.misses} compiled")
    if use.errors:
        log.warning(f"the shared compile cache failed {use.errors} times; the local one was used")


def _checked_census(build: KernelBuild, kernels: Kernels, *, shop: KernelShop, partial: bool) -> Census:
    with shop.log.stage("census"):
        taken = kept_census(
            [module.path for module in build.modules],
            lock=shop.lock,
            store=shop.store,
            log=shop.log,
            offline=shop.offline,
        )
        checked = check_rules(taken, kernels.rules, targets=[target.name for target in build.targets], partial=partial)
        for reason in checked.skipped:
            shop.log.warning(f"SKIP {reason}")
        shop.log.info(f"{checked.held} census rules hold")
    return taken


def kept_census(files: list[Path], *, lock: Inputs, store: Store, log: Log, offline: bool = False) -> Census:
    """Take the census of ``files``, or return the one that was taken of the same bytes."""
    parts = [SCHEMA, lock.digest("reading"), *(sha256(file.read_bytes()).hexdigest() for file in files)]
    kept = store.path("census", f"{sha256(json.dumps(parts).encode()).hexdigest()}.json")
    store.used(kept)
    if (taken := _read_census(kept)) is not None:
        return taken
    taken = census(files, tools=reading_tools(lock, store=store, log=log, offline=offline))
    write_whole(kept, json.dumps(census_document(taken)).encode())
    return taken


def _read_census(file: Path) -> Census | None:
    """Return the census that was kept, or None where there is none that can be read."""
    try:
        document = json.loads(file.read_bytes())
        return Census(
            tuple((item["name"], item["sha256"]) for item in document["objects"]),
            tuple(Kernel(**item) for item in document["kernels"]),
        )
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
