"""Compile units: the longest first, as many at once as cores and memory allow, each object kept as it is done."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from forkwheel.children import Children
from forkwheel.console import Log
from forkwheel.cuda.build_root import BuildRoot
from forkwheel.cuda.module import Unit
from forkwheel.errors import BuildError
from forkwheel.store import write_whole
from forkwheel.tree import sha256_file

_LAST_LINES = 20
_NOT_STARTED = 127
_WHOLE_TOOLKIT = "see that the toolkit is whole"
_OUT_OF_MEMORY = re.compile(
    r"died due to signal 9|terminated with signal 9|Killed signal|^Killed$|Cannot allocate memory|bad_alloc"
    r"|out of memory allocating|(?:catastrophic error|LLVM ERROR): out of memory|(?:virtual )?memory exhausted"
    r"|Memory allocation failure",
    re.MULTILINE,
)
_DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_FOREIGN_HOST = re.compile(r"unsupported GNU version|unsupported clang version")


@dataclass(frozen=True)
class Compiled:
    """A unit's object as it is kept, and the seconds that it took; 0 where an earlier run made it."""

    unit: Unit
    object: Path
    seconds: float


@dataclass
class _Bench:
    """What all compilations share, and their children, so that a failure of one ends the others."""

    root: BuildRoot
    environment: Mapping[str, str]
    prefix: Sequence[str]
    log: Log
    started: dict[str, float] = field(default_factory=dict)
    children: Children = field(default_factory=Children)

    def compile(self, unit: Unit, kept: Path) -> Compiled:
        """Compile a unit and keep its object; one that is kept already is left as it is."""
        if _is_kept(kept):
            self.log.info(f"{unit.name}: compiled before")
            return Compiled(unit, kept, 0.0)
        output = self.root.staged(unit.output)
        output.parent.mkdir(parents=True, exist_ok=True)
        begin = self.started[unit.name] = time.monotonic()
        try:
            self._run(unit)
        finally:
            self.started.pop(unit.name, None)
        seconds = time.monotonic() - begin
        _keep(unit, output, kept)
        self.log.info(f"{unit.name}: compiled in {seconds:.0f} s")
        return Compiled(unit, kept, seconds)

    def _run(self, unit: Unit) -> None:
        if self.children.ended:
            raise _StoppedError
        self.log.info(f"{unit.name}: compiling")
        try:
            result = self.root.run(
                [*self.prefix, *unit.command],
                environment=self.environment,
                errors=subprocess.STDOUT,
                children=self.children,
            )
        except KeyboardInterrupt as error:
            raise _StoppedError from error
        if result.returncode:
            self.children.end()
            raise failure(unit.name, unit.command, result.returncode, result.stdout)


class _StoppedError(Exception):
    """Another unit failed first."""


def longest_first(units: Sequence[Unit], order: Sequence[str]) -> list[Unit]:
    """Sort units: those of ``order`` first, in its order, then the rest by name."""
    ranks = {name: rank for rank, name in enumerate(order)}
    return sorted(units, key=lambda unit: (ranks.get(unit.name, len(ranks)), unit.name))


def compile_units(
    units: Sequence[Unit],
    *,
    root: BuildRoot,
    kept: Callable[[Unit], Path],
    environment: Mapping[str, str],
    prefix: Sequence[str] = (),
    jobs: int,
    log: Log,
) -> tuple[Compiled, ...]:
    """Compile ``units`` in their order and return the objects in the same order.

    ``kept`` says where the object of a unit is kept; one that is there is not compiled again.
    ``prefix`` goes before every command (a compile cache). Raise BuildError for the first
    unit that fails, after the others were ended.
    """
    bench = _Bench(root, environment, prefix, log)
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        futures = [pool.submit(bench.compile, unit, kept(unit)) for unit in units]
        try:
            _wait(futures, bench.started, log)
        except BaseException:
            bench.children.end()
            raise
    return tuple(future.result() for future in futures)


def _wait(futures: Sequence[Future[Compiled]], started: Mapping[str, float], log: Log) -> None:
    """Wait until all are done or one failed, telling every second what runs and for how long."""
    left: set[Future[Compiled]] = set(futures)
    while left:
        done, left = wait(left, timeout=1, return_when=FIRST_EXCEPTION)
        _raise_first([future for future in done if future.exception() is not None])
        now = time.monotonic()
        log.progress(", ".join(f"{name} {now - since:.0f} s" for name, since in sorted(dict(started).items())))


def _raise_first(failed: Sequence[Future[Compiled]]) -> None:
    """Raise the first failure that is not the consequence of another."""
    errors = [error for future in failed if (error := future.exception()) is not None]
    for error in errors:
        if not isinstance(error, _StoppedError):
            raise error


def _keep(unit: Unit, output: Path, kept: Path) -> None:
    """Move an object to where it is kept, then write its digest, without which it is not taken for one."""
    if not output.is_file():
        raise BuildError(f"{unit.name}: the compiler left no {output.name} and no error", hint=_WHOLE_TOOLKIT)
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(output, kept)
        write_whole(_digest_file(kept), sha256_file(kept).encode())
    except OSError as error:
        with suppress(OSError):
            kept.unlink(missing_ok=True)
        reason = error.strerror or error
        raise BuildError(
            f"{unit.name}: its object cannot be kept in {kept.parent}: {reason}", hint="see that the disk has room"
        ) from error


def _is_kept(kept: Path) -> bool:
    """Tell whether an object was kept whole; one that a crash or the disk damaged is compiled again."""
    digest = _digest_file(kept)
    return kept.is_file() and digest.is_file() and sha256_file(kept).encode() == digest.read_bytes()


def _digest_file(kept: Path) -> Path:
    return kept.with_name(f"{kept.name}.sha256")


def failure(name: str, command: Sequence[str], code: int, said: str) -> BuildError:
    """Explain why a compiler failed: the unit, the command, its last lines, and what to do."""
    lines = [line for line in said.splitlines() if line.strip()][-_LAST_LINES:]
    text = "\n".join([f"  {line}" for line in lines] or ["  it said nothing"])
    killed = code in (-signal.SIGKILL, 128 + signal.SIGKILL) or _OUT_OF_MEMORY.search(said)
    reason, hint = f"its compiler failed with exit code {code}", "see the compiler's message"
    if _DISK_FULL.search(said):
        reason, hint = "the disk is full", "make room where FORKWHEEL_CACHE is; units that are done are kept"
    elif killed:
        reason = "its compiler ran out of memory, or was killed"
        hint = "set MAX_JOBS=1, or use a machine with more memory; units that are done are kept"
    elif code == _NOT_STARTED:
        reason, hint = "its compiler cannot be run", _WHOLE_TOOLKIT
    elif code < 0:
        reason = f"its compiler was ended by signal {-code} ({signal.strsignal(-code)})"
        hint = f"{_WHOLE_TOOLKIT}, and that the machine has memory to spare"
    elif _FOREIGN_HOST.search(said):
        reason, hint = "nvcc does not work with this host compiler", "set CXX to an older g++, such as g++-12"
    return BuildError(f"{name}: {reason}\n  {' '.join(command)}\n{text}", hint=hint)
