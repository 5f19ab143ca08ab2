"""The way from a recipe to wheels: plan, patch, build, pack, verify, and write the results."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from forkwheel.console import Console, Log
from forkwheel.fetch import FetchContext
from forkwheel.made import check_against_lock, publish_made, read_made
from forkwheel.patching.apply import Change, check_series
from forkwheel.plan import Plan, make_plans
from forkwheel.recipe import Recipe
from forkwheel.release import inputs as inputs_lock
from forkwheel.release.inputs import Inputs
from forkwheel.release.lock import WheelsLock, load_lock, wheels_lock_file
from forkwheel.release.manifest import Built
from forkwheel.sources import mending
from forkwheel.store import Store
from forkwheel.wheels.finish import Wheel

_AT_ONCE = 4
"""Wheels that are made at the same time, each of which is held in memory."""


@dataclass(frozen=True)
class Workshop:
    """What the stages of one run share."""

    recipe: Recipe
    inputs: Inputs
    lock: WheelsLock
    context: FetchContext
    console: Console

    @property
    def store(self) -> Store:
        """The cache."""
        return self.context.store

    def log(self, plan: Plan) -> Log:
        """Return the log of a plan's package."""
        return self.console.bind(plan.label)


def open_workshop(recipe: Recipe, *, context: FetchContext, console: Console) -> Workshop:
    """Read the locks that belong to a recipe; those that are missing are empty."""
    file = recipe.folder / inputs_lock.FILENAME
    return Workshop(
        recipe=recipe,
        inputs=inputs_lock.load_inputs(file) if file.exists() else Inputs(file, ()),
        lock=load_lock(wheels_lock_file(recipe.folder)),
        context=context,
        console=console,
    )


def plan_all(shop: Workshop, *, kind: str | None = None, revision: int | None = None) -> tuple[Plan, ...]:
    """Plan every package of the workshop's recipe."""
    return make_plans(
        shop.recipe,
        inputs=shop.inputs,
        lock=shop.lock,
        context=shop.context,
        console=shop.console,
        kind=kind,
        revision=revision,
    )


def build_all(shop: Workshop, plans: tuple[Plan, ...]) -> tuple[Built, ...]:
    """Build the wheels of all plans side by side; what was built before is taken from the cache.

    Every series is checked before the first wheel is built.
    """
    for plan in plans:
        if not _slot(shop, plan).exists():
            with mending(plan.source, shop.store):
                check_series(plan.series, plan.source.tree)
    with ThreadPoolExecutor(max_workers=min(len(plans), _AT_ONCE)) as pool:
        futures = [pool.submit(_built, shop, plan) for plan in plans]
    return tuple(future.result() for future in futures)


def rebuild(shop: Workshop, plan: Plan) -> str:
    """Build a wheel once more, in another folder, keep nothing of it, and return its SHA-256."""
    with shop.store.temporary() as work:
        made, _ = _make(shop, plan, work)
        return made.sha256


def _built(shop: Workshop, plan: Plan) -> Built:
    started = time.monotonic()
    slot = _slot(shop, plan)
    with shop.store.lock(f"wheel-{plan.key.digest}", waiting=lambda: shop.log(plan).info("waiting for another build")):
        reused = read_made(slot, store=shop.store, log=shop.log(plan))
        if reused is None:
            with shop.store.temporary() as work:
                wheel, changes = _make(shop, plan, work)
                check_against_lock(plan, wheel)
                publish_made(wheel, changes, store=shop.store, slot=slot)
    found = reused or read_made(slot, store=shop.store, log=shop.log(plan))
    assert found is not None
    wheel, changes = found
    check_against_lock(plan, wheel)
    return Built(plan, wheel, changes, reused is not None, time.monotonic() - started)


def _slot(shop: Workshop, plan: Plan) -> Path:
    return shop.store.path("wheels", plan.key.digest, plan.version)


def _make(shop: Workshop, plan: Plan, work: Path) -> tuple[Wheel, tuple[Change, ...]]:
    # Imported here because most runs build nothing, and these imports take longer than such a run.
    from forkwheel.making import make_from_source
    from forkwheel.wheel_source import make_from_wheel

    made = work / "made"
    made.mkdir()
    if plan.source.source.kind == "wheel":
        return make_from_wheel(shop.recipe, plan, context=shop.context, work=work, made=made, log=shop.log(plan))
    return make_from_source(
        shop.recipe, plan, inputs=shop.inputs, context=shop.context, work=work, made=made, log=shop.log(plan)
    )
