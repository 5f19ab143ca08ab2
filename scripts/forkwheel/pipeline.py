"""The way from a recipe to wheels: plan, patch, build, pack, verify, and write the results."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from forkwheel.console import Console, Log
from forkwheel.fetch import FetchContext
from forkwheel.made import check_against_lock, publish_made, read_made
from forkwheel.patching.apply import Change
from forkwheel.plan import Plan, check_plan, make_plans, naming_wheel
from forkwheel.recipe import ANY_TARGET, Recipe
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


def audit_plans(shop: Workshop, plans: tuple[Plan, ...]) -> None:
    """Refuse a series that opens a path halfway; where the keys passed before there is nothing to do.

    Without gates.toml nothing is audited, which a recipe for one GPU's sake has to be told.
    """
    from forkwheel.gates.check import check_plans, needs_check

    recipe, gates_file = shop.recipe, shop.recipe.folder / "gates.toml"
    if not gates_file.is_file():
        if recipe.target != ANY_TARGET and any(plan.series.patches for plan in plans):
            shop.console.bind(recipe.name).info(f"the gates are not audited: {recipe.folder} has no gates.toml")
        return
    slot = needs_check(plans, gates_file=gates_file, target=recipe.target, store=shop.store)
    if slot is None:
        return
    with shop.console.bind(recipe.name).stage("audit"):
        patched = [(plan, _changes(shop, plan)) for plan in plans]
        check_plans(patched, gates_file=gates_file, target=recipe.target, store=shop.store)
        slot.write({"passed": True})


def build_all(shop: Workshop, plans: tuple[Plan, ...]) -> tuple[Built, ...]:
    """Build the wheels of all plans side by side; what was built before is taken from the cache.

    Every series is checked before the first wheel is built.
    """
    checked = [None if _slot(shop, plan).exists() else _changes(shop, plan) for plan in plans]
    with ThreadPoolExecutor(max_workers=min(len(plans), _AT_ONCE)) as pool:
        futures = [pool.submit(_built, shop, plan, changes) for plan, changes in zip(plans, checked, strict=True)]
    return tuple(future.result() for future in futures)


def rebuild(shop: Workshop, plan: Plan) -> str:
    """Build a wheel once more, in another folder, keep nothing of it, and return its SHA-256."""
    log = shop.console.bind(f"{plan.label}, again in another folder")
    with shop.store.temporary() as work:
        return _make(shop, plan, _changes(shop, plan), work, log=log).sha256


def _changes(shop: Workshop, plan: Plan) -> tuple[Change, ...]:
    """Check a plan's series, and return what it changes."""
    with mending(plan.source, shop.store):
        return check_plan(plan)


def _built(shop: Workshop, plan: Plan, checked: tuple[Change, ...] | None) -> Built:
    """Build a wheel, or take it from the cache; ``checked`` is None where it seemed to be there."""
    started = time.monotonic()
    slot = _slot(shop, plan)
    with shop.store.lock(f"wheel-{plan.key.digest}", waiting=lambda: shop.log(plan).info("waiting for another build")):
        reused = read_made(slot, store=shop.store, log=shop.log(plan))
        if reused is None:
            changes = _changes(shop, plan) if checked is None else checked
            with shop.store.temporary() as work:
                wheel = _make(shop, plan, changes, work, log=shop.log(plan))
                check_against_lock(plan, wheel)
                publish_made(wheel, changes, store=shop.store, slot=slot)
    found = reused or read_made(slot, store=shop.store, log=shop.log(plan))
    assert found is not None
    wheel, changes = found
    check_against_lock(plan, wheel)
    return Built(plan, wheel, changes, reused is not None, time.monotonic() - started)


def _slot(shop: Workshop, plan: Plan) -> Path:
    return shop.store.path("wheels", plan.key.digest, plan.version)


def _make(shop: Workshop, plan: Plan, changes: tuple[Change, ...], work: Path, *, log: Log) -> Wheel:
    # Imported here because most runs build nothing, and these imports take longer than such a run.
    from forkwheel.making import make_from_source
    from forkwheel.wheel_source import make_from_wheel

    made = work / "made"
    made.mkdir()
    context = shop.context
    if plan.source.source.kind == "wheel":
        with naming_wheel(plan.package):
            return make_from_wheel(shop.recipe, plan, changes, context=context, work=work, made=made, log=log)
    return make_from_source(
        shop.recipe, plan, changes, inputs=shop.inputs, context=context, work=work, made=made, log=log
    )
