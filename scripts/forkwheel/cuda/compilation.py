"""Compile units: the longest first, as many at once as cores and memory allow, each object kept as it is done."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from forkwheel.console import Log
from forkwheel.cuda.build_root import BuildRoot
from forkwheel.cuda.specification import Unit
from forkwheel.errors import BuildError

_LAST_LINES = 20
_OUT_OF_MEMORY = ("(Kill signal)", "died due to signal 9", "Killed", "out of memory", "Cannot allocate memory")
_DISK_FULL = ("No space left on device", "Disk quota exceeded")


@dataclass(frozen=True)
class Compiled:
    """A unit's object as it is kept, and the seconds that it took; 0 where an earlier run made it."""

    unit: Unit
    object: Path
    seconds: float


@dataclass
class _Bench:
    """What all compilations share, and their processes, so that a failure of one ends the others."""

    root: BuildRoot
    environment: Mapping[str, str]
    prefix: Sequence[str]
    log: Log
    started: dict[str, float] = field(default_factory=dict)
    processes: set[subprocess.Popen[str]] = field(default_factory=set)
    stopped: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def compile(self, unit: Unit, kept: Path) -> Compiled:
        """Compile a unit and keep its object; one that is kept already is left as it is."""
        if kept.is_file():
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
        _keep(output, kept)
        self.log.info(f"{unit.name}: compiled in {seconds:.0f} s")
        return Compiled(unit, kept, seconds)

    def _run(self, unit: Unit) -> None:
        self._check()
        self.log.info(f"{unit.name}: compiling")
        command = [*self.prefix, *unit.command]
        try:
            with self._process(command) as process:
                said, _ = process.communicate()
        except OSError as error:
            raise BuildError(
                f"{unit.name}: {command[0]} cannot be run: {error.strerror}", hint="see that the toolkit is whole"
            ) from error
        if process.returncode:
            self._check()
            self.stop()
            raise failure(unit.name, unit.command, process.returncode, said)

    @contextmanager
    def _process(self, command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
        with self.lock:
            self._check()
            process = subprocess.Popen(
                self.root.command(command),
                cwd=self.root.stage,
                pass_fds=self.root.descriptors,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=dict(self.environment),
                start_new_session=True,
            )
            self.processes.add(process)
        try:
            yield process
        finally:
            with self.lock:
                self.processes.discard(process)

    def _check(self) -> None:
        if self.stopped:
            raise _StoppedError

    def stop(self) -> None:
        """End what runs, and let nothing new begin."""
        with self.lock:
            self.stopped = True
            for process in self.processes:
                _kill_group(process)


class _StoppedError(Exception):
    """Another unit failed first."""


def _kill_group(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def jobs_allowed(environment: Mapping[str, str], *, memory: int) -> int:
    """Return how many compilations may run at once: ``MAX_JOBS``, else what cores and free memory allow.

    ``memory`` is what one of them takes, in MiB.
    """
    named = environment.get("MAX_JOBS", "")
    if named.isdigit() and int(named) > 0:
        return int(named)
    cores = len(os.sched_getaffinity(0))
    free = _free_memory()
    return max(1, cores if free is None else min(cores, free // memory))


def _free_memory() -> int | None:
    """Return the memory that can be had without swapping, in MiB, of the machine and of our control group."""
    found = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        found += [int(line.split()[1]) // 1024 for line in lines if line.startswith("MemAvailable:")]
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
        found += [(int(limit) - used) >> 20] if limit.isdigit() else []
    except (OSError, ValueError):
        pass
    return max(0, min(found)) if found else None


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
            bench.stop()
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


def _keep(output: Path, kept: Path) -> None:
    """Move an object to where it is kept, whole or not at all."""
    if not output.is_file():
        raise BuildError(f"the compiler left no {output.name} and no error", hint="see that the toolkit is whole")
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_name(f".{kept.name}.partial")
        shutil.move(output, partial)
        partial.replace(kept)
    except OSError as error:
        raise BuildError(
            f"the object {kept.name} cannot be kept: {error.strerror}", hint="see that the disk of the cache has room"
        ) from error


def failure(name: str, command: Sequence[str], code: int, said: str) -> BuildError:
    """Explain why a compiler failed: the unit, the command, its last lines, and what to do."""
    lines = [line for line in said.splitlines() if line.strip()][-_LAST_LINES:]
    text = "\n".join([f"  {line}" for line in lines] or ["  it said nothing"])
    killed = code in (-signal.SIGKILL, 128 + signal.SIGKILL) or any(sign in said for sign in _OUT_OF_MEMORY)
    if any(sign in said for sign in _DISK_FULL):
        reason, hint = "the disk is full", "make room where FORKWHEEL_CACHE is; units that are done are kept"
    elif killed:
        reason, hint = (
            "its compiler was killed, probably for memory",
            "set MAX_JOBS=1, or use a machine with more memory",
        )
    else:
        reason, hint = f"its compiler failed with exit code {code}", "see the compiler's message"
    return BuildError(f"{name}: {reason}\n  {' '.join(command)}\n{text}", hint=hint)
