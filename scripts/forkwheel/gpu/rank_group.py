"""One group of rank processes: started, listened to, asked for their stacks, ended."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forkwheel.gpu.job import Job
from forkwheel.gpu.rank_main import STACK_SIGNAL

_STACK_SECONDS = 3.0
_END_SECONDS = 20.0
_LOG_BYTES = 3000


class RankGroup:
    """The processes of one world. Only these are ever signalled or killed."""

    def __init__(self, job: Job, cases: list[tuple[int, dict[str, Any]]], folder: Path) -> None:
        self.size = len(job.devices)
        self._folder = folder
        self._ready: set[int] = set()
        self._done: set[int] = set()
        self._current: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._results: dict[int, dict[int, Mapping[str, Any]]] = {}
        self._errors: dict[int, str] = {}
        file = _write_job(job, cases, folder)
        self._pipes: dict[int, int] = {}
        self._buffers: dict[int, bytes] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._killed = False
        try:
            for rank in range(self.size):
                self._start(job, file, rank)
        except BaseException:
            self.kill()
            raise

    def _start(self, job: Job, file: Path, rank: int) -> None:
        reading, writing = os.pipe()
        with (self._folder / f"log-{rank}.txt").open("wb") as log:
            process = subprocess.Popen(
                [str(job.python), "-c", _bootstrap(), str(file), str(rank), str(writing)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(writing,),
                env=rank_environment(job.environment),
                cwd=self._folder,
                start_new_session=True,
            )
        os.close(writing)
        self._processes.append(process)
        self._pipes[rank], self._buffers[rank] = reading, b""

    def read(self, seconds: float) -> bool:
        """Take in what the ranks report within ``seconds``; tell whether there was anything."""
        by_pipe = {pipe: rank for rank, pipe in self._pipes.items()}
        if not by_pipe:
            time.sleep(min(seconds, 0.05))
            return False
        readable, _, _ = select.select(list(by_pipe), [], [], seconds)
        heard = False
        for pipe in readable:
            rank = by_pipe[pipe]
            data = os.read(pipe, 1 << 20)
            if not data:
                os.close(self._pipes.pop(rank))
                continue
            heard = True
            *lines, self._buffers[rank] = (self._buffers[rank] + data).split(b"\n")
            for line in lines:
                self._take(rank, json.loads(line))
        return heard

    def _take(self, rank: int, report: dict[str, Any]) -> None:
        event = report["event"]
        if event == "ready":
            self._ready.add(rank)
        elif event == "begin":
            self._current[rank] = report["case"]
        elif event == "end":
            self._current.pop(rank)
            self._last[rank] = report["case"]
            self._results.setdefault(report["case"], {})[rank] = report["result"]
        elif event == "done":
            self._done.add(rank)
        elif event == "error":
            self._errors[rank] = report["error"]

    def started(self) -> bool:
        """Tell whether all ranks are ready."""
        return len(self._ready) == self.size

    def ended(self) -> bool:
        """Tell whether all ranks have done all cases and their processes are gone."""
        return len(self._done) == self.size and all(process.poll() is not None for process in self._processes)

    def finished(self, case: int) -> bool:
        """Tell whether all ranks have finished a case."""
        return len(self._results.get(case, {})) == self.size

    def begun(self, case: int) -> bool:
        """Tell whether any rank has begun a case."""
        return case in self._current.values() or case in self._results

    def results(self, case: int) -> tuple[Mapping[str, Any] | None, ...]:
        """Return each rank's result of a case, None where it has none."""
        found = self._results.get(case, {})
        return tuple(found.get(rank) for rank in range(self.size))

    def last(self) -> tuple[int | None, ...]:
        """Return the case that each rank finished last."""
        return tuple(self._last.get(rank) for rank in range(self.size))

    def failure(self) -> tuple[int | None, str] | None:
        """Return the case and the error of the rank that failed first, or None while none has."""
        for rank, error in self._errors.items():
            return self._current.get(rank), f"rank {rank}: {error}"
        for rank, process in enumerate(self._processes):
            code = process.poll()
            if code is not None and rank not in self._done and rank not in self._pipes:
                return self._current.get(rank), f"rank {rank} ended with {_describe(code)}"
        return None

    def pid(self, rank: int) -> int:
        """Return a rank's process id."""
        return self._processes[rank].pid

    def states(self) -> tuple[str, ...]:
        """Return each process's state letter, as Linux shows it: T is stopped, D cannot be ended."""
        return tuple(_state(process.pid) for process in self._processes)

    def stacks(self) -> tuple[str, ...]:
        """Return each rank's Python stack; a stopped rank is continued so that it can give it."""
        for process in self._processes:
            if process.poll() is None:
                os.kill(process.pid, STACK_SIGNAL)
                os.kill(process.pid, signal.SIGCONT)
        files = [self._folder / f"stacks-{rank}.txt" for rank in range(self.size)]
        until = time.monotonic() + _STACK_SECONDS
        while time.monotonic() < until and not all(file.exists() and file.stat().st_size for file in files):
            time.sleep(0.05)
        time.sleep(0.1)
        return tuple(file.read_text(errors="replace") if file.exists() else "" for file in files)

    def log_tail(self) -> str:
        """Return the end of what each rank printed."""
        parts = []
        for rank in range(self.size):
            data = (self._folder / f"log-{rank}.txt").read_bytes()[-_LOG_BYTES:]
            parts.append(f"--- rank {rank}\n{data.decode(errors='replace').strip()}")
        return "\n".join(parts)

    def kill(self) -> tuple[int, ...]:
        """End these processes and their children, once; return the ids of those that will not go."""
        if self._killed:
            return ()
        self._killed = True
        for process in self._processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        stuck = []
        for process in self._processes:
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                stuck.append(process.pid)
        for pipe in self._pipes.values():
            os.close(pipe)
        self._pipes.clear()
        return tuple(stuck)


def _describe(code: int) -> str:
    if code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit code {code}"


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "?"


def _write_job(job: Job, cases: list[tuple[int, dict[str, Any]]], folder: Path) -> Path:
    folder.mkdir(parents=True)
    document = {
        "world_size": len(job.devices),
        "devices": job.devices,
        "worker": str(job.worker.absolute()),
        "settings": dict(job.settings),
        "cases": cases,
        "meeting": str(folder.absolute() / "meeting"),
        "stacks": str(folder.absolute() / "stacks-{rank}.txt"),
    }
    file = folder.absolute() / "job.json"
    file.write_text(json.dumps(document))
    return file


def rank_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return a rank's environment: the caller's without Python's own settings, and ``variables``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return kept | {"PYTHONUNBUFFERED": "1", "PYTHONNOUSERSITE": "1"} | dict(variables)


def _bootstrap() -> str:
    """Return the program that makes forkwheel's rank modules importable without installing them."""
    package = str(Path(__file__).resolve().parents[1])
    return (
        "import sys, types; package = types.ModuleType('forkwheel'); "
        f"package.__path__ = [{package!r}]; sys.modules['forkwheel'] = package; "
        "from forkwheel.gpu.rank_main import main; main(sys.argv[1:])"
    )
