"""Compile a recipe's modules ahead of time, from the patched tree to shared objects."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from forkwheel.console import Log, plural
from forkwheel.cuda.build_root import BuildRoot, build_root
from forkwheel.cuda.built_module import BuiltModule, hand_out, read_slot, write_slot
from forkwheel.cuda.compilation import Compiled, compile_units, failure, longest_first
from forkwheel.cuda.compile_cache import CacheUse, CompileCache, account
from forkwheel.cuda.cubins import ReadingTools, device_digests
from forkwheel.cuda.jobs import free_memory, jobs_allowed
from forkwheel.cuda.kernel_config import Kernels
from forkwheel.cuda.module import Module, Unit, recorded, with_option
from forkwheel.cuda.specification import compile_environment, evaluate, stage_inputs
from forkwheel.cuda.splitting import check_names, check_splits, split_units
from forkwheel.cuda.targets import Target
from forkwheel.cuda.toolchain import Toolchain
from forkwheel.errors import UsageError
from forkwheel.release.inputs import Inputs
from forkwheel.store import Store
from forkwheel.tree import digest_of, read_entry, sha256_file, walk
from forkwheel.wheels.environment import build_environment

KERNEL_FORMAT = 1
"""Raised when, and only when, the same inputs give other objects."""

_STATS = "compile-cache.log"


@dataclass(frozen=True)
class KernelBuild:
    """The modules of one build, and what made them.

    ``parts`` name all inputs but the host's compiler, which decides no device code; ``seconds``
    maps the units that this run compiled to the time they took.
    """

    modules: tuple[BuiltModule, ...]
    targets: tuple[Target, ...]
    toolchain: Toolchain
    parts: tuple[tuple[str, str], ...]
    fast: bool
    reused: bool
    seconds: tuple[tuple[str, float], ...]
    cache_use: CacheUse | None

    @property
    def key(self) -> str:
        """Name the device code: the SHA-256 (hex) over the parts."""
        return sha256(json.dumps(self.parts).encode()).hexdigest()


@dataclass(frozen=True)
class KernelShop:
    """What every step of a build shares."""

    kernels: Kernels
    toolchain: Toolchain
    lock: Inputs
    store: Store
    log: Log
    environment: Mapping[str, str]
    offline: bool = False


def build_kernels(
    tree: Path,
    *,
    shop: KernelShop,
    targets: Sequence[Target],
    dest: Path,
    modules: Sequence[str] | None = None,
    cache: CompileCache | None = None,
    fast: bool = False,
    fresh: bool = False,
) -> KernelBuild:
    """Compile modules of the patched ``tree`` for ``targets`` into ``dest/MODULE/MODULE.so``.

    Objects are kept as they are done, so that an interrupted build goes on where it was; what
    was built before is not built again, unless ``fresh``. ``fast`` lets nvcc split its work over
    all cores, which gives other bytes each time: such a build is for development alone.
    Raise ToolchainError for an unfit compiler, BuildError for a unit that does not compile.
    """
    shop.toolchain.check_targets(targets)
    names = _known(shop.kernels, modules)
    log = shop.log
    python = build_environment(shop.lock.of("specification"), store=shop.store, log=log, offline=shop.offline)
    with build_root(shop.store, waiting=lambda: log.info("waiting for another build in the same place")) as root:
        with log.stage("specification"):
            stage_inputs(root, tree=tree, kernels=shop.kernels, toolchain=shop.toolchain, python=python)
            found = evaluate(
                root, kernels=shop.kernels, modules=names, targets=targets, toolchain=shop.toolchain, python=python
            )
        if modules is None:
            check_splits(shop.kernels.splits, found, file=shop.kernels.file)
        found = tuple(split_units(root, module, shop.kernels.splits, shop.kernels.preludes) for module in found)
        if modules is None:
            check_names(shop.kernels, found)
        if fast:
            found = tuple(with_option(module, "--split-compile=0") for module in found)
        parts = _parts(root, found, shop=shop, targets=targets, fast=fast)
        slot = shop.store.path("kernels", _slot_name(parts, shop.toolchain))
        with shop.store.lock(f"kernels-{slot.name}", waiting=lambda: log.info("waiting for another build of the same")):
            work = _Work(shop, root, targets, cache, slot, fresh)
            return work.build(found, parts=parts, dest=dest, fast=fast)


@dataclass(frozen=True)
class _Work:
    """One build in its root."""

    shop: KernelShop
    root: BuildRoot
    targets: Sequence[Target]
    cache: CompileCache | None
    slot: Path
    fresh: bool

    def build(
        self, modules: Sequence[Module], *, parts: tuple[tuple[str, str], ...], dest: Path, fast: bool
    ) -> KernelBuild:
        built = None if self.fresh else read_slot(self.slot, store=self.shop.store, log=self.shop.log)
        seconds: dict[str, float] = {}
        reused = built is not None
        if built is None:
            with self.shop.store.temporary() as temporary:
                compiled = self._compile(modules, keep=temporary / "objects" if self.fresh else self._objects)
                seconds = {item.unit.name: item.seconds for item in compiled if item.seconds}
                made = temporary / "made"
                built = self._link_all(modules, compiled, made)
                write_slot(made, built)
                built = hand_out(built, dest)
                if not self.fresh:
                    self.shop.store.publish(made, self.slot)
        else:
            self.shop.log.info("the kernels of this key were built before")
            built = hand_out(built, dest)
        if not self.fresh:  # linked, so that its single objects serve no more; a kill may have left them
            self.shop.store.discard(self._objects)
        use = account(self.cache, self.root.stage / _STATS) if self.cache else None
        return KernelBuild(
            modules=built,
            targets=tuple(self.targets),
            toolchain=self.shop.toolchain,
            parts=parts,
            fast=fast,
            reused=reused,
            seconds=tuple(seconds.items()),
            cache_use=use,
        )

    @property
    def _objects(self) -> Path:
        return self.shop.store.path("objects", self.slot.name)

    def _compile(self, modules: Sequence[Module], *, keep: Path) -> tuple[Compiled, ...]:
        units = [unit for module in modules for unit in module.units]
        config = self.shop.kernels
        jobs = jobs_allowed(self.shop.environment, memory=config.memory, free=free_memory())
        environment = compile_environment(self.shop.toolchain)
        if self.cache:
            environment |= dict(self.cache.environment)
            environment["CCACHE_STATSLOG"] = str(self.root.visible(_STATS))

        def kept(unit: Unit) -> Path:
            return keep / Path(unit.output).parent.name / Path(unit.output).name

        with self.shop.log.stage("compile"):
            self.shop.log.info(f"{plural(len(units), 'unit')}, {jobs.count} at once ({jobs.limit})")
            return compile_units(
                longest_first(units, config.longest_first),
                root=self.root,
                kept=kept,
                environment=environment,
                prefix=self.cache.prefix if self.cache else (),
                jobs=jobs.count,
                log=self.shop.log,
            )

    def _link_all(self, modules: Sequence[Module], compiled: Sequence[Compiled], made: Path) -> tuple[BuiltModule, ...]:
        tools = reading_tools(self.shop.lock, store=self.shop.store, log=self.shop.log, offline=self.shop.offline)
        objects = {item.unit.output: item.object for item in compiled}
        with self.shop.log.stage("link"):
            return tuple(self._link(module, objects, made, tools) for module in modules)

    def _link(self, module: Module, objects: Mapping[str, Path], made: Path, tools: ReadingTools) -> BuiltModule:
        for unit in module.units:
            staged = self.root.staged(unit.output)
            staged.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(objects[unit.output], staged)
        environment = compile_environment(self.shop.toolchain)
        result = self.root.run(module.link, environment=environment, errors=subprocess.STDOUT)
        if result.returncode:
            raise failure(module.name, module.link, result.returncode, result.stdout)
        path = made / module.name / f"{module.name}.so"
        path.parent.mkdir(parents=True)
        shutil.move(self.root.staged(module.output), path)
        path.chmod(0o755)
        with self.shop.store.temporary() as temporary:
            device = device_digests(path, tools=tools, folder=temporary / "cubins")
        toolchain = self.shop.toolchain
        return BuiltModule(
            name=module.name,
            path=path,
            sha256=sha256_file(path),
            size=path.stat().st_size,
            device=device,
            units=tuple((unit.name, recorded(unit.command, toolchain=toolchain)) for unit in module.units),
            link=recorded(module.link, toolchain=toolchain),
        )


def reading_tools(lock: Inputs, *, store: Store, log: Log, offline: bool = False) -> ReadingTools:
    """Return the locked programs that read device code."""
    return ReadingTools.of(build_environment(lock.of("reading"), store=store, log=log, offline=offline))


def _known(kernels: Kernels, modules: Sequence[str] | None) -> tuple[str, ...]:
    known = tuple(name for name, _ in kernels.modules)
    for name in modules or ():
        if name not in known:
            raise UsageError(f"{kernels.file} has no module {name!r}", hint=f"its modules are: {', '.join(known)}")
    return tuple(modules) if modules else known


def _parts(
    root: BuildRoot, modules: Sequence[Module], *, shop: KernelShop, targets: Sequence[Target], fast: bool
) -> tuple[tuple[str, str], ...]:
    tree = root.stage / "tree"
    compiled = [path for _, path in shop.kernels.links]
    names = [name for name in walk(tree) if any(name == path or name.startswith(f"{path}/") for path in compiled)]
    generated = root.stage / "generated"
    commands = [recorded(unit.command, toolchain=shop.toolchain) for module in modules for unit in module.units]
    commands += [recorded(module.link, toolchain=shop.toolchain) for module in modules]
    parts = {
        "format": str(KERNEL_FORMAT),
        "machine": platform.machine(),
        "targets": " ".join(target.name for target in targets),
        "sources": digest_of(read_entry(tree / name, name) for name in names),
        "generated": digest_of(read_entry(generated / name, name) for name in walk(generated)),
        "commands": sha256("\n".join(commands).encode()).hexdigest(),
        "toolkit": f"{shop.toolchain.kind} {shop.toolchain.nvcc_version} {shop.toolchain.digest}",
        "specification": shop.lock.digest("specification"),
        "fast": str(fast).lower(),
    }
    return tuple(sorted(parts.items()))


def _slot_name(parts: tuple[tuple[str, str], ...], toolchain: Toolchain) -> str:
    return sha256(json.dumps([parts, toolchain.host.label]).encode()).hexdigest()
