"""Programs that this process runs, such as pip, a build backend or a compiler: none of them outlives it.

What may take long runs in a session of its own and is ended together with all that it started:
when its time is up, when the run is interrupted, and when this process is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

_GUARD = Path(__file__).with_name("guard.py")


def guarded(command: Sequence[str]) -> list[str]:
    """Return the command line that ends a command, if it leads a session of its own, with this process."""
    return [sys.executable, "-I", "-S", str(_GUARD), str(os.getpid()), *command]


def end_session(process: subprocess.Popen[Any]) -> None:
    """Kill a process that leads a session, and all that it started there."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class Children:
    """The programs that run at the same time, whichever thread waits for them."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[Any]] = set()
        self._ended = False

    def run(
        self,
        command: Sequence[str],
        *,
        folder: Path | str | None = None,
        environment: Mapping[str, str] | None = None,
        output: int | IO[bytes] = subprocess.PIPE,
        errors: int = subprocess.PIPE,
        descriptors: Sequence[int] = (),
        umask: int = -1,
        seconds: float | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; one that cannot be started returns 127. It inherits ``descriptors``.

        Raise TimeoutExpired after ``seconds``, and KeyboardInterrupt where all were ended.
        """
        with subprocess.Popen(
            guarded(command),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            text=True,
            errors="replace",
            pass_fds=tuple(descriptors),
            umask=umask,
            start_new_session=True,
        ) as process:
            try:
                with self.watched(process):
                    said, complained = process.communicate(timeout=seconds)
            except BaseException:
                end_session(process)
                raise
        return subprocess.CompletedProcess(command, process.returncode, said or "", complained or "")

    @contextmanager
    def watched(self, process: subprocess.Popen[Any]) -> Iterator[None]:
        """Have a process that leads a session ended with the others; raise KeyboardInterrupt where that happened."""
        self._running.add(process)
        try:
            self._check()
            yield
            self._check()
        finally:
            self._running.discard(process)

    def end(self) -> None:
        """End all that run, and let none begin any more. A signal handler may call this, so it takes no lock."""
        self._ended = True
        for process in list(self._running):
            end_session(process)

    @property
    def ended(self) -> bool:
        """Tell whether none can begin any more."""
        return self._ended

    def _check(self) -> None:
        if self._ended:
            raise KeyboardInterrupt


CHILDREN = Children()
"""Those of this process, which ends them on a signal."""
