"""The way from a recipe to wheels: plan, patch, build, pack, verify, and write the results."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from forkwheel.console import Console, Log
from forkwheel.errors import VerificationError
from forkwheel.fetch import FetchContext
from forkwheel.patching.apply import Change, check_series, write_changes
from forkwheel.plan import Plan, make_plans
from forkwheel.projection import copy_tree, write_generated
from forkwheel.recipe import Recipe
from forkwheel.release import inputs as inputs_lock
from forkwheel.release.inputs import Inputs
from forkwheel.release.lock import WheelsLock, load_lock, wheels_lock_file
from forkwheel.release.manifest import Built
from forkwheel.release.records import wheel_records
from forkwheel.release.resolution import build_system_requires
from forkwheel.shipped import expected_members
from forkwheel.store import Store
from forkwheel.tree import Entry, Tree, sha256_file
from forkwheel.wheel_source import make_from_wheel
from forkwheel.wheels.build import build_wheel
from forkwheel.wheels.environment import build_environment
from forkwheel.wheels.finish import Wheel, finish_wheel
from forkwheel.wheels.verify import member_names, verify_wheel

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
            check_series(plan.series, plan.source.tree)
    with ThreadPoolExecutor(max_workers=min(len(plans), _AT_ONCE)) as pool:
        futures = [pool.submit(_built, shop, plan) for plan in plans]
    return tuple(future.result() for future in futures)


def _built(shop: Workshop, plan: Plan) -> Built:
    started = time.monotonic()
    slot = _slot(shop, plan)
    with shop.store.lock(f"wheel-{plan.key.digest}", waiting=lambda: shop.log(plan).info("waiting for another build")):
        reused = _read_slot(slot)
        if reused is None:
            _make(shop, plan, slot)
    found = reused or _read_slot(slot)
    assert found is not None
    wheel, changes = found
    _check_lock(plan, wheel)
    return Built(plan, wheel, changes, reused is not None, time.monotonic() - started)


def _slot(shop: Workshop, plan: Plan) -> Path:
    return shop.store.path("wheels", plan.key.digest, plan.version)


def _make(shop: Workshop, plan: Plan, slot: Path) -> None:
    log = shop.log(plan)
    package = plan.package
    if plan.source.source.kind == "wheel":
        with shop.store.temporary() as work:
            (work / "made").mkdir()
            wheel, changes = make_from_wheel(
                shop.recipe, plan, context=shop.context, work=work, made=work / "made", log=log
            )
            _check_lock(plan, wheel)
            _publish(work / "made", wheel, changes, shop.store, slot)
        return
    with shop.store.temporary() as work:
        with log.stage("patch"):
            changes = check_series(plan.series, plan.source.tree)
            patched = write_changes(changes, copy_tree(plan.source.tree, work / "tree"))
            tree = write_generated(patched.tree, package, version=plan.version)
            if plan.series.patches and not changes:
                log.warning("the source has the whole series already: nothing was patched")
        with log.stage("environment"):
            shop.inputs.check_requires(package.name, build_system_requires(tree.root))
            python = build_environment(
                plan.inputs.requirements, store=shop.store, log=log, offline=shop.context.offline
            )
        with log.stage("build"):
            raw = build_wheel(
                tree.root,
                package,
                version=plan.version,
                python=python,
                dest=work / "raw",
                log=log,
                log_file=shop.store.path("logs", f"{package.name}-{plan.version}.log"),
            )
        with log.stage("pack"):
            made = work / "made"
            made.mkdir()
            wheel = finish_wheel(
                raw,
                package=package,
                version=plan.version,
                requires=dict(plan.required),
                records=wheel_records(shop.recipe, plan),
                dest=made,
            )
        with log.stage("verify"):
            _verify(plan, wheel, changes, tree)
            _check_lock(plan, wheel)
        _publish(made, wheel, changes, shop.store, slot)


def _publish(made: Path, wheel: Wheel, changes: tuple[Change, ...], store: Store, slot: Path) -> None:
    (made / "build.json").write_text(json.dumps(_slot_record(wheel, changes)))
    store.publish(made, slot)


def _verify(plan: Plan, wheel: Wheel, changes: tuple[Change, ...], tree: Tree) -> None:
    expected = expected_members(plan.package, changes, members=member_names(wheel.path), tree=tree)
    verify_wheel(wheel.path, must_contain=expected)


def _check_lock(plan: Plan, wheel: Wheel) -> None:
    locked = plan.locked
    if locked is None or locked.key != plan.key.digest or locked.version != plan.version:
        return
    if locked.sha256 != wheel.sha256:
        raise VerificationError(
            f"{wheel.filename}: the build gave sha256 {wheel.sha256}, the lock says {locked.sha256} for the same key",
            hint="the build is not reproducible here, or the lock was edited: compare the wheels member by member",
        )


def _slot_record(wheel: Wheel, changes: tuple[Change, ...]) -> dict[str, object]:
    return {
        "filename": wheel.filename,
        "sha256": wheel.sha256,
        "size": wheel.size,
        "changes": [[change.path, _fields(change.before), _fields(change.after)] for change in changes],
    }


def _fields(entry: Entry | None) -> list[str] | None:
    return None if entry is None else [entry.path, entry.mode, entry.sha256]


def _read_slot(slot: Path) -> tuple[Wheel, tuple[Change, ...]] | None:
    try:
        record = json.loads((slot / "build.json").read_bytes())
    except FileNotFoundError:
        return None
    wheel = Wheel(slot / record["filename"], record["filename"], record["sha256"], record["size"])
    found = sha256_file(wheel.path) if wheel.path.exists() else "nothing"
    if found != wheel.sha256:
        raise VerificationError(
            f"{wheel.path} in the cache was altered: its sha256 is {found}, not {wheel.sha256}",
            hint=f"remove the folder {slot} and run again",
        )
    changes = tuple(
        Change(path, before and Entry(*before), after and Entry(*after), None)
        for path, before, after in record["changes"]
    )
    return wheel, changes
