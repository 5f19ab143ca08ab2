"""No program that forkwheel runs outlives its limit, an interruption or forkwheel itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support import is_running

from forkwheel.children import Children
from forkwheel.cuda.build_root import build_root
from forkwheel.store import Store

STARTS_ANOTHER = "sleep 600 & echo $! > {note}.new; mv {note}.new {note}; wait"

# A command of forkwheel that waits for a program in another thread, as a build of several wheels does.
WAITS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from forkwheel import cli
from forkwheel.children import CHILDREN

script = sys.argv.pop()

def wait(options, console):
    with ThreadPoolExecutor() as pool:
        return pool.submit(CHILDREN.run, ["sh", "-c", script]).result().returncode

sys.modules["waiting"] = SimpleNamespace(register=lambda commands: commands.add("wait", help="").set_defaults(run=wait))
cli._COMMANDS["wait"] = "waiting"
sys.argv[1:] = ["wait"]
cli.main()
"""


@pytest.fixture(autouse=True)
def _signals_are_heard() -> Iterator[None]:
    """A test run in the background, or under nohup, ignores signals, and what it starts would too."""
    heard = {signal.SIGHUP: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
    before = {number: signal.signal(number, handler) for number, handler in heard.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def until(holds: Callable[[], bool], *, seconds: float = 15) -> bool:
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    return holds()


def started(note: Path) -> int:
    """Return the id of what the program under test started, once it did."""
    assert until(note.exists)
    return int(note.read_text())


def test_a_program_returns_what_it_printed_and_its_code(tmp_path: Path) -> None:
    script = "echo out; pwd; echo $KEY; umask; printf '\\377' >&2; exit 3"
    done = Children().run(["sh", "-c", script], folder=tmp_path, environment={"KEY": "value"}, umask=0o027)

    assert done.stdout == f"out\n{tmp_path}\nvalue\n0027\n"
    assert (done.stderr, done.returncode) == ("\N{REPLACEMENT CHARACTER}", 3)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_program_that_a_signal_ended_is_told_from_one_that_failed(number: int) -> None:
    assert Children().run(["sh", "-c", f"kill -{int(number)} $$"]).returncode == -number


def test_the_code_of_a_program_is_told_whenever_it_ends() -> None:
    """The guard looks after its parent ten times a second."""
    commands = [["sh", "-c", f"sleep 0.{number}; exit 3"] for number in range(10, 90)]

    with ThreadPoolExecutor(16) as pool:
        codes = {done.returncode for done in pool.map(Children().run, commands)}

    assert codes == {3}


def test_a_program_that_is_missing_says_so() -> None:
    done = Children().run(["/nowhere/nvcc"])

    assert (done.returncode, done.stderr) == (127, "/nowhere/nvcc cannot be run: No such file or directory\n")


def test_a_broken_pipe_ends_a_program_as_it_does_in_a_shell() -> None:
    """Python ignores that signal, and its children would too."""
    assert Children().run(["sh", "-c", "yes | head -n 1; kill -PIPE $$"]).returncode == -signal.SIGPIPE


def test_a_program_that_does_not_end_is_ended_with_what_it_started(tmp_path: Path) -> None:
    note = tmp_path / "pid"

    with pytest.raises(subprocess.TimeoutExpired):
        Children().run(["sh", "-c", STARTS_ANOTHER.format(note=note)], seconds=0.5)

    assert until(lambda: not is_running(started(note)))


def test_after_the_end_nothing_begins() -> None:
    children = Children()
    children.end()

    with pytest.raises(KeyboardInterrupt):
        children.run(["sleep", "600"])


def waiting(note: Path, *, ignored: str = "") -> subprocess.Popen[str]:
    """Start a forkwheel that waits for a program, which in turn started another."""
    shell = f"trap '' {ignored}; exec \"$@\"" if ignored else 'exec "$@"'
    command = [sys.executable, "-c", WAITS, STARTS_ANOTHER.format(note=note)]
    return subprocess.Popen(["sh", "-c", shell, "sh", *command], stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_with_all_that_it_started(tmp_path: Path, number: signal.Signals) -> None:
    run = waiting(tmp_path / "pid")
    child = started(tmp_path / "pid")

    run.send_signal(number)
    _, said = run.communicate(timeout=15)

    assert (run.returncode, said) == (130, "interrupted; run the same command again to go on\n")
    assert until(lambda: not is_running(child))


def test_a_run_that_was_told_to_outlive_its_terminal_does(tmp_path: Path) -> None:
    """What nohup does."""
    run = waiting(tmp_path / "pid", ignored="HUP")
    child = started(tmp_path / "pid")

    run.send_signal(signal.SIGHUP)
    time.sleep(0.5)

    assert run.poll() is None
    assert is_running(child)
    run.terminate()
    run.communicate(timeout=15)


def test_what_a_killed_run_started_ends_too(tmp_path: Path) -> None:
    run = waiting(tmp_path / "pid")
    child = started(tmp_path / "pid")

    run.kill()
    run.communicate(timeout=15)

    assert until(lambda: not is_running(child))


COMPILES = """
import os, sys
from pathlib import Path
from forkwheel.cuda.build_root import build_root
from forkwheel.store import Store

place, script = sys.argv[1:]
with build_root(Store(Path(place, "cache")), root=Path(place, "fixed"), namespaces={namespaces}) as root:
    root.run(["sh", "-c", script], environment=os.environ)
"""


@pytest.mark.parametrize("namespaces", [True, False])
def test_what_compiles_for_a_killed_run_ends_too(tmp_path: Path, namespaces: bool) -> None:
    program = COMPILES.format(namespaces=namespaces)
    script = STARTS_ANOTHER.format(note=tmp_path / "pid")
    run = subprocess.Popen([sys.executable, "-c", program, str(tmp_path), script])
    child = started(tmp_path / "pid")

    run.kill()
    run.wait()

    assert until(lambda: not is_running(child))
    with build_root(Store(tmp_path / "cache"), root=tmp_path / "fixed", namespaces=namespaces):
        pass


def test_a_closed_terminal_ends_the_run_with_all_that_it_started(tmp_path: Path) -> None:
    controller, terminal = os.openpty()
    command = [sys.executable, "-c", WAITS, STARTS_ANOTHER.format(note=tmp_path / "pid")]
    program = (
        "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", program, *command],
        stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
    )  # fmt: skip
    os.close(terminal)
    child = started(tmp_path / "pid")

    os.close(controller)

    assert run.wait(15) == 130
    assert until(lambda: not is_running(child))
