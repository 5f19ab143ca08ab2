"""Making the next entry of a recipe's lock."""

from __future__ import annotations

from dataclasses import dataclass, replace

from forkwheel.errors import RecipeError, VerificationError
from forkwheel.patching.apply import check_series, write_changes
from forkwheel.patching.series import load_series
from forkwheel.pipeline import Workshop, audit_plans, build_all, plan_all, rebuild
from forkwheel.plan import Plan
from forkwheel.projection import copy_tree, write_generated
from forkwheel.recipe import Recipe
from forkwheel.release.inputs import load_inputs, lock_text
from forkwheel.release.lock import LockedWheel, Revision
from forkwheel.release.manifest import Built
from forkwheel.release.resolution import resolve_inputs
from forkwheel.sources import source_tree
from forkwheel.store import write_whole

_LOCK_FIRST = "run `nox -s lock -- --recipe RECIPE` first"


@dataclass(frozen=True)
class Relocked:
    """What locking did, in a line for a person, and what else it wrote."""

    revision: int
    changed: bool
    message: str
    built: tuple[Built, ...] = ()
    notes: tuple[str, ...] = ()


def relock(shop: Workshop, *, kind: str | None, inputs: bool, release: bool) -> Relocked:
    """Build the recipe's wheels and record them.

    A released revision whose keys changed is followed by the next number, which is also
    written to the recipe; an unreleased one is rewritten. Each wheel is built twice, in
    different folders, and is recorded only if both have the same bytes.
    """
    if inputs:
        shop = _choose_inputs(shop, kind=kind)
    number = max(shop.recipe.revision, 1)
    _with_revision(shop.recipe, number + 1)  # a line that can't be changed is found before anything is built
    current = shop.lock.revision(number)
    plans = plan_all(shop, kind=kind, revision=number)
    if current is not None and _same_keys(current, plans):
        notes = _write_recipe(shop.recipe, number)
        shop = replace(shop, recipe=replace(shop.recipe, revision=number))
        return replace(_release(shop, current, release=release), notes=notes)
    if current is not None and current.released:
        number = max(revision.number for revision in shop.lock.revisions) + 1
        plans = plan_all(shop, kind=kind, revision=number)
    plans = tuple(replace(plan, locked=None) for plan in plans)
    audit_plans(shop, plans)
    built = build_all(shop, plans)
    _check_repeatable(shop, built)
    revision = Revision(number, release, tuple(_locked(item) for item in built))
    rewritten = shop.lock.revision(number) is not None
    shop.lock.with_revision(revision).write()
    notes = _write_recipe(shop.recipe, number)
    what = "rewrote, as it was not released," if rewritten else "wrote"
    return Relocked(number, True, f"{shop.lock.file}: {what} revision {number} of {shop.recipe.name}", built, notes)


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
    plans = plan_all(shop)
    audit_plans(shop, plans)
    for item in build_all(shop, plans):
        if item.plan.revision != current.number:
            raise VerificationError(
                f"{item.wheel.filename} is not {name}", hint="run `nox -s lock -- --recipe RECIPE` first"
            )
    shop.lock.with_revision(replace(current, released=True)).write()
    return Relocked(current.number, True, f"{shop.lock.file}: {name} is now released")


def _locked(item: Built) -> LockedWheel:
    wheel = item.wheel
    plan = item.plan
    return LockedWheel(
        plan.package.name, plan.version, plan.key.digest, wheel.filename, wheel.sha256, wheel.size, plan.key.parts
    )


def _check_repeatable(shop: Workshop, built: tuple[Built, ...]) -> None:
    for item in built:
        again = rebuild(shop, item.plan)
        if again != item.wheel.sha256:
            raise VerificationError(
                f"{item.wheel.filename}: two builds from the same inputs gave {item.wheel.sha256} and {again}",
                hint="the build records its folder, the time or chance; patch that, or it can't be locked",
            )


def _with_revision(recipe: Recipe, number: int) -> str:
    """Return the recipe's text with another revision, and nothing else changed."""
    from forkwheel.toml_file import locate_value

    text = recipe.file.read_bytes().decode("utf-8")
    if recipe.revision == number:
        return text
    try:
        start, end = locate_value(text, ("recipe", "revision"))
    except KeyError:
        raise RecipeError(
            f"{recipe.file}: the line of `revision` can't be changed from {recipe.revision} to {number}",
            hint=f"write it as `revision = {number}` on a line of its own under [recipe]",
        ) from None
    return f"{text[:start]}{number}{text[end:]}"


def _write_recipe(recipe: Recipe, number: int) -> tuple[str, ...]:
    """Give the recipe its revision's number, and say so where that changes it."""
    if recipe.revision == number:
        return ()
    write_whole(recipe.file.resolve(), _with_revision(recipe, number).encode("utf-8"))
    return (f"{recipe.file}: `revision` was {recipe.revision} and is {number} now",)
