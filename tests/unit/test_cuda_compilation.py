from __future__ import annotations

import io
import sys
import time
from pathlib import Path

import pytest

from forkwheel.console import Console
from forkwheel.cuda import build_root
from forkwheel.cuda.build_root import BuildRoot
from forkwheel.cuda.compilation import Compiled, compile_units, failure, jobs_allowed, longest_first
from forkwheel.cuda.specification import Unit
from forkwheel.errors import BuildError


class Bench:
    """A build root in a folder, and units whose compiler is a line of Python."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stage = folder / "stage"
        self.stage.mkdir()
        self.root = BuildRoot(self.stage, ())
        self.output = io.StringIO()
        self.log = Console(stream=self.output).bind("demo")

    def unit(self, name: str, code: str = "open(out, 'w').write('object')") -> Unit:
        output = f"{build_root.ROOT}/objects/demo/{name}.o"
        staged = self.root.staged(output)
        command = (sys.executable, "-c", f"import sys, time; out = {str(staged)!r}; {code}")
        return Unit(f"{build_root.ROOT}/tree/{name}.cu", output, command)

    def kept(self, unit: Unit) -> Path:
        return self.folder / "kept" / Path(unit.output).name

    def compile(self, *units: Unit, jobs: int = 2) -> tuple[Compiled, ...]:
        return compile_units(units, root=self.root, kept=self.kept, environment={}, jobs=jobs, log=self.log)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_objects_are_kept_in_the_order_of_the_units(bench: Bench) -> None:
    units = [bench.unit("slow", "time.sleep(0.2); open(out, 'w').write('slow')"), bench.unit("quick")]

    compiled = bench.compile(*units)

    assert [item.object.read_text() for item in compiled] == ["slow", "object"]
    assert all(item.seconds > 0 for item in compiled)


def test_a_unit_that_is_done_is_not_compiled_again(bench: Bench) -> None:
    good, bad = bench.unit("good"), bench.unit("bad", "sys.exit(3)")
    with pytest.raises(BuildError):
        bench.compile(good, bad, jobs=1)

    again = bench.compile(bench.unit("good", "sys.exit('compiled again')"), bench.unit("bad"))

    assert [item.seconds > 0 for item in again] == [False, True]


def test_a_failure_tells_the_unit_the_command_and_the_last_lines(bench: Bench) -> None:
    unit = bench.unit("wrong", "print('\\n'.join(f'line {n}' for n in range(99))); sys.exit(2)")

    with pytest.raises(BuildError) as caught:
        bench.compile(unit)

    message = caught.value.message
    assert message.startswith("wrong.cu: its compiler failed with exit code 2\n")
    assert " ".join(unit.command) in message
    assert "line 98" in message
    assert "line 10\n" not in message
    assert not (bench.folder / "kept").exists()


def test_a_failure_ends_the_other_units(bench: Bench) -> None:
    begun = time.monotonic()

    with pytest.raises(BuildError, match=r"wrong\.cu"):
        bench.compile(bench.unit("long", "time.sleep(60)"), bench.unit("wrong", "time.sleep(0.3); sys.exit(1)"))

    assert time.monotonic() - begun < 30
    assert list(bench.stage.rglob("long*")) == []


def test_units_after_a_failed_one_are_not_begun(bench: Bench) -> None:
    with pytest.raises(BuildError, match=r"wrong\.cu"):
        bench.compile(bench.unit("wrong", "sys.exit(1)"), bench.unit("later"), bench.unit("last"), jobs=1)

    assert "last.cu" not in bench.output.getvalue()


def test_a_compiler_that_leaves_no_object_is_an_error(bench: Bench) -> None:
    with pytest.raises(BuildError, match=r"left no nothing\.o"):
        bench.compile(bench.unit("nothing", "pass"))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (-9, ""),
        (137, ""),
        (1, "nvcc error   : 'cicc' died due to signal 9 (Kill signal)"),
        (1, "cc1plus: out of memory allocating 65536 bytes"),
        (1, "virtual memory exhausted: Cannot allocate memory"),
    ],
)
def test_a_killed_compiler_is_told_from_a_wrong_source(code: int, said: str) -> None:
    error = failure("a.cu", ["nvcc"], code, said)

    assert "killed, probably for memory" in error.message
    assert "MAX_JOBS=1" in error.hint


def test_a_full_disk_is_named() -> None:
    error = failure("a.cu", ["nvcc"], 1, "fatal error: error writing to a.o: No space left on device")

    assert "the disk is full" in error.message
    assert "units that are done are kept" in error.hint


def test_the_longest_units_go_first() -> None:
    units = [Unit(f"/r/{name}.cu", f"/r/{name}.o", ("nvcc",)) for name in ("a", "b", "c", "d")]

    ordered = longest_first(units, ["c.cu", "b.cu"])

    assert [unit.name for unit in ordered] == ["c.cu", "b.cu", "a.cu", "d.cu"]


def test_max_jobs_is_honoured_and_memory_limits_the_rest() -> None:
    assert jobs_allowed({"MAX_JOBS": "7"}, memory=1 << 40) == 7
    assert jobs_allowed({}, memory=1 << 40) == 1
    assert jobs_allowed({"MAX_JOBS": "many"}, memory=1) >= 1
    assert jobs_allowed({"MAX_JOBS": "0"}, memory=1) >= 1
