"""Making the next entry of a recipe's lock."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from forkwheel.errors import RecipeError, VerificationError
from forkwheel.patching.apply import check_series, write_changes
from forkwheel.patching.series import load_series
from forkwheel.pipeline import Workshop, build_all, plan_all
from forkwheel.plan import Plan
from forkwheel.projection import copy_tree, write_generated
from forkwheel.recipe import Recipe
from forkwheel.release.inputs import load_inputs, lock_text
from forkwheel.release.lock import LockedWheel, Revision
from forkwheel.release.manifest import Built
from forkwheel.release.resolution import resolve_inputs
from forkwheel.sources import source_tree
from forkwheel.store import write_whole


@dataclass(frozen=True)
class Relocked:
    """What locking did, in a line for a person."""

    revision: int
    changed: bool
    message: str
    built: tuple[Built, ...] = ()


def relock(shop: Workshop, *, kind: str | None, inputs: bool, release: bool) -> Relocked:
    """Build the recipe's wheels and record them.

    A released revision whose keys changed is followed by the next number, which is also
    written to the recipe; an unreleased one is rewritten.
    """
    if inputs:
        shop = _choose_inputs(shop, kind=kind)
    number = max(shop.recipe.revision, 1)
    current = shop.lock.revision(number)
    plans = plan_all(shop, kind=kind, revision=number)
    if current is not None and _same_keys(current, plans):
        return _release(shop, current, release=release)
    if current is not None and current.released:
        number = max(revision.number for revision in shop.lock.revisions) + 1
        plans = plan_all(shop, kind=kind, revision=number)
    plans = tuple(replace(plan, locked=None) for plan in plans)
    built = build_all(shop, plans)
    revision = Revision(number, release, tuple(_locked(item) for item in built))
    rewritten = shop.lock.revision(number) is not None
    shop.lock.with_revision(revision).write()
    if number != shop.recipe.revision:
        _write_revision(shop.recipe, number)
    what = "rewrote, as it was not released," if rewritten else "wrote"
    return Relocked(number, True, f"{shop.lock.file}: {what} revision {number} of {shop.recipe.name}", built)


def _choose_inputs(shop: Workshop, *, kind: str | None) -> Workshop:
    """Pin the build requirements anew, for the patched trees, and write the inputs' lock."""
    with shop.store.temporary() as work:
        projects = []
        for package in shop.recipe.packages:
            if all(variant.sources[0].kind == "wheel" for variant in package.variants(kind)):
                continue
            context = replace(shop.context, log=shop.console.bind(package.name))
            source = source_tree(package, context=context, kind=kind).tree
            changes = check_series(load_series(package.series), source)
            patched = write_changes(changes, copy_tree(source, work / package.name))
            tree = write_generated(patched.tree, package, version=package.version)
            projects.append((package, tree.root, package.version))
        parts = resolve_inputs(projects, previous=shop.inputs, store=shop.store, log=shop.context.log)
    write_whole(shop.inputs.file, lock_text(parts).encode())
    return replace(shop, inputs=load_inputs(shop.inputs.file))


def _same_keys(revision: Revision, plans: tuple[Plan, ...]) -> bool:
    keys = sorted((wheel.package, wheel.key) for wheel in revision.wheels)
    return keys == sorted((plan.package.name, plan.key.digest) for plan in plans)


def _release(shop: Workshop, current: Revision, *, release: bool) -> Relocked:
    name = f"revision {current.number} of {shop.recipe.name}"
    if not release or current.released:
        return Relocked(current.number, False, f"{shop.lock.file}: {name} is unchanged")
    for item in build_all(shop, plan_all(shop)):
        if item.plan.revision != current.number:
            raise VerificationError(f"{item.wheel.filename} is not {name}", hint="run `nox -s lock` first")
    shop.lock.with_revision(replace(current, released=True)).write()
    return Relocked(current.number, True, f"{shop.lock.file}: {name} is now released")


def _locked(item: Built) -> LockedWheel:
    wheel = item.wheel
    plan = item.plan
    return LockedWheel(
        plan.package.name, plan.version, plan.key.digest, wheel.filename, wheel.sha256, wheel.size, plan.key.parts
    )


def _write_revision(recipe: Recipe, number: int) -> None:
    text = recipe.file.read_text(encoding="utf-8")
    changed, count = re.subn(r"(?m)^revision\s*=\s*\d+", f"revision = {number}", text, count=1)
    if count != 1:
        raise RecipeError(f"{recipe.file}: found no line `revision = N` to change", hint=f"write revision = {number}")
    write_whole(recipe.file, changed.encode())
