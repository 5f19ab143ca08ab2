"""Everything that is shown: the only module that writes to the terminal.

Stages report through a ``Log`` that is bound to a package. On a terminal the running
stages are shown live with their elapsed times; elsewhere each report is one plain line.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console as RichConsole
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from forkwheel.errors import ForkwheelError

_PLAIN_WIDTH = 1000
# Control characters but tab and newline, and those that change the direction of text.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_STYLES = {"info": "", "done": "green", "warning": "yellow", "error": "bold red", "hint": "cyan"}


def printable(text: str) -> str:
    """Escape what a terminal would act on, and what UTF-8 cannot carry: names and texts may hold anything."""
    escaped = _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
    return escaped.encode("utf-8", "backslashreplace").decode("utf-8")


def readable_size(size: int) -> str:
    """Write a number of bytes for a person, in decimal units."""
    value = float(size)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun."""
    if count == 1:
        return f"1 {noun}"
    if re.search("[^aeiou]y$", noun):
        return f"{count} {noun[:-1]}ies"
    return f"{count} {noun}{'es' if noun.endswith('ch') else 's'}"


class _Writer(RichConsole):
    """A Rich console that leaves a broken pipe to the program instead of ending it."""

    def on_broken_pipe(self) -> None:
        """Hand on the BrokenPipeError that is being handled."""
        raise


class Console:
    """Write lines, tables and JSON for a person or a program.

    With ``json_mode`` standard output carries nothing but the one JSON document, and
    everything else goes to standard error. ``events`` names a file to which every stage
    appends a JSON line as it starts and ends.
    """

    def __init__(
        self,
        *,
        stream: TextIO | None = None,
        error_stream: TextIO | None = None,
        json_mode: bool = False,
        events: Path | None = None,
    ) -> None:
        self.json_mode = json_mode
        self._output = stream or _open_stream(sys.stdout)
        errors = error_stream or _open_stream(sys.stderr)
        self._rich = _Writer(file=errors if json_mode else self._output, highlight=False, soft_wrap=True)
        self._errors = _Writer(file=errors, highlight=False, soft_wrap=True)
        self._events = events
        self._lock = threading.Lock()
        self._progress: Progress | None = None
        self._running = 0

    def bind(self, package: str) -> Log:
        """Return the log of one package's stages."""
        return Log(self, package)

    def line(self, text: str, *, kind: str = "info", package: str = "") -> None:
        """Write one line of a kind: info, done, warning, error or hint."""
        prefix = f"[{package}] " if package else ""
        label = "warning: " if kind == "warning" else ""
        self._rich.print(Text(printable(f"{prefix}{label}{text}"), style=_STYLES[kind]))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = "") -> None:
        """Write a table; elsewhere than on a terminal its cells are never cut short."""
        if self.json_mode:
            return
        table = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*(Text(printable(str(cell))) for cell in row))
        if self._rich.is_terminal:
            self._rich.print(table)
            return
        plain = io.StringIO()
        _Writer(file=plain, highlight=False, width=_PLAIN_WIDTH).print(table)
        self.text("\n".join(line.rstrip() for line in plain.getvalue().splitlines()))

    def data(self, document: Any) -> None:
        """Write one JSON document to standard output; its key ``schema`` is the number of its form.

        So is that of every document in an output folder. Files that forkwheel itself reads back
        (recipes, locks, records in a wheel or in the cache) have a ``format`` instead.
        """
        self._output.write(json.dumps(document, indent=2, sort_keys=True) + "\n")
        self._output.flush()

    def text(self, text: str) -> None:
        """Write text to standard output as it is."""
        self._output.write(printable(text if text.endswith("\n") else text + "\n"))
        self._output.flush()

    def interrupted(self) -> None:
        """Say on standard error that a person ended the run."""
        self._errors.print(Text("interrupted; run the same command again to go on", style=_STYLES["warning"]))

    def error(self, error: ForkwheelError) -> None:
        """Write an error and its hint to standard error."""
        self._errors.print(Text(printable(f"error: {error.message}"), style=_STYLES["error"]))
        if error.hint:
            self._errors.print(Text(printable(f"hint: {error.hint}"), style=_STYLES["hint"]))

    @contextmanager
    def stage(self, name: str, package: str, *, quiet: bool = False) -> Iterator[None]:
        """Report that a stage runs, and how long it took; a ``quiet`` one only to programs."""
        self._event("start", name, package)
        task = None if quiet else self._start_task(name, package)
        started = time.monotonic()
        try:
            yield
        except BaseException:
            self._end_task(task)
            self._event("failed", name, package)
            raise
        seconds = time.monotonic() - started
        self._end_task(task)
        if not quiet:
            self.line(f"{name}: done in {seconds:.1f} s", kind="done", package=package)
        self._event("end", name, package)

    def progress(self, text: str, package: str) -> None:
        """Show how far a stage has come, on a terminal only."""
        with self._lock:
            if self._progress is None:
                return
            for task in self._progress.tasks:
                if task.fields["package"] == package:
                    self._progress.update(task.id, detail=text)

    def _start_task(self, name: str, package: str) -> TaskID | None:
        if not self._rich.is_terminal:
            self.line(f"{name}: started", package=package)
            return None
        with self._lock:
            if self._progress is None:
                self._progress = Progress(
                    SpinnerColumn(),
                    TextColumn("{task.fields[package]}", markup=False),
                    TextColumn("{task.description}", markup=False),
                    TimeElapsedColumn(),
                    TextColumn("{task.fields[detail]}", markup=False),
                    console=self._rich,
                    transient=True,
                )
                self._progress.start()
            self._running += 1
            return self._progress.add_task(name, total=None, package=package, detail="")

    def _end_task(self, task: TaskID | None) -> None:
        if task is None:
            return
        with self._lock:
            assert self._progress is not None
            self._progress.remove_task(task)
            self._running -= 1
            if not self._running:
                self._progress.stop()
                self._progress = None

    def _event(self, event: str, stage: str, package: str) -> None:
        if self._events is None:
            return
        line = json.dumps({"event": event, "stage": stage, "package": package}) + "\n"
        descriptor = os.open(self._events, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


def _open_stream(stream: TextIO | None) -> TextIO:
    """Return a standard stream, or the null device where the program was started without it."""
    return stream if stream is not None else open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123


class Log:
    """What one package's stages report through."""

    def __init__(self, console: Console, package: str) -> None:
        self._console = console
        self.package = package

    def of(self, package: str) -> Log:
        """Return the log of another package."""
        return Log(self._console, package)

    def stage(self, name: str, *, quiet: bool = False) -> Any:
        """Return a context manager that reports a stage as started, done and timed."""
        return self._console.stage(name, self.package, quiet=quiet)

    def info(self, text: str) -> None:
        """Report one line."""
        self._console.line(text, package=self.package)

    def warning(self, text: str) -> None:
        """Report something that a person should look at."""
        self._console.line(text, kind="warning", package=self.package)

    def progress(self, text: str) -> None:
        """Show how far the running stage has come."""
        self._console.progress(text, self.package)
