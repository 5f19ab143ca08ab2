"""FlashInfer's communication module for sm_120a: compiled once for real, counted, packed, and found by the fork."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from kernel_support import RECIPE, open_shop

from forkwheel.console import Console
from forkwheel.cuda.build_root import build_root
from forkwheel.cuda.census import census
from forkwheel.cuda.census_rules import check_rules
from forkwheel.cuda.kernel_config import Kernels, load_kernels
from forkwheel.cuda.kernel_wheel import KernelOptions, KernelWheel, make_kernel_wheel
from forkwheel.cuda.kernels import KernelShop, reading_tools
from forkwheel.cuda.module import Module, recorded
from forkwheel.cuda.specification import compile_environment, evaluate, stage_inputs
from forkwheel.cuda.targets import parse_targets
from forkwheel.cuda.toolchain import link_tree
from forkwheel.errors import VerificationError
from forkwheel.recipe import Recipe
from forkwheel.store import Store
from forkwheel.wheels.environment import build_environment

VERSION = "0.6.3+sm120.1"
TARGET = parse_targets("12.0a")
NORMS = "flashinfer::trtllm_allreduce::reduce_fusion"


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return load_kernels(RECIPE / "kernels.toml")


@pytest.fixture(scope="module")
def shop(store: Store, kernels: Kernels) -> KernelShop:
    return open_shop(store, kernels)


@pytest.fixture(scope="module")
def made(
    recipe: Recipe, store: Store, patched_trees: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> KernelWheel:
    """Compile the whole module, or take it from the cache that FORKWHEEL_TEST_CACHE names."""
    return make_kernel_wheel(
        patched_trees["flashinfer-python"],
        recipe=recipe,
        version=VERSION,
        epoch=recipe.package("flashinfer-python").epoch,
        options=KernelOptions(),
        store=store,
        log=Console(stream=io.StringIO()).bind("sm120"),
        dest=tmp_path_factory.mktemp("kernels"),
    )


def test_the_module_has_the_kernels_of_its_three_files(made: KernelWheel) -> None:
    files = ("trtllm_allreduce", "trtllm_allreduce_fusion", "trtllm_moe_allreduce_fusion")
    counted = [sum(kernel.family.split("::")[1] == name for kernel in made.census.kernels) for name in files]

    assert counted == [921, 336, 192]
    assert len(made.census.kernels) == sum(counted)
    assert made.census.targets == ("sm_120a",)


def test_every_instance_that_should_waits_and_launches(made: KernelWheel) -> None:
    without = {
        family.name: len(family.kernels)
        for family in made.census.families
        if family.count(lambda kernel: kernel.waits > 0 and kernel.launches > 0) < len(family.kernels)
    }

    assert without == {f"{NORMS}::lamport_initialize_kernel": 3}
    assert min(kernel.instructions for kernel in made.census.kernels) > 24


def test_only_the_ceiling_patch_fills_the_lamport_kernels(
    stock_trees: dict[str, Path], shop: KernelShop, kernels: Kernels, tmp_path: Path
) -> None:
    """With the JIT list widened and nothing else, the module compiles, and 480 kernels do nothing."""
    tree = tmp_path / "tree"
    shutil.copytree(stock_trees["flashinfer-python"], tree, symlinks=True)
    generator = tree / "flashinfer" / "jit" / "comm.py"
    text = generator.read_text()
    widened = text.replace("supported_major_versions=[9, 10]", "supported_major_versions=[9, 10, 12]")
    assert widened != text
    generator.write_text(widened)
    cubin = compile_device_code(tree, "trtllm_allreduce.cu", shop=shop, kernels=kernels, dest=tmp_path)
    taken = census([cubin], tools=reading_tools(shop.lock, store=shop.store, log=shop.log))

    with pytest.raises(VerificationError) as caught:
        check_rules(taken, kernels.rules, targets=["sm_120a"], partial=True)

    family = f"{NORMS}::lamport_style_one_shot_all_reduce_norm_kernel"
    assert f"{family}: 480 of 480 kernels are empty, of 16 instructions at most" in caught.value.message
    assert "allreduce-no-sm120-ceiling.patch is probably missing" in caught.value.message


def compile_device_code(tree: Path, unit: str, *, shop: KernelShop, kernels: Kernels, dest: Path) -> Path:
    """Compile a unit's device code alone, which is what a census reads."""
    python = build_environment(shop.lock.of("specification"), store=shop.store, log=shop.log)
    with build_root(shop.store) as root:
        stage_inputs(root, tree=tree, kernels=kernels, toolchain=shop.toolchain, python=python)
        (module,) = evaluated(root, shop=shop, kernels=kernels, python=python)
        command = next(list(candidate.command) for candidate in module.units if candidate.name == unit)
        (root.stage / "objects" / module.name).mkdir()
        command[command.index("-c")] = "-cubin"
        command[command.index("-o") + 1] = str(root.visible("unit.cubin"))
        root.run(command, environment=compile_environment(shop.toolchain)).check_returncode()
        return Path(shutil.copy(root.stage / "unit.cubin", dest))


def evaluated(root, *, shop: KernelShop, kernels: Kernels, python: Path) -> tuple[Module, ...]:
    return evaluate(
        root,
        kernels=kernels,
        modules=["trtllm_comm"],
        targets=TARGET,
        toolchain=shop.toolchain,
        python=python,
    )


SPECIFY = """
import sys
sys.path.insert(0, sys.argv[1])
import flashinfer, sysconfig, tvm_ffi, torch, pathlib
from flashinfer.jit.comm import gen_trtllm_comm_module
specification = gen_trtllm_comm_module()
specification.write_ninja()
print(specification.ninja_path, sysconfig.get_path("include"), pathlib.Path(tvm_ffi.__file__).parent, sep="\\n")
"""


def test_the_specification_is_flashinfers_own(
    patched_trees: dict[str, Path], shop: KernelShop, kernels: Kernels, cpu_torch_python: Path, tmp_path: Path
) -> None:
    """What stand-ins give is what the whole package gives, imported with a real torch."""
    tree = tmp_path / "tree"
    link_tree(patched_trees["flashinfer-python"], tree)
    for name, path in kernels.links:
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).symlink_to(tree / path)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "CUDA_HOME": str(shop.toolchain.cuda_home),
        "FLASHINFER_CUDA_ARCH_LIST": "12.0a",
    }
    command = [str(cpu_torch_python), "-c", SPECIFY, str(tree)]
    said = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    ninja_file, include, tvm_ffi = said.splitlines()[-3:]
    python = build_environment(shop.lock.of("specification"), store=shop.store, log=shop.log)
    expanded = subprocess.run(
        [str(python.with_name("ninja")), "-f", ninja_file, "-t", "compdb"], check=True, capture_output=True, text=True
    ).stdout
    moved = {
        str(Path(ninja_file).parent): "objects/trtllm_comm",
        str(tree): "tree",
        str(shop.toolchain.cuda_home): "toolkit",
        tvm_ffi: "packages/tvm_ffi",
        include: "python",
    }
    expected = []
    for entry in json.loads(expanded):
        text = entry["command"]
        for old, new in moved.items():
            text = text.replace(old, new)
        expected.append(shlex.split(text))

    with build_root(shop.store) as root:
        stage_inputs(
            root, tree=patched_trees["flashinfer-python"], kernels=kernels, toolchain=shop.toolchain, python=python
        )
        (module,) = evaluated(root, shop=shop, kernels=kernels, python=python)
    commands = [shlex.split(recorded(unit.command, toolchain=shop.toolchain)) for unit in module.units]
    link = shlex.split(recorded(module.link, toolchain=shop.toolchain))

    assert [
        [word for word in command if not word.startswith(("-objtemp", "-frandom-seed="))] for command in commands
    ] == expected[:-1]
    ours = ["-lcudart" if word == "-lcudart_static" else word for word in link]
    assert [word for word in ours if word in expected[-1]] == expected[-1]


LOAD = """
import json, sys
sys.path[:0] = sys.argv[1:]
import flashinfer
from flashinfer.jit.comm import gen_trtllm_comm_module
specification = gen_trtllm_comm_module()
result = {"aot": specification.is_aot, "path": str(specification.get_library_path())}
if specification.is_aot:
    result["callable"] = callable(specification.build_and_load().trtllm_allreduce_fusion)
result["ninja"] = specification.ninja_path.exists()
print(json.dumps(result))
"""


@dataclass(frozen=True)
class Installed:
    """The patched package and the jit-cache wheel, side by side."""

    python: Path
    tree: Path
    site: Path
    home: Path

    def load(self, targets: str, *, tree: Path | None = None) -> subprocess.CompletedProcess[str]:
        (self.home / "bin").mkdir(exist_ok=True)
        for name in ("nvcc", "c++", "g++", "gcc", "ninja"):
            (self.home / "bin" / name).write_text("#!/bin/sh\nexit 99\n")
            (self.home / "bin" / name).chmod(0o755)
        environment = {
            "PATH": f"{self.home / 'bin'}:/usr/bin:/bin",
            "HOME": str(self.home),
            "CUDA_HOME": str(self.home),
            "FLASHINFER_CUDA_ARCH_LIST": targets,
        }
        command = [str(self.python), "-c", LOAD, str(tree or self.tree), str(self.site)]
        return subprocess.run(command, env=environment, check=False, capture_output=True, text=True)


@pytest.fixture
def installed(made: KernelWheel, patched_trees: dict[str, Path], cpu_torch_python: Path, tmp_path: Path) -> Installed:
    with zipfile.ZipFile(made.wheel.path) as archive:
        archive.extractall(tmp_path / "site")
    return Installed(cpu_torch_python, patched_trees["flashinfer-python"], tmp_path / "site", tmp_path)


def test_the_fork_finds_the_module_and_starts_no_compiler(installed: Installed) -> None:
    run = installed.load("12.0a")

    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout.splitlines()[-1])
    assert (result["aot"], result["callable"], result["ninja"]) == (True, True, False)
    assert result["path"].startswith(str(installed.site))


@pytest.mark.parametrize("targets", ["9.0a", "9.0a 12.0a", "12.1a"])
def test_a_module_that_does_not_cover_the_gpus_is_skipped_with_one_line(installed: Installed, targets: str) -> None:
    run = installed.load(targets)

    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout.splitlines()[-1])["aot"] is False
    (line,) = [line for line in (run.stderr + run.stdout).splitlines() if "skipping the prebuilt" in line]
    assert "it was compiled for sm_120a and not for" in line


def test_stock_flashinfer_is_refused(installed: Installed, stock_trees: dict[str, Path]) -> None:
    run = installed.load("9.0a", tree=stock_trees["flashinfer-python"])

    assert run.returncode
    last = run.stderr.strip().splitlines()[-1]
    assert "serves no other; this is flashinfer 0.6.3." in last
    assert "Install flashinfer-python==0.6.3+sm120.1" in last


def test_the_wheel_runs_beside_cuda_12_and_13(made: KernelWheel) -> None:
    assert made.build.toolchain.needs_driver == 13000
    assert made.wheel.filename.startswith("flashinfer_jit_cache-0.6.3+sm120.1-cp39-abi3-manylinux_2_")
    libraries = subprocess.run(
        ["readelf", "-d", str(unpacked(made))], check=True, capture_output=True, text=True
    ).stdout
    assert "NEEDED" in libraries
    assert "libcu" not in libraries


def unpacked(made: KernelWheel) -> Path:
    folder = made.wheel.path.parent / "unpacked"
    with zipfile.ZipFile(made.wheel.path) as archive:
        return Path(archive.extract("flashinfer_jit_cache/jit_cache/trtllm_comm/trtllm_comm.so", folder))
