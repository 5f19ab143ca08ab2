import base64
import ctypes
import hashlib
import json
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from forkwheel import cli
from forkwheel.errors import NoGpuError, UsageError, VerificationError
from forkwheel.gpu import preflight
from forkwheel.gpu.checks import Check
from forkwheel.gpu.devices import Device, Machine, find_machine
from forkwheel.gpu.environment import (
    Environment,
    InstalledWheel,
    find_base,
    find_prebuilt,
    find_wheels,
    make_environment,
)
from forkwheel.gpu.plan_file import load_plan
from forkwheel.recipe import load_recipe

GPU = Path(__file__).parents[2] / "recipes" / "sm120"
OBJECT = b"compiled"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def record_line(name: str, content: bytes) -> str:
    value = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    return f"{name},sha256={value},{len(content)}\n"


@pytest.fixture
def environment(tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    return Environment(tmp_path, tmp_path / "bin" / "python", site, "2.11.0", "13.0", "3.12.3")


def machine(*capabilities, cuda=(13, 0)):
    devices = tuple(Device(i, "GPU", c, 100, 1, clusters=True) for i, c in enumerate(capabilities))
    return Machine(devices, cuda, "580.1")


def wheel_of(folder: Path, members: dict[str, bytes]) -> InstalledWheel:
    file = folder / "kernels-1-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.writestr("kernels-1.dist-info/RECORD", "".join(record_line(*item) for item in members.items()))
    return InstalledWheel(file, digest(file.read_bytes()))


def test_without_a_driver_there_is_one_line_and_exit_code_10(monkeypatch, capsys):
    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    monkeypatch.setitem(cli._COMMANDS, "smoke", "forkwheel.gpu.commands")

    code = cli.run(["smoke"])

    assert code == 10
    assert (
        "error: there is no NVIDIA GPU here: the driver's library libcuda.so.1 is missing\n" in capsys.readouterr().err
    )


def test_a_driver_that_cannot_start_is_no_gpu(monkeypatch):
    class Driver:
        def cuInit(self, flags):  # noqa: N802
            return 100

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Driver())

    with pytest.raises(NoGpuError, match="answers 100 to cuInit"):
        find_machine()


def test_gpus_that_differ_are_a_failure():
    assert preflight.gpus(machine((9, 0), (9, 0))).status == "PASS"
    assert preflight.gpus(machine((9, 0), (12, 0))).status == "FAIL"


@pytest.mark.parametrize(
    ("cuda", "torch_cuda", "toolkit", "status"),
    [
        ((13, 0), "13.0", "13.0", "PASS"),
        ((13, 0), "13.0", None, "PASS"),
        ((12, 8), "13.0", "13.0", "FAIL"),
        ((13, 0), "12.8", "13.0", "FAIL"),
        ((13, 0), "12.8", "12.9", "PASS"),
    ],
)
def test_driver_torch_and_toolkit_must_go_together(environment, cuda, torch_cuda, toolkit, status):
    found = preflight.versions(machine((9, 0), cuda=cuda), replace(environment, torch_cuda=torch_cuda), toolkit)

    assert found.status == status


def plant(environment: Environment, content: bytes) -> Path:
    file = environment.site / "flashinfer" / "data" / "aot" / "trtllm_comm" / "trtllm_comm.so"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    return file


def test_a_planted_object_fails_by_its_path(environment):
    file = plant(environment, b"not what was built")

    check = preflight.planted(load_recipe(GPU / "recipe.toml"), load_plan(GPU), environment, {})

    assert check.status == "FAIL"
    assert str(file) in check.detail


def test_an_object_that_a_tested_wheel_holds_is_known(environment, tmp_path):
    plant(environment, OBJECT)
    known = preflight.known_objects([wheel_of(tmp_path, {"flashinfer/data/aot/trtllm_comm/trtllm_comm.so": OBJECT})])

    check = preflight.planted(load_recipe(GPU / "recipe.toml"), load_plan(GPU), environment, known)

    assert check.status == "PASS"


def installed(environment: Environment, content: bytes) -> dict:
    file = environment.site / "flashinfer" / "data" / "csrc" / "a.cu"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    info = environment.site / "flashinfer_python-1.dist-info"
    info.mkdir()
    (info / "RECORD").write_text("flashinfer/data/csrc/a.cu,sha256=x,1\n")
    package = {"name": "flashinfer-python", "wheel": {"filename": "flashinfer_python-1-py3-none-any.whl"}}
    return {"packages": [package | {"patched_files": {"csrc/a.cu": digest(b"patched"), "tests/b.py": digest(b"b")}}]}


def test_patched_files_are_compared_as_installed(environment):
    found = preflight.patched_files(environment, installed(environment, b"patched"))

    assert [check.status for check in found] == ["PASS", "SKIP"]


def test_a_patched_file_with_other_content_fails_by_its_path(environment):
    found = preflight.patched_files(environment, installed(environment, b"stock"))

    assert found[0].status == "FAIL"
    assert "flashinfer/data/csrc/a.cu" in found[0].detail


def test_a_package_that_is_not_installed_is_a_failure_and_no_skip(environment):
    manifest = installed(environment, b"patched")
    (environment.site / "flashinfer_python-1.dist-info" / "RECORD").unlink()

    (check,) = preflight.patched_files(environment, manifest)

    assert (check.status, check.name) == ("FAIL", "patched files of flashinfer-python")


def import_module(environment: Environment, text: str, *, listed: str) -> Check:
    package = environment.site / "flashinfer"
    package.mkdir()
    (package / "__init__.py").write_text(text)
    python = environment.site / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={environment.site} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    manifest = {"packages": [{"name": listed, "version": "0.6.3+sm120.1"}]}
    return preflight.imported(load_plan(GPU), replace(environment, python=python), manifest, {})


@pytest.mark.parametrize(
    ("text", "listed", "status", "detail"),
    [
        ("__version__ = '0.6.3+sm120.1'", "Flashinfer_Python", "PASS", "flashinfer 0.6.3+sm120.1 from "),
        ("__version__ = '0.6.3'", "flashinfer-python", "FAIL", "not 0.6.3+sm120.1"),
        ("__version__ = '0.6.3+sm120.1'", "other", "FAIL", "the manifest lists no flashinfer-python"),
        ("import no_such_module_here", "other", "FAIL", "ModuleNotFoundError: No module named 'no_such_module_here'\n"),
    ],
)
def test_the_imported_package_is_the_manifests(environment, text, listed, status, detail):
    check = import_module(environment, text, listed=listed)

    assert check.status == status
    assert detail in check.detail


@pytest.mark.parametrize("answer", ['{"object": "/nowhere/x.so"}', '{"what": 1}', '{"object": null}', "7", ""])
def test_a_compilation_that_names_no_object_is_a_failure(environment, tmp_path, answer):
    script = tmp_path / "compile.py"
    script.write_text(f"print({answer!r})\n")
    plan = replace(load_plan(GPU), compile=script)

    check = preflight.loaded_object(
        plan, replace(environment, python=Path(sys.executable)), {plan.workspace_variable: str(tmp_path)}, {}, 60
    )

    assert check.status == "FAIL"


def compile_script(tmp_path: Path, file: Path) -> Path:
    script = tmp_path / "compile.py"
    script.write_text(f'print("noise")\nprint(\'{{"object": "{file}"}}\')\n')
    return script


@pytest.mark.parametrize(("place", "status"), [("jit", "PASS"), ("elsewhere", "FAIL")])
def test_the_loaded_object_must_be_compiled_by_this_run(environment, tmp_path, place, status):
    file = tmp_path / place / "trtllm_comm.so"
    file.parent.mkdir()
    file.write_bytes(OBJECT)
    plan = replace(load_plan(GPU), compile=compile_script(tmp_path, file))
    check = preflight.loaded_object(
        plan,
        replace(environment, python=Path(sys.executable)),
        {plan.workspace_variable: str(tmp_path / "jit")},
        {},
        60,
    )

    assert check.status == status
    assert status == "PASS" or str(file) in check.detail


def test_an_object_from_a_tested_wheel_is_named_by_the_wheel(environment, tmp_path):
    file = tmp_path / "trtllm_comm.so"
    file.write_bytes(OBJECT)
    wheel = wheel_of(tmp_path, {"k/trtllm_comm.so": OBJECT})
    plan = replace(load_plan(GPU), compile=compile_script(tmp_path, file))
    check = preflight.loaded_object(
        plan,
        replace(environment, python=Path(sys.executable)),
        {plan.workspace_variable: str(tmp_path / "jit")},
        preflight.known_objects([wheel]),
        60,
    )

    assert (check.status, check.detail) == ("PASS", f"from {wheel.file.name}")


def test_wheels_are_checked_against_the_manifest(tmp_path):
    (tmp_path / "a.whl").write_bytes(b"a")
    manifest = {"packages": [{"wheel": {"filename": "a.whl", "sha256": digest(b"a")}}]}

    assert find_wheels(tmp_path, manifest)[0].sha256 == digest(b"a")

    (tmp_path / "a.whl").write_bytes(b"b")
    with pytest.raises(VerificationError, match=r"a\.whl has sha256"):
        find_wheels(tmp_path, manifest)

    (tmp_path / "a.whl").unlink()
    with pytest.raises(UsageError, match="is missing"):
        find_wheels(tmp_path, manifest)


@pytest.mark.parametrize(("capability", "usable"), [((12, 0), True), ((9, 0), False)])
def test_compiled_kernels_are_for_their_target_only(tmp_path, capability, usable):
    (tmp_path / "k.whl").write_bytes(b"k")
    record = tmp_path / "x.kernels.json"
    record.write_text(json.dumps({"targets": ["sm_120a"], "wheel": {"filename": "k.whl", "sha256": digest(b"k")}}))

    found = find_prebuilt(tmp_path, record, capability=capability)

    assert found == "k.whl is for sm_120a, not for SM90" if not usable else isinstance(found, InstalledWheel)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting property name"),
        ("[]", "it is no JSON object"),
        ('{"wheel": null}', "it lacks 'targets'"),
        ('{"targets": ["sm_90a"], "wheel": {"filename": "../k.whl", "sha256": "x"}}', "not a file's name"),
    ],
)
def test_a_broken_record_of_kernels_is_one_error(tmp_path, text, message):
    record = tmp_path / "x.kernels.json"
    record.write_text(text)

    with pytest.raises(VerificationError, match="is no record of kernels") as caught:
        find_prebuilt(tmp_path, record, capability=(9, 0))

    assert message in caught.value.message


@pytest.mark.parametrize("text", [None, '{"targets": [], "wheel": null}'])
def test_without_a_wheel_of_kernels_the_reason_is_said(tmp_path, text):
    record = tmp_path / "x.kernels.json"
    if text is not None:
        record.write_text(text)

    assert find_prebuilt(tmp_path, record, capability=(9, 0)) == "there is none beside the manifest"


def test_an_interpreter_without_torch_is_refused_in_one_line(tmp_path):
    with pytest.raises(UsageError, match=r"has no torch|has torch .* without a usable CUDA"):
        make_environment(tmp_path / "env", base=Path(sys.executable), wheels=(), needs={}, torch="torch")


def stub_interpreter(file: Path, answer: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\necho '{answer}'\n")
    file.chmod(0o755)
    return file


def test_the_machines_own_torch_is_found_beside_forkwheels_interpreter(monkeypatch, tmp_path):
    other = stub_interpreter(tmp_path / "bin" / "python3", '{"sites": ["/x"], "usable": true}')
    monkeypatch.setattr(sys, "executable", str(stub_interpreter(tmp_path / "own" / "python3", '{"sites": []}')))
    monkeypatch.setenv("PATH", f"{tmp_path / 'own'}:{tmp_path / 'bin'}:/bin")

    assert find_base(None) == (other, {"sites": ["/x"], "usable": True})


def test_without_any_usable_torch_forkwheels_own_interpreter_is_the_base(monkeypatch, tmp_path):
    own = stub_interpreter(tmp_path / "own" / "python3", '{"sites": ["/x"], "usable": false}')
    monkeypatch.setattr(sys, "executable", str(own))
    monkeypatch.setenv("PATH", str(tmp_path / "own"))

    assert find_base(None) == (own, {"sites": []})
