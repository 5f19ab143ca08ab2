"""What the console writes where, on a terminal and elsewhere."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from forkwheel import cli
from forkwheel.console import Console, plural, readable_size
from forkwheel.errors import PatchError


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_elsewhere_than_on_a_terminal_each_report_is_one_plain_line() -> None:
    output = io.StringIO()
    log = Console(stream=output).bind("pkg")
    with log.stage("fetch"):
        log.info("x" * 300)
        log.progress("never shown")
    lines = output.getvalue().splitlines()
    assert lines[0] == "[pkg] fetch: started"
    assert lines[1] == "[pkg] " + "x" * 300
    assert lines[2].startswith("[pkg] fetch: done in ")
    assert "\x1b" not in output.getvalue()


def test_no_color_is_honoured_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    coloured, plain = Terminal(), Terminal()
    Console(stream=coloured).line("x", kind="warning")
    monkeypatch.setenv("NO_COLOR", "1")
    Console(stream=plain).line("x", kind="warning")
    assert "\x1b[33m" in coloured.getvalue()
    assert "\x1b[33m" not in plain.getvalue()


def test_json_has_standard_output_for_itself() -> None:
    output, errors = io.StringIO(), io.StringIO()
    console = Console(stream=output, error_stream=errors, json_mode=True)
    console.line("a line")
    console.table(("a",), [("b",)])
    console.data({"schema": 1})
    assert json.loads(output.getvalue()) == {"schema": 1}
    assert errors.getvalue() == "a line\n"


def test_a_table_is_never_cut_short_where_it_may_be_searched() -> None:
    output = io.StringIO()
    Console(stream=output).table(("name", "sha256"), [("n" * 90, "f" * 64)])
    assert "n" * 90 in output.getvalue()
    assert "f" * 64 in output.getvalue()


def test_text_is_not_read_as_markup() -> None:
    output = io.StringIO()
    Console(stream=output).line("[bold]x[/bold] [pkg]")
    assert output.getvalue() == "[bold]x[/bold] [pkg]\n"


def test_a_name_that_is_not_utf8_can_be_shown(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w", encoding="utf-8") as output:
        console = Console(stream=output, error_stream=output)
        console.line("caf\udce9")
        console.table(("a",), [("caf\udce9",)])
        console.error(PatchError("caf\udce9", hint="h"))
    assert "caf\\udce9" in (tmp_path / "out").read_text()


@pytest.mark.parametrize("evil", ["\x1b[2J", "\u202e", "\x07", "\x9b", "\r"])
def test_text_of_others_cannot_act_on_the_terminal(evil: str) -> None:
    output = io.StringIO()
    console = Console(stream=output, error_stream=output)
    console.line(f"a{evil}Q")
    console.table(("x",), [(f"a{evil}Q",)])
    console.text(f"a{evil}Q")
    console.error(PatchError(f"a{evil}Q", hint=f"a{evil}Q"))
    assert evil not in output.getvalue()
    assert output.getvalue().count("Q") == 5


def run_forkwheel(*arguments: str, shell: str = "") -> subprocess.CompletedProcess[str]:
    command = f"{shlex.join([sys.executable, '-m', 'forkwheel', *arguments])} {shell}"
    return subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)


def test_a_reader_that_has_gone_is_no_fault() -> None:
    run = run_forkwheel("--help", shell="| true")
    assert run.returncode in (0, 141)
    assert "Traceback" not in run.stderr


def test_a_full_disk_is_one_error() -> None:
    run = run_forkwheel("patches", "--recipe", "sm120", "--json", shell="> /dev/full")
    assert "Traceback" not in run.stderr
    assert run.returncode in (1, 2)
    assert "No space left on device" in run.stderr


def test_errors_stay_off_standard_output_where_standard_error_is_closed() -> None:
    run = run_forkwheel("build", "--recipe", "none-such", shell="2>&-")
    assert (run.returncode, run.stdout) == (2, "")


def test_events_are_written_as_they_happen(tmp_path: Path) -> None:
    log = Console(stream=io.StringIO(), events=tmp_path / "events").bind("pkg")
    with log.stage("one"):
        assert (tmp_path / "events").read_text().count("\n") == 1
    with pytest.raises(ZeroDivisionError), log.stage("two"):
        raise ZeroDivisionError
    found = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    assert [(item["event"], item["stage"]) for item in found] == [
        ("start", "one"),
        ("end", "one"),
        ("start", "two"),
        ("failed", "two"),
    ]


def test_an_error_is_two_lines_and_its_exit_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORKWHEEL_CACHE", "/dev/null/x")
    assert cli.run(["build", "--recipe", "no-such-recipe"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: there is no recipe 'no-such-recipe'\nhint: ")
    assert captured.out == ""


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.run(["--help"])
    assert caught.value.code == 0
    output = capsys.readouterr().out
    assert all(command in output for command in ("build", "lock", "patches", "show", "clear-jit-cache"))


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (123_400_000, "123.4 MB"), (5 * 10**12, "5000.0 GB")],
)
def test_sizes_are_written_for_a_person(size: int, text: str) -> None:
    assert readable_size(size) == text


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [(1, "wheel", "1 wheel"), (0, "wheel", "0 wheels"), (2, "patch", "2 patches"), (3, "entry", "3 entries")],
)
def test_a_count_and_its_noun_agree(count: int, noun: str, text: str) -> None:
    assert plural(count, noun) == text


def test_a_quiet_stage_is_told_to_programs_alone(tmp_path: Path) -> None:
    stream = io.StringIO()
    console = Console(stream=stream, events=tmp_path / "events")

    with console.bind("pkg").stage("write", quiet=True):
        pass

    assert stream.getvalue() == ""
    assert [json.loads(line)["event"] for line in (tmp_path / "events").read_text().splitlines()] == ["start", "end"]
