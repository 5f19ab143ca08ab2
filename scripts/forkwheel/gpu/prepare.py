"""Prepare a run: what was asked, the GPUs, the wheels and an environment that has them."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forkwheel.console import Console
from forkwheel.errors import UsageError
from forkwheel.gpu.devices import find_machine
from forkwheel.gpu.environment import InstalledWheel, find_prebuilt, find_wheels, make_environment
from forkwheel.gpu.job import Limits
from forkwheel.gpu.plan import GpuPlan
from forkwheel.gpu.plan_file import load_plan
from forkwheel.gpu.ranks import check_worlds, choose_worlds
from forkwheel.gpu.smoke import Setting
from forkwheel.recipe import find_recipe, load_recipe
from forkwheel.release.wheel_set import load_set
from forkwheel.tree import sha256_file


@contextmanager
def prepared(options: argparse.Namespace, console: Console) -> Iterator[Setting]:
    """Prepare everything for a run: what was asked first, then the GPUs, before anything is made."""
    recipe = load_recipe(find_recipe(options.recipe, recipes=Path("recipes")))
    plan = load_plan(recipe.folder)
    recipe.package(plan.package)
    check_worlds(options.world_size, supported=plan.world_sizes)
    _check_names(getattr(options, "only", ()), plan)
    machine = find_machine()
    worlds = choose_worlds(
        options.world_size,
        supported=plan.world_sizes,
        gpus=len(machine.devices),
        ranks_per_gpu=options.ranks_per_gpu,
    )
    manifest = _manifest(options.wheels / f"{recipe.name}.manifest.json", recipe.name)
    _check_writable(options.wheels)
    if options.work:
        options.work.mkdir(parents=True, exist_ok=True)
    # A folder of its own each time: nothing that an earlier run compiled is used.
    work = Path(tempfile.mkdtemp(prefix="forkwheel-gpu-", dir=options.work)).absolute()
    try:
        wheels = find_wheels(options.wheels, manifest)
        wheels += tuple(InstalledWheel(file.resolve(), sha256_file(file)) for file in options.with_wheel)
        prebuilt = _prebuilt(options, recipe.name, machine.devices[0].capability)
        wheels += () if isinstance(prebuilt, str) else (prebuilt,)
        with console.bind("gpu").stage("environment"):
            environment = make_environment(
                work / "env", base=options.python, wheels=wheels, needs=dict(plan.needs), torch=plan.torch
            )
        limits = Limits(case=options.hang_limit)
        reason = prebuilt if isinstance(prebuilt, str) else ""
        yield Setting(recipe, plan, manifest, machine, environment, wheels, worlds, work, limits, reason)
    finally:
        if options.work is None:
            shutil.rmtree(work, ignore_errors=True)


def _check_names(only: Sequence[str], plan: GpuPlan) -> None:
    names = [operation.name for operation in plan.operations]
    for name in only:
        if name not in names:
            raise UsageError(f"there is no operation {name!r}", hint=f"the operations are {', '.join(names)}")


def _check_writable(folder: Path) -> None:
    """Refuse a folder that can't take the record before the run, not after it."""
    with tempfile.TemporaryFile(dir=folder):
        pass


def _prebuilt(options: argparse.Namespace, recipe: str, capability: tuple[int, int]) -> InstalledWheel | str:
    if options.no_prebuilt:
        return "--no-prebuilt was given"
    return find_prebuilt(options.wheels, options.wheels / f"{recipe}.kernels.json", capability=capability)


def _manifest(file: Path, recipe: str) -> Mapping[str, Any]:
    if not file.is_file():
        raise UsageError(f"{file} is missing", hint="build the wheels first, or name their folder with --wheels")
    wheels = load_set(file)
    if wheels.recipe != recipe:
        raise UsageError(f"{file} is of the recipe {wheels.recipe}", hint="name that recipe with --recipe")
    return wheels.document
