"""Compile a wheel of kernels again, with no cache, and compare: all bytes, or the device code apart from the host's."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forkwheel.console import Console
from forkwheel.cuda.built_module import BuiltModule
from forkwheel.cuda.cubins import device_digests
from forkwheel.cuda.kernel_config import Kernels, kernels_file, load_kernels
from forkwheel.cuda.kernel_documents import kernels_document
from forkwheel.cuda.kernel_wheel import KernelOptions, KernelWheel, make_kernel_wheel
from forkwheel.cuda.kernels import KernelBuild, reading_tools
from forkwheel.cuda.kernels_lock import host_code_differs
from forkwheel.cuda.prebuilt import pack_jit_cache
from forkwheel.cuda.toolchain import KINDS, LOCKED, load_toolchain_lock
from forkwheel.errors import VerificationError
from forkwheel.fetch import FetchContext
from forkwheel.key import Key
from forkwheel.projection import write_generated
from forkwheel.release.compare import Difference, compare_wheels
from forkwheel.release.elf import compilers
from forkwheel.release.inputs import Inputs
from forkwheel.release.kernels_subject import RECORD, CarriedKernels
from forkwheel.release.manifest import write_json
from forkwheel.release.reproduced import Reproduced
from forkwheel.sources import patched_tree
from forkwheel.tree import sha256_file
from forkwheel.wheels.environment import build_environment
from forkwheel.wheels.record import open_wheel

_CHANGED = "the wheel was changed after it was built: do not use it"


@dataclass(frozen=True)
class _Rebuilt:
    """A wheel compiled again, with what it takes to pack others' objects in the same way."""

    made: KernelWheel
    kernels: Kernels
    lock: Inputs
    tree: Path
    context: FetchContext
    epoch: int


def reproduce_kernels(
    carried: CarriedKernels, *, context: FetchContext, console: Console, kind: str | None, dest: Path
) -> Reproduced:
    """Compile a wheel's modules again into the new folder ``dest``, and compare.

    Raise VerificationError where it was compiled from other inputs than it records, or cannot
    be compiled here.
    """
    _check_possible(carried)
    mine = replace(context, log=console.bind(f"{carried.package.name} kernels"))
    with patched_tree(carried.package, context=mine, kind=kind) as patched:
        tree = write_generated(patched.tree, carried.package, version=carried.version)
        made = make_kernel_wheel(
            tree.root,
            recipe=carried.recipe,
            version=carried.version,
            epoch=carried.package.epoch,
            options=kernel_options(carried.record, recipe_folder=carried.recipe.folder),
            store=context.store,
            log=mine.log,
            dest=dest,
        )
        _check_parts(carried, made.build.parts)
        kernels, lock = load_kernels(kernels_file(carried.recipe.folder)), load_toolchain_lock(carried.recipe.folder)
        rebuilt = _Rebuilt(made, kernels, lock, tree.root, mine, carried.package.epoch)
        return _compared(carried, rebuilt, dest)


def _check_possible(carried: CarriedKernels) -> None:
    """Refuse, before anything is compiled, what cannot give the same kernels."""
    name, parts = carried.wheel.name, carried.record["parts"]
    if carried.record["fast"]:
        raise VerificationError(
            f"{name} is a fast build, which gives other bytes each time", hint="compile it without --fast"
        )
    if parts.get("machine") != platform.machine():
        raise VerificationError(
            f"{name} was compiled on {parts.get('machine', '-')}, and this machine is {platform.machine()}",
            hint="compile it again on a machine of that kind",
        )
    lock = load_toolchain_lock(carried.recipe.folder)
    toolkit = str(parts.get("toolkit", "-"))
    if toolkit.split()[0] not in KINDS:
        raise VerificationError(f"{name} records the toolkit {toolkit!r}, which is none", hint=_CHANGED)
    locked = {"specification": lock.digest("specification")}
    if toolkit.split()[0] == LOCKED:
        locked["toolkit"] = " ".join([*toolkit.split()[:2], lock.digest("toolkit")])
    _check_parts(carried, tuple((part, locked.get(part, value)) for part, value in parts.items()))


def _check_parts(carried: CarriedKernels, parts: Sequence[tuple[str, str]]) -> None:
    changes = Key(tuple(parts)).changes(carried.record["parts"])
    if changes:
        listed = "; ".join(f"{name} is {mine}, it records {other}" for name, mine, other in changes)
        raise VerificationError(
            f"{carried.wheel.name} was compiled from other inputs than its set carries: {listed}", hint=_CHANGED
        )


def kernel_options(record: Mapping[str, Any], *, recipe_folder: Path) -> KernelOptions:
    """Return the choices with which a wheel was compiled, as it records them; every unit is compiled anew."""
    known = [name for name, _ in load_kernels(kernels_file(recipe_folder)).modules]
    modules = [module["name"] for module in record["modules"]]
    return KernelOptions(
        toolkit=record["parts"]["toolkit"].split()[0],
        targets=" ".join(record["targets"]),
        modules=() if modules == known else tuple(modules),
        fresh=True,
    )


def _compared(carried: CarriedKernels, rebuilt: _Rebuilt, dest: Path) -> Reproduced:
    made = rebuilt.made.wheel
    result = Reproduced(carried.wheel, sha256_file(carried.wheel), made.sha256, made.path, ())
    if result.expected == result.rebuilt:
        return result
    differences = compare_wheels(carried.wheel, made.path)
    mine = _modules(made.path, rebuilt, dest / "mine")
    theirs = _modules(carried.wheel, rebuilt, dest / "theirs")
    if len(theirs) < len(mine):
        return replace(result, differences=differences)
    others = tuple(one.name for one, other in zip(mine, theirs, strict=True) if one.device != other.device)
    if others:
        said = Difference("device code", ", ".join(others), "it is not what the sources give")
        return replace(result, differences=(said, *differences))
    again = _packed_with(theirs, rebuilt, dest / "packed")
    if left := compare_wheels(carried.wheel, again):
        return replace(result, differences=left)
    return _host_code_apart(result, mine, theirs)


def _modules(wheel: Path, rebuilt: _Rebuilt, folder: Path) -> tuple[BuiltModule, ...]:
    """Return the modules in a wheel as if they had been built here, measured; those that it lacks are left out."""
    tools = reading_tools(rebuilt.lock, store=rebuilt.context.store, log=rebuilt.context.log)
    found = []
    with open_wheel(wheel) as archive:
        for module in rebuilt.made.build.modules:
            name = f"{rebuilt.kernels.wheel.objects}/{module.name}/{module.name}.so"
            if name not in archive.namelist():
                continue
            path = folder / module.name / f"{module.name}.so"
            path.parent.mkdir(parents=True)
            path.write_bytes(archive.read(name))
            device = device_digests(path, tools=tools, folder=path.parent / "cubins")
            size = path.stat().st_size
            found.append(replace(module, path=path, sha256=sha256_file(path), size=size, device=device))
    return tuple(found)


def _packed_with(modules: tuple[BuiltModule, ...], rebuilt: _Rebuilt, dest: Path) -> Path:
    """Pack others' objects as this build's own are packed: all but the host code must then be equal."""
    build: KernelBuild = replace(rebuilt.made.build, modules=modules)
    log, store = rebuilt.context.log, rebuilt.context.store
    return pack_jit_cache(
        build,
        config=rebuilt.kernels.wheel,
        version=_version(rebuilt.made),
        epoch=rebuilt.epoch,
        tree=rebuilt.tree,
        tagging=build_environment(rebuilt.lock.of("tagging"), store=store, log=log),
        dest=dest,
        records={RECORD: write_json(kernels_document(build))},
    ).path


def _version(made: KernelWheel) -> str:
    return made.wheel.filename.split("-")[1]


def _host_code_apart(result: Reproduced, mine: Sequence[BuiltModule], theirs: Sequence[BuiltModule]) -> Reproduced:
    """Tell another host compiler, whose bytes nobody claims to be equal, from other host code by the same one."""
    ours, other = (_compilers(modules) for modules in (mine, theirs))
    if ours == other:
        names = ", ".join(one.name for one, two in zip(mine, theirs, strict=True) if one.sha256 != two.sha256)
        detail = (
            f"device code identical, but {', '.join(sorted(ours))} gave other host code here: another linker or C++ "
        )
        detail += "library made it, or it was changed"
        return replace(result, differences=(Difference("host code", names, detail),))
    hosts = [", ".join(sorted(one - two)) or "none other" for one, two in ((other, ours), (ours, other))]
    return replace(result, apart=host_code_differs(hosts))


def _compilers(modules: Sequence[BuiltModule]) -> frozenset[str]:
    return frozenset(name for module in modules for name in compilers(module.path.read_bytes()))


def compared_by_record(result: Reproduced, record: Mapping[str, Any], build: KernelBuild) -> Reproduced:
    """Compare a build with what a manifest says of a wheel that is not there: its hash, and its device code's."""
    if result.expected == result.rebuilt:
        return result
    said = {module["name"]: tuple(module["device"]) for module in record["modules"]}
    if said == {module.name: module.device for module in build.modules}:
        return replace(result, apart=host_code_differs(["not known", build.toolchain.host.label]))
    return replace(result, differences=(Difference("device code", "", "it is not what the manifest says"),))
