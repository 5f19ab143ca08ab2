"""The environment under test: the interpreter it is made from, and what is installed in it."""

import sys
import venv
import zipfile
from pathlib import Path

import pytest

from forkwheel.errors import UsageError
from forkwheel.gpu import environment
from forkwheel.gpu.environment import InstalledWheel, find_base, find_wheels, make_environment
from forkwheel.tree import sha256_file


def interpreter(file: Path, answer: str, *, code: int = 0) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\necho '{answer}'\nexit {code}\n")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ('{"sites": [], "version": "3.9.2", "old": true, "torch": "2"}', "is Python 3.9.2: 3.10 or newer is needed"),
        ('{"sites": [], "torch": "2.9", "usable": false}', "has torch 2.9 without a usable CUDA"),
        ('{"sites": [], "fault": "OSError: libcudart.so.13"}', "that can't be imported: OSError: libcudart.so.13"),
        ('{"sites": []}', "has no torch"),
        ("", "is no interpreter to use: it ended with 0 and no answer"),
        ("hello", "is no interpreter to use"),
    ],
)
def test_an_interpreter_that_does_not_serve_is_refused_with_its_reason(tmp_path, answer, message):
    with pytest.raises(UsageError) as caught:
        find_base(interpreter(tmp_path / "python", answer))

    assert message in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("what", ["missing", "folder", "text"])
def test_what_is_no_interpreter_is_refused_in_one_line(tmp_path, what):
    file = tmp_path / "python"
    if what == "folder":
        file.mkdir()
    if what == "text":
        file.write_text("print(1)")

    with pytest.raises(UsageError, match="is no interpreter to use: ") as caught:
        find_base(file)

    assert "\n" not in caught.value.message


def test_an_interpreter_that_nobody_named_and_that_does_not_run_is_passed_over(monkeypatch, tmp_path):
    own = interpreter(tmp_path / "own" / "python3", '{"sites": []}')
    interpreter(tmp_path / "bin" / "python3", "", code=1)
    monkeypatch.setattr(sys, "executable", str(own))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin")

    assert find_base(None) == (own, {"sites": []})


@pytest.fixture
def base(tmp_path) -> Path:
    """An interpreter that has something that calls itself torch for CUDA."""
    folder = tmp_path / "base"
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "torch.py").write_text(
        "class version:\n    cuda = '13.0'\n"
        "class cuda:\n    is_available = staticmethod(lambda: True)\n"
        "__version__ = '2.11.0'\n"
    )
    (site / "small.py").write_text("where = 'base'\n")
    return folder / "bin" / "python"


@pytest.fixture
def wheel(tmp_path) -> InstalledWheel:
    file = tmp_path / "small-1+local.1-py3-none-any.whl"
    info = "small-1+local.1.dist-info"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("small.py", "where = 'wheel'\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: small\nVersion: 1+local.1\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", f"small.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return InstalledWheel(file, sha256_file(file))


@pytest.fixture
def no_index(monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)


def test_the_wheels_are_installed_without_an_index_before_what_the_base_has(no_index, tmp_path, base, wheel):
    made = make_environment(tmp_path / "env", base=base, wheels=[wheel], needs={"zip": "zipfile"}, torch="torch==0")

    assert (made.torch, made.torch_cuda) == ("2.11.0", "13.0")
    found = environment._ask(made.python, "import json, small, torch; print(json.dumps([small.where, torch.__file__]))")
    assert found == ["wheel", str(next((tmp_path / "base").glob("lib/python3*/site-packages")) / "torch.py")]
    assert (made.site / "small.py").is_file()


def test_a_wheel_whose_hash_is_another_is_not_installed(no_index, tmp_path, base, wheel):
    with pytest.raises(UsageError, match="the wheels could not be installed: ") as caught:
        make_environment(
            tmp_path / "env", base=base, wheels=[InstalledWheel(wheel.file, "0" * 64)], needs={}, torch="torch"
        )

    assert "--require-hashes" in caught.value.hint


def test_a_need_that_is_missing_and_that_no_index_has_is_named(no_index, tmp_path, base):
    with pytest.raises(UsageError, match="could not be installed: some-need"):
        make_environment(tmp_path / "env", base=base, wheels=[], needs={"some-need": "some_need_"}, torch="torch")


def test_torch_is_installed_where_no_interpreter_has_it(monkeypatch, tmp_path):
    commands = []
    answers = {"torch": "2.9.1", "cuda": "12.8", "usable": True, "sites": [str(tmp_path)], "version": "3.12.1"}
    monkeypatch.setattr(environment, "find_base", lambda base: (Path("/usr/bin/python3"), {"sites": []}))
    monkeypatch.setattr(environment, "_run", lambda command, what: commands.append(command))
    monkeypatch.setattr(environment, "_ask", lambda python, program, *rest: [] if rest else answers)
    (tmp_path / "env").mkdir()

    made = make_environment(tmp_path / "env", base=None, wheels=[], needs={"a": "b"}, torch="torch==2.9.1")

    venv_command, torch_command, wheels_command = commands
    assert venv_command[:3] == ["/usr/bin/python3", "-m", "venv"]
    assert torch_command[:5] == [sys.executable, "-m", "pip", "--python", str(tmp_path / "env" / "bin" / "python")]
    assert torch_command[-2:] == ["install", "torch==2.9.1"]
    assert "--no-index" in wheels_command
    assert made.torch_cuda == "12.8"


def test_upstreams_own_wheels_of_a_set_are_installed_too(tmp_path):
    entries = {}
    for name in ("built", "taken"):
        file = tmp_path / f"{name}.whl"
        file.write_bytes(name.encode())
        entries[name] = {"name": name, "wheel": {"filename": file.name, "sha256": sha256_file(file)}}

    found = find_wheels(tmp_path, {"packages": [entries["built"]], "taken": [entries["taken"]]})

    assert [wheel.file.name for wheel in found] == ["built.whl", "taken.whl"]


def test_a_package_with_several_wheels_is_refused(tmp_path):
    with pytest.raises(UsageError, match="several wheels of many"):
        find_wheels(tmp_path, {"packages": [{"name": "many", "wheels": []}]})
