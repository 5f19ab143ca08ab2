"""What a rank's process runs: one worker, one case after the other, each reported as it ends.

Started by ``ranks.py`` in the environment under test, which need not hold forkwheel: of this
package only modules that need nothing but Python (and what the worker itself imports) are used.
Reports are JSON lines on a pipe of their own, so that nothing a library prints can disturb them.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib.util
import json
import os
import signal
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

STACK_SIGNAL = signal.SIGUSR1
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Rank:
    """One process of a group: its number, the group's size, its GPU, and the run's settings.

    ``meeting`` is a file that does not exist yet, for the ranks to find each other by.
    """

    rank: int
    world_size: int
    device: int
    meeting: Path
    settings: dict[str, Any]


class Worker(Protocol):
    """What a worker module's ``start(rank)`` returns."""

    def run(self, case: dict[str, Any]) -> dict[str, Any]:
        """Run one case and return what is to be reported; raise on anything that breaks the rank."""

    def close(self) -> None:
        """Release what the worker holds."""


def load_module(path: Path) -> ModuleType:
    """Import a Python file that is in no package."""
    spec = importlib.util.spec_from_file_location(f"forkwheel_worker_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def main(arguments: list[str]) -> None:
    """Run the cases of the job file ``arguments[0]`` as rank ``arguments[1]``; reports go to ``arguments[2]``."""
    _die_with_parent()
    job = json.loads(Path(arguments[0]).read_text())
    number, pipe = int(arguments[1]), int(arguments[2])
    with Path(job["stacks"].format(rank=number)).open("w") as stacks:
        faulthandler.register(STACK_SIGNAL, file=stacks, all_threads=True)
        faulthandler.enable(file=stacks)
        code = _work(job, number, pipe)
        faulthandler.disable()
        faulthandler.unregister(STACK_SIGNAL)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # after a CUDA error the ordinary way out can hang


def _die_with_parent() -> None:
    """Let the kernel end this process when the watchdog is killed: it would keep a GPU busy for ever."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _work(job: dict[str, Any], number: int, pipe: int) -> int:
    def report(event: str, **fields: Any) -> None:
        os.write(pipe, (json.dumps({"event": event, **fields}) + "\n").encode())

    rank = Rank(number, job["world_size"], job["devices"][number], Path(job["meeting"]), job["settings"])
    try:
        worker: Worker = load_module(Path(job["worker"])).start(rank)
        report("ready")
        for index, case in job["cases"]:
            report("begin", case=index)
            report("end", case=index, result=worker.run(case))
        report("closing")
        worker.close()
        report("done")
    except BaseException as error:
        traceback.print_exc()
        report("error", error=f"{type(error).__name__}: {error}"[:2000])
        return 1
    return 0
