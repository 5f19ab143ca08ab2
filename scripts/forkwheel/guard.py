"""Run a command, and end its session when the process that asked for it is gone: a script.

A process that is killed can't end its children itself. Arguments: the id of that process, and
the command. It imports nothing of forkwheel, so that it starts at once.
"""

from __future__ import annotations

import os
import resource
import signal
import sys

_SECONDS = 0.1


def main(parent: int, command: list[str]) -> int:
    """Return the command's exit code; become the command where the session is not this process's own."""
    if os.getsid(0) != os.getpid():
        _become(command)
    child = os.fork()
    if child == 0:
        _become(command)
    signal.signal(signal.SIGALRM, lambda *_: _end_without(parent))
    signal.setitimer(signal.ITIMER_REAL, _SECONDS, _SECONDS)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signal.setitimer(signal.ITIMER_REAL, 0)  # as Python ends, it lets go of the handler, and the signal would kill it
    if code < 0:
        _end_by(-code)
    return code


def _become(command: list[str]) -> None:
    for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored_by_python, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606 - there is no shell to start it with
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be run: {error.strerror}\n")
        sys.stderr.flush()
        os._exit(127)


def _end_without(parent: int) -> None:
    if os.getppid() != parent:
        os.killpg(0, signal.SIGKILL)


def _end_by(number: int) -> None:
    """End as the command did, but without a memory image of its own."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
