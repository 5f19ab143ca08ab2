"""The command line: parse arguments, run one command, turn errors into exit codes."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import sys
import termios
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from forkwheel import __version__
from forkwheel.children import CHILDREN
from forkwheel.console import Console
from forkwheel.errors import ForkwheelError, host_error
from forkwheel.hints import complete_hint

_BROKEN_PIPE = 141  # 128 + SIGPIPE, as a shell reports it
_INTERRUPTED = 130  # 128 + SIGINT
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# Each module has `register(commands)`: it adds its subcommands, and sets `run` on each to a
# function of the parsed arguments and the console that returns the exit code. Modules are
# named here rather than imported so that a command pays for no other command's imports.
_COMMANDS = {
    "build": "forkwheel.build_commands",
    "lock": "forkwheel.build_commands",
    "patches": "forkwheel.patching.commands",
    "upstream": "forkwheel.upstream.commands",
    "port": "forkwheel.upstream.port_commands",
    "show": "forkwheel.wheels.commands",
    "publish": "forkwheel.release.publish_commands",
    "verify": "forkwheel.release.verify_commands",
    "reproduce": "forkwheel.release.reproduce_commands",
    "cache": "forkwheel.cache_commands",
    "doctor": "forkwheel.doctor_commands",
    "fetch": "forkwheel.release.bundle_commands",
    "report": "forkwheel.release.page.commands",
    "kernels": "forkwheel.cuda.commands",
    "census": "forkwheel.cuda.census_commands",
    "audit": "forkwheel.gates.commands",
    "smoke": "forkwheel.gpu.commands",
    "bench": "forkwheel.gpu.commands",
    "clear-jit-cache": "forkwheel.cuda.jit_cache_commands",
}


def _parser(only: str | None) -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print one JSON document instead of lines and tables")
    parser = argparse.ArgumentParser(prog="forkwheel", description="Build patched wheels from pinned upstream sources.")
    parser.add_argument("--version", action="version", version=f"forkwheel {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    names = [only] if only in _COMMANDS else list(_COMMANDS)
    for module in dict.fromkeys(_COMMANDS[name] for name in names if name is not None):
        import_module(module).register(Commands(commands, common))
    return parser


class Commands:
    """Adds subcommands that share the options every command has."""

    def __init__(
        self, subparsers: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser
    ) -> None:
        self._subparsers = subparsers
        self._common = common

    def add(self, name: str, *, help: str) -> argparse.ArgumentParser:  # noqa: A002
        """Add a subcommand and return its parser."""
        return self._subparsers.add_parser(name, help=help, description=help, parents=[self._common])


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    console = Console()
    options = argparse.Namespace()
    try:
        first = next((argument for argument in arguments if not argument.startswith("-")), None)
        options = _parser(first).parse_args(arguments, options)
        events = os.environ.get("FORKWHEEL_EVENTS")
        console = Console(json_mode=options.json, events=Path(events) if events else None)
        return int(options.run(options, console))
    except ForkwheelError as error:
        if recipe := getattr(options, "recipe", None):
            error.hint = complete_hint(error.hint, recipe=recipe, worktree=getattr(options, "worktree", None))
        console.error(error)
        return error.exit_code
    except BrokenPipeError:
        raise
    except OSError as error:
        console.error(host_error(error))
        return ForkwheelError.exit_code
    except KeyboardInterrupt:
        console.interrupted()
        return _INTERRUPTED


def _end_on_signals() -> None:
    """End on Ctrl-C, when asked to and with the terminal, but not on what the caller has ignored (nohup)."""
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: object) -> NoReturn:
    """End what was started, in whichever thread that is waited for, and then this run, leaving nothing behind."""
    CHILDREN.end()
    _leave_closed_terminal()
    raise KeyboardInterrupt


def _leave_closed_terminal() -> None:
    """Write to nowhere what would be written to a terminal that is gone, where writing fails."""
    for descriptor in (1, 2):
        try:
            termios.tcgetattr(descriptor)
        except termios.error as error:
            if error.args[0] == errno.EIO:
                os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def main() -> NoReturn:
    """Run the command that the process was started with, and exit."""
    _end_on_signals()
    try:
        code = run(sys.argv[1:])
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has gone: `forkwheel … | head`. Nothing is wrong here.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _BROKEN_PIPE
    except OSError as error:
        Console().error(host_error(error))
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = ForkwheelError.exit_code
    except KeyboardInterrupt:
        code = _INTERRUPTED
    sys.exit(code)
