"""What the smoke run starts itself: the CUDA program, and the recipe's drivers."""

import sys
import types
from dataclasses import replace

import pytest
from gpu_support import RECIPE, setting

from forkwheel.gpu import bench, smoke
from forkwheel.gpu.environment import Environment
from forkwheel.gpu.plan import OTHERS
from forkwheel.gpu.rank_main import Rank, load_module


def with_compiler(tmp_path, monkeypatch, script):
    nvcc = tmp_path / "cuda" / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text(f"#!/bin/sh\n{script}\n")
    nvcc.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    environment = Environment(tmp_path, tmp_path / "bin" / "python", tmp_path, "2", "13.0", "3.12.3")
    return replace(setting(), environment=environment, work=tmp_path)


#: Writes a program that ends with 1 and prints what the compiler was asked to make it for.
_MAKES = 'for a in "$@"; do case $a in -arch=*) arch=$a;; esac; done; while [ "$1" != -o ]; do shift; done; '
_MAKES += 'printf "#!/bin/sh\\necho $arch\\nexit %s" > "$2"; chmod +x "$2"'


@pytest.mark.parametrize(
    ("capability", "option"), [((8, 9), "-arch=sm_89"), ((9, 0), "-arch=sm_90a"), ((12, 0), "-arch=sm_120a")]
)
def test_the_program_is_compiled_for_the_gpu_at_hand(tmp_path, monkeypatch, capability, option):
    one = with_compiler(tmp_path, monkeypatch, _MAKES % 0)
    device = replace(one.machine.devices[0], capability=capability)
    one = replace(one, machine=replace(one.machine, devices=(device,)))

    check = smoke.numeric_program(one, tmp_path, "sums")

    assert (check.status, check.detail) == ("PASS", option)


@pytest.mark.parametrize(
    ("script", "detail"),
    [
        ("echo no such header >&2; exit 1", "does not compile: no such header"),
        (_MAKES % 2, "-arch=sm_90a (it ended with 2)"),
        (_MAKES.replace("echo $arch", "true") % 2, "no output (it ended with 2)"),
    ],
)
def test_a_program_that_fails_says_why(tmp_path, monkeypatch, script, detail):
    check = smoke.numeric_program(with_compiler(tmp_path, monkeypatch, script), tmp_path, "sums")

    assert check.status == "FAIL"
    assert detail in check.detail


@pytest.mark.parametrize("name", ["_COMPILE_SECONDS", "_RUN_SECONDS"])
def test_a_program_that_hangs_is_a_failure(tmp_path, monkeypatch, name):
    script = "sleep 60" if name == "_COMPILE_SECONDS" else _MAKES.replace("echo $arch", "sleep 60") % 0
    monkeypatch.setattr(smoke, name, 0.5)

    check = smoke.numeric_program(with_compiler(tmp_path, monkeypatch, script), tmp_path, "sums")

    assert (check.status, check.detail) == ("FAIL", "did not end within 0.5 s")


class Anything(types.ModuleType):
    """A module in which every name is there."""

    __path__: list = []  # noqa: RUF012

    def __getattr__(self, name):
        return Anything(name)


@pytest.fixture
def drivers(monkeypatch):
    """The recipe's drivers, with stand-ins for what they drive."""
    for name in ("torch", "torch.distributed", "flashinfer", "flashinfer.comm"):
        monkeypatch.setitem(sys.modules, name, Anything(name))
    return {name: load_module(RECIPE / "gpu" / f"{name}.py").Driver for name in ("fusion", "layer")}


CASE = {"pattern": "norm", "dtype": "bfloat16", "tokens": 8, "hidden": 64, "shot": "one-shot"}
CASE |= {"fp32_accumulation": False}


@pytest.mark.parametrize("name", ["fusion", "layer"])
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"shot": "two-shot", "tokens": 2}, "two-shot needs more tokens than ranks"),
        ({"shot": "two-shot", "tokens": 3}, None),
        ({"dtype": "float32", "fp32_accumulation": True}, "fp32 is summed in fp32 anyway"),
    ],
)
def test_the_drivers_of_the_fusion_leave_out_the_same_cases(drivers, name, changes, reason, tmp_path):
    driver = object.__new__(drivers[name])
    driver.rank = Rank(0, 2, 0, tmp_path, {})

    assert driver.unsupported(CASE | changes) == reason
    assert driver.kernels(CASE) == ["allreduce_fusion_kernel_oneshot_lamport"]
    assert driver.graph
    assert driver.same_on_all_ranks(CASE)


def test_what_the_bench_compares_with_is_what_a_recipe_may_name(monkeypatch):
    for name in ("torch", "forkwheel.gpu.correctness"):
        monkeypatch.setitem(sys.modules, name, Anything(name))
    worker = load_module(bench.WORKER).TimingWorker

    assert tuple(worker._variants(object.__new__(worker), {"shots": []}, [])) == OTHERS
