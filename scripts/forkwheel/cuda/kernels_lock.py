"""The kernels' lock: what each revision's modules were, for every host compiler that built them.

Device code is decided by the locked toolkit alone, the rest of an object by the host's
compiler and linker too: bytes are claimed to be equal only under the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from forkwheel.canonical import toml_table
from forkwheel.cuda.kernels import KernelBuild
from forkwheel.errors import UsageError, VerificationError
from forkwheel.store import write_whole
from forkwheel.toml_file import Section, read_toml
from forkwheel.wheels.finish import Wheel

FORMAT = 1
FILENAME = "kernels.lock.toml"
_DIGEST = r"[0-9a-f]{64}"
_PLATFORM = re.compile(r"(?:(?:many|musl)linux_\d+_\d+|linux)_")
_HEADER = "# Written by `forkwheel kernels --lock`: the kernels of each revision, by host compiler.\n\n"


@dataclass(frozen=True)
class LockedModule:
    """A module's shared object and the device code in it, by SHA-256."""

    name: str
    sha256: str
    device: tuple[str, ...]


@dataclass(frozen=True)
class LockedKernels:
    """One build: its version and key, the host compiler, and what came out."""

    version: str
    key: str
    host: str
    filename: str
    sha256: str
    modules: tuple[LockedModule, ...]

    @property
    def device(self) -> dict[str, tuple[str, ...]]:
        """The device code of each module."""
        return {module.name: module.device for module in self.modules}

    @property
    def machine(self) -> str:
        """The processor architecture that the wheel is for, as its tag names it: ``x86_64``."""
        return _PLATFORM.sub("", self.filename.removesuffix(".whl").rpartition("-")[2])


@dataclass(frozen=True)
class KernelsLock:
    """All builds that are locked."""

    file: Path
    builds: tuple[LockedKernels, ...]

    def compared(self, build: LockedKernels) -> str:
        """Compare a build with those of the same version and key, and say in one line how they agree.

        Raise VerificationError where the same host compiler gave another wheel, or any of
        them other device code.
        """
        same = self._same(build)
        if not same:
            changed = ": its sources, its toolkit or kernels.toml changed since" if self._replaced(build) else ""
            return f"the kernels' lock does not know this build of {build.version}{changed}"
        for locked in same:
            if locked.device != build.device:
                raise VerificationError(
                    f"{build.filename}: {_difference(locked, build)}, which the lock has from {locked.host}",
                    hint="the build is not reproducible here: see `forkwheel census WHEEL --against OTHER`",
                )
        for locked in same:
            if locked.host == build.host and locked.modules != build.modules:
                raise VerificationError(
                    f"{build.filename}: device code identical, but {build.host} gave other host code than the lock "
                    f"has from the same: {_hosts_difference(locked, build)}",
                    hint="another build of that compiler, or of its C++ library, made the host code",
                )
            if locked.host == build.host and locked.sha256 != build.sha256:
                raise VerificationError(
                    f"{build.filename}: the objects are those of the lock, but the wheel has sha256 {build.sha256}, "
                    f"not {locked.sha256}",
                    hint="`wheel` in kernels.toml or the package's epoch changed: make a new revision",
                )
            if locked.host == build.host:
                return "equal to the kernels' lock"
        return host_code_differs([*sorted({locked.host for locked in same}), build.host])

    def knows(self, build: LockedKernels) -> bool:
        """Tell whether the lock has a build of the same version and key, from whatever host compiler."""
        return bool(self._same(build))

    def _same(self, build: LockedKernels) -> list[LockedKernels]:
        return [locked for locked in self.builds if (locked.version, locked.key) == (build.version, build.key)]

    def _replaced(self, build: LockedKernels) -> list[LockedKernels]:
        """Return the builds of the same version and machine that were made of other inputs."""
        place = (build.version, build.machine)
        return [other for other in self.builds if (other.version, other.machine) == place and other.key != build.key]

    def with_build(self, build: LockedKernels, *, released: bool = False) -> KernelsLock:
        """Return the lock with one build added.

        It replaces those of its version and machine that have its host or another key; raise
        UsageError where it would replace those of a version that was released.
        """
        if ".dev." in build.version:
            raise UsageError(
                f"{build.version} is a development build, which can't be locked",
                hint="run `nox -s lock -- --recipe RECIPE` first",
            )
        replaced = self._replaced(build)
        if replaced and released:
            raise UsageError(
                f"{build.version} is released, and its kernels are of other inputs than the lock's: their key is "
                f"{build.key[:12]}, not {replaced[0].key[:12]}",
                hint="undo the change, or make the next revision: raise `revision` in recipe.toml, then "
                "`nox -s lock -- --recipe RECIPE`",
            )
        again = (build.version, build.machine, build.host)
        others = [
            other
            for other in self.builds
            if other not in replaced and (other.version, other.machine, other.host) != again
        ]
        builds = sorted([*others, build], key=lambda item: (item.version, item.machine, item.host))
        return replace(self, builds=tuple(builds))

    def write(self) -> None:
        """Write the lock's file whole."""
        write_whole(self.file, self.text().encode())

    def text(self) -> str:
        """Return the lock as TOML."""
        return _HEADER + "\n".join([toml_table("", [("format", FORMAT)]).lstrip(), *map(_build_text, self.builds)])


def host_code_differs(hosts: Sequence[str]) -> str:
    """Say how builds of the same device code agree that ``hosts``, compilers, made."""
    return f"device code identical, host code differs: {' / '.join(hosts)}"


def _difference(locked: LockedKernels, build: LockedKernels) -> str:
    names = sorted(
        name for name in {*locked.device, *build.device} if locked.device.get(name) != build.device.get(name)
    )
    return f"the device code of {', '.join(names)} is not that"


def _hosts_difference(locked: LockedKernels, build: LockedKernels) -> str:
    found = {module.name: module.sha256 for module in build.modules}
    return ", ".join(
        f"{module.name}.so is {found[module.name]}, not {module.sha256}"
        for module in locked.modules
        if found[module.name] != module.sha256
    )


def locked_kernels(build: KernelBuild, wheel: Wheel, *, version: str) -> LockedKernels:
    """Return what the lock keeps of a build."""
    return LockedKernels(
        version=version,
        key=build.key,
        host=build.toolchain.host.label,
        filename=wheel.filename,
        sha256=wheel.sha256,
        modules=tuple(LockedModule(module.name, module.sha256, module.device) for module in build.modules),
    )


def load_kernels_lock(recipe_folder: Path) -> KernelsLock:
    """Read a recipe's lock; a missing file is an empty one. Raise RecipeError, with its line, on a fault."""
    file = recipe_folder / FILENAME
    if not file.exists():
        return KernelsLock(file, ())
    top = read_toml(file)
    number = top.integer("format", minimum=1)
    if number > FORMAT:
        top.fail(f"format {number} is newer than {FORMAT}", key="format", hint="use a newer forkwheel")
    builds = tuple(_build(section) for section in top.sections("build"))
    top.finish()
    return KernelsLock(file, builds)


def _build(section: Section) -> LockedKernels:
    build = LockedKernels(
        version=section.string("version"),
        key=section.string("key", pattern=_DIGEST, what="a SHA-256"),
        host=section.string("host"),
        filename=section.string("filename", pattern=r"[^/\\\s]+\.whl", what="a wheel's file name"),
        sha256=section.string("sha256", pattern=_DIGEST, what="a SHA-256"),
        modules=tuple(_module(child) for child in section.sections("module")),
    )
    section.finish()
    return build


def _module(section: Section) -> LockedModule:
    module = LockedModule(
        name=section.string("name"),
        sha256=section.string("sha256", pattern=_DIGEST, what="a SHA-256"),
        device=section.strings("device"),
    )
    section.finish()
    return module


def _build_text(build: LockedKernels) -> str:
    fields = [(name, getattr(build, name)) for name in ("version", "key", "host", "filename", "sha256")]
    modules = [
        toml_table("[[build.module]]", [("name", module.name), ("sha256", module.sha256), ("device", module.device)])
        for module in build.modules
    ]
    return "\n".join([toml_table("[[build]]", fields), *modules])
