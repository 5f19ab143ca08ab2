from __future__ import annotations

import io
import re
import sys
import time
from pathlib import Path

import pytest

from forkwheel.console import Console
from forkwheel.cuda import build_root
from forkwheel.cuda.build_root import BuildRoot
from forkwheel.cuda.compilation import Compiled, compile_units, failure, longest_first
from forkwheel.cuda.module import Unit
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


def test_progress_tells_which_units_run_and_for_how_long(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(type(bench.log), "progress", lambda _, text: shown.append(text))

    bench.compile(bench.unit("slow", "time.sleep(2.5); open(out, 'w').write('')"), bench.unit("quick"))

    assert any(re.fullmatch(r"slow\.cu [12] s", text) for text in shown)
    assert shown[-1] == ""


def test_a_unit_that_is_done_is_not_compiled_again(bench: Bench) -> None:
    good, bad = bench.unit("good"), bench.unit("bad", "sys.exit(3)")
    with pytest.raises(BuildError):
        bench.compile(good, bad, jobs=1)

    again = bench.compile(bench.unit("good", "sys.exit('compiled again')"), bench.unit("bad"))

    assert [item.seconds > 0 for item in again] == [False, True]


@pytest.mark.parametrize("damage", [b"", b"objecT", b"object and more"])
def test_a_kept_object_that_was_damaged_is_compiled_again(bench: Bench, damage: bytes) -> None:
    (kept,) = bench.compile(bench.unit("good"))
    kept.object.write_bytes(damage)

    (again,) = bench.compile(bench.unit("good"))

    assert again.seconds > 0
    assert again.object.read_text() == "object"


def test_an_object_that_a_kill_left_without_its_digest_is_compiled_again(bench: Bench) -> None:
    unit = bench.unit("good")
    bench.kept(unit).parent.mkdir()
    bench.kept(unit).write_text("obj")

    (again,) = bench.compile(unit)

    assert again.object.read_text() == "object"


def test_an_object_that_cannot_be_kept_is_an_error_of_its_unit(bench: Bench) -> None:
    (bench.folder / "kept").write_text("a file in the folder's place")

    with pytest.raises(BuildError, match=r"good\.cu: its object cannot be kept in .*: File exists"):
        bench.compile(bench.unit("good"))


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
        (1, "c++: fatal error: Killed signal terminated program cc1plus"),
        (1, "sh: line 1:\nKilled\n"),
        (1, "terminate called after throwing an instance of 'std::bad_alloc'"),
        (1, "collect2: fatal error: ld terminated with signal 9 [Killed]"),
        (2, "ptxas fatal   : Memory allocation failure"),
        (4, "stl_iterator_base_funcs.h(189): catastrophic error: out of memory"),
    ],
)
def test_a_killed_compiler_is_told_from_a_wrong_source(code: int, said: str) -> None:
    error = failure("a.cu", ["nvcc"], code, said)

    assert "ran out of memory, or was killed" in error.message
    assert "MAX_JOBS=1" in error.hint


@pytest.mark.parametrize("said", ["a.cu(3): error: KilledProcess is not defined", "note: throws when out of memory"])
def test_a_wrong_source_is_not_taken_for_a_killed_compiler(said: str) -> None:
    assert "failed with exit code 1" in failure("a.cu", ["nvcc"], 1, said).message


def test_a_compiler_that_crashed_is_told_by_its_signal() -> None:
    error = failure("a.cu", ["nvcc"], -11, "")

    assert "its compiler was ended by signal 11 (Segmentation fault)" in error.message
    assert "it said nothing" in error.message


def test_a_host_compiler_that_nvcc_refuses_is_told_with_the_way_out() -> None:
    said = (
        "host_config.h:160:2: error: #error -- unsupported GNU version! gcc versions later than 15 are not supported!"
    )

    error = failure("a.cu", ["nvcc"], 1, said)

    assert "does not work with this host compiler" in error.message
    assert "CXX" in error.hint


def test_a_compiler_that_is_not_there_is_told(bench: Bench) -> None:
    unit = Unit("demo.cu", f"{build_root.ROOT}/objects/demo/demo.o", ("/nowhere/nvcc", "-c"))

    with pytest.raises(BuildError, match=r"demo\.cu: its compiler cannot be run") as caught:
        bench.compile(unit)

    assert "/nowhere/nvcc cannot be run: No such file or directory" in caught.value.message
    assert "toolkit is whole" in caught.value.hint


def test_a_full_disk_is_named() -> None:
    error = failure("a.cu", ["nvcc"], 1, "fatal error: error writing to a.o: No space left on device")

    assert "the disk is full" in error.message
    assert "units that are done are kept" in error.hint


def test_the_longest_units_go_first() -> None:
    units = [Unit(f"/r/{name}.cu", f"/r/{name}.o", ("nvcc",)) for name in ("a", "b", "c", "d")]

    ordered = longest_first(units, ["c.cu", "b.cu"])

    assert [unit.name for unit in ordered] == ["c.cu", "b.cu", "a.cu", "d.cu"]
