"""Build wheels again, from what they carry, with no cache and in a fresh place, and compare the bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from forkwheel.console import Console
from forkwheel.errors import VerificationError
from forkwheel.fetch import FetchContext
from forkwheel.pipeline import Workshop, build_all, open_workshop, plan_all
from forkwheel.plan import Plan
from forkwheel.recipe import FileSource, load_recipe
from forkwheel.release.carried import Carried
from forkwheel.release.compare import Difference, compare_wheels
from forkwheel.release.manifest import Built, manifest
from forkwheel.release.reproduced import Reproduced
from forkwheel.release.wheel_set import BUILT, KERNELS, SetWheel, WheelSet, package_wheels
from forkwheel.store import copy_whole
from forkwheel.tree import sha256_file
from forkwheel.wheels.finish import Wheel

_AT_ONCE = 4
"""Wheels that are built at the same time, each of which is held in memory."""

_SHARED = ("name", "version", "upstream_version", "epoch", "development", "requires", "patches", "inputs")


def reproduce(
    wheels: Sequence[Carried],
    *,
    context: FetchContext,
    console: Console,
    kind: str | None = None,
    document: Mapping[str, Any] | None = None,
) -> tuple[Reproduced, ...]:
    """Build each wheel again and compare; ``document`` is a manifest that must say the same of them.

    Raise VerificationError where what a wheel carries gives another key than it records, naming
    the parts that differ.
    """
    with ThreadPoolExecutor(max_workers=max(1, min(len(wheels), _AT_ONCE))) as pool:
        built = list(pool.map(lambda one: _build(one, context=context, console=console, kind=kind), wheels))
    results = [_compared(one, item) for one, item in zip(wheels, built, strict=True)]
    if document is not None:
        said = list(_against_manifest(wheels, built, document))
        results = [replace(one, differences=(*one.differences, *_of(one.wheel, said))) for one in results]
    return tuple(results)


def _build(carried: Carried, *, context: FetchContext, console: Console, kind: str | None) -> Built:
    shop = open_workshop(
        carried.recipe, context=replace(context, log=console.bind(carried.package.name)), console=console
    )
    plans = plan_all(shop, kind=kind, revision=carried.recipe.revision or None)
    plan = next((plan for plan in plans if plan.key.digest == carried.key.get("key")), plans[0])
    _check_key(carried, plan)
    return _made(carried, build_all(shop, (plan,)))


def _made(carried: Carried, built: Sequence[Built]) -> Built:
    for item in built:
        if item.wheel.filename == carried.wheel.name:
            return item
    names = ", ".join(item.wheel.filename for item in built)
    raise VerificationError(
        f"what {carried.wheel.name} carries gives {names}, not a wheel of that name",
        hint="the wheel was renamed, or its records were changed: do not use it",
    )


def _check_key(carried: Carried, plan: Plan) -> None:
    """Compare the key's parts; a wheel whose records were changed with care is found here."""
    changes = plan.key.changes(carried.key["parts"])
    if changes or plan.key.digest != carried.key.get("key"):
        listed = "; ".join(f"{name} is {mine}, it records {other}" for name, mine, other in changes)
        raise VerificationError(
            f"{carried.wheel.name} carries other inputs than its key records: {listed or 'the key itself'}",
            hint="the wheel was changed after it was built: do not use it",
        )


def _compared(carried: Carried, built: Built) -> Reproduced:
    return Reproduced(
        original=carried.wheel,
        expected=sha256_file(carried.wheel),
        rebuilt=built.wheel.sha256,
        path=built.wheel.path,
        differences=compare_wheels(carried.wheel, built.wheel.path),
    )


def _against_manifest(
    wheels: Sequence[Carried], built: Sequence[Built], document: Mapping[str, Any]
) -> Iterator[tuple[str, Difference]]:
    """Yield what a manifest says otherwise than the builds do, with the wheel that it says it of."""
    said = {canonicalize_name(package["name"]): package for package in document["packages"]}
    for carried, item in zip(wheels, built, strict=True):
        (mine,) = manifest(carried.recipe, (item,))["packages"]
        entry = said[canonicalize_name(carried.package.name)]
        if "wheels" in entry:  # one of several, which share only what a package has once
            entry, mine = ({name: value for name, value in each.items() if name in _SHARED} for each in (entry, mine))
        for path, theirs, ours in differing(entry, mine):
            yield carried.wheel.name, Difference("manifest", path, f"it says {theirs!r}, the rebuild gives {ours!r}")


def _of(wheel: str, said: Sequence[tuple[str, Difference]]) -> tuple[Difference, ...]:
    return tuple(difference for name, difference in said if name == wheel)


def differing(left: Any, right: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (path, left value, right value) where two JSON documents differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted({*left, *right}):
            yield from differing(left.get(key), right.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from differing(one, other, f"{path}[{number}]")
    elif left != right:
        yield path, left, right


def reproduce_from_checkout(
    wheels: WheelSet, recipe_file: Path, *, context: FetchContext, console: Console, dest: Path, kind: str | None = None
) -> tuple[Reproduced, ...]:
    """Build a set again from a checkout's recipe, where its wheels are not there, and compare their hashes.

    Kernels are compiled into ``dest``.

    Raise VerificationError where the recipe gives another key than the manifest says.
    """
    shop = open_workshop(load_recipe(recipe_file), context=context, console=console)
    development = any(wheel.development for wheel in wheels.wheels if wheel.kind == BUILT)
    plans = plan_all(shop, kind=kind, revision=None if development else wheels.revision)
    said = {canonicalize_name(package["name"]): package for package in wheels.document["packages"]}
    for plan in plans:
        package = said.get(canonicalize_name(plan.package.name))
        if package is not None and (changes := _nearest(plan, package)):
            raise VerificationError(
                f"this checkout does not give {wheels.manifest.name}: {plan.package.name} differs in "
                + "; ".join(f"{name} (here {mine}, there {other})" for name, mine, other in changes),
                hint="put the set's wheels beside the manifest: they carry what a rebuild needs",
            )
    built = {item.wheel.filename: item.wheel for item in build_all(shop, plans)}
    results = [_hashed(wheel, built) for wheel in wheels.wheels if wheel.kind != KERNELS]
    for wheel in (wheel for wheel in wheels.wheels if wheel.kind == KERNELS):
        results.append(_kernels_from_checkout(wheel, shop, plans, record=wheels.document["kernels"], dest=dest))
    return tuple(results)


def _kernels_from_checkout(
    wheel: SetWheel, shop: Workshop, plans: tuple[Plan, ...], *, record: Mapping[str, Any], dest: Path
) -> Reproduced:
    from forkwheel.cuda.commands import kernels_made
    from forkwheel.release.reproduce_kernels import compared_by_record, kernel_options

    with kernels_made(shop, plans, options=kernel_options(record, recipe_folder=shop.recipe.folder)) as made:
        path = dest / made.wheel.filename
        copy_whole(made.wheel.path, path)
        result = Reproduced(wheel.path, wheel.sha256, made.wheel.sha256, path, ())
        return compared_by_record(result, record, made.build)


def _nearest(plan: Plan, package: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    """Return how a plan's key differs from that of the package's wheel which it is nearest to."""
    parts = [wheel.get("parts") or package["parts"] for wheel in package_wheels(package)]
    return min((plan.key.changes(one) for one in parts), key=len)


def _hashed(wheel: SetWheel, built: Mapping[str, Wheel]) -> Reproduced:
    made = built.get(wheel.filename)
    if made is None:
        raise VerificationError(
            f"this checkout builds no {wheel.filename}", hint="put the set's wheels beside the manifest"
        )
    detail = "the wheel that the manifest lists is not here, so that only its hash can be compared"
    differences = () if made.sha256 == wheel.sha256 else (Difference("sha256", "", detail),)
    return Reproduced(wheel.path, wheel.sha256, made.sha256, made.path, differences)


def taken_again(
    taken: Sequence[SetWheel], *, among: Sequence[Carried], context: FetchContext, console: Console
) -> tuple[Reproduced, ...]:
    """Fetch upstream's own wheels that a set has ``among`` its packages again, by the hashes that its manifest says.

    Raise PinMismatchError where upstream has other bytes under that name.
    """
    from forkwheel.fetch.index import cached_archive

    results = []
    for wheel in taken if among else ():
        named = replace(among[0].package, name=wheel.package)
        source = FileSource("wheel", wheel.filename, wheel.sha256)
        path, _ = cached_archive(named, source, context=replace(context, log=console.bind(wheel.package)))
        results.append(Reproduced(wheel.path, wheel.sha256, sha256_file(path), path, ()))
    return tuple(results)


@dataclass(frozen=True)
class Agreement:
    """Whether a checkout's recipe gives a package's recorded key; ``changes`` are the parts that differ."""

    package: str
    same: bool
    changes: tuple[tuple[str, str, str], ...]


def agreement(
    wheels: Sequence[Carried], recipe_file: Path, *, context: FetchContext, console: Console, kind: str | None = None
) -> tuple[Agreement, ...]:
    """Compare the keys that wheels record with those that a checkout's recipe gives."""
    shop = open_workshop(load_recipe(recipe_file), context=context, console=console)
    plans = plan_all(shop, kind=kind)
    return tuple(_agreement(carried, plans) for carried in wheels)


def _agreement(carried: Carried, plans: Sequence[Plan]) -> Agreement:
    name = canonicalize_name(carried.package.name)
    changes = [plan.key.changes(carried.key["parts"]) for plan in plans if canonicalize_name(plan.package.name) == name]
    nearest = min(changes, key=len, default=(("package", "-", name),))
    return Agreement(carried.package.name, not nearest, nearest)
