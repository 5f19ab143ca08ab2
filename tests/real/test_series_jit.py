"""The real FlashInfer, imported beside a CPU torch and the real cubin package: what it would compile."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TARGETS = ("9.0a", "10.0a", "12.0a")
# Said by the stand-in for nvcc; FlashInfer asks it for its version alone.
NVCC = """#!/bin/sh
echo "Cuda compilation tools, release 13.0, V13.0.88"
"""
GENCODE = "-gencode=arch=compute_120a,code=sm_120a"

SPECIFICATION = """
import json
import flashinfer
from flashinfer.jit.comm import gen_trtllm_comm_module

specification = gen_trtllm_comm_module()
print(json.dumps({"version": flashinfer.__version__, "flags": specification.extra_cuda_cflags}))
"""

MODULES = """
import json
from pathlib import Path
from flashinfer import aot

aot.jit_env.FLASHINFER_CSRC_DIR = Path(aot.__file__).parents[1] / "csrc"
c = aot.get_default_config()
specifications = aot.gen_all_modules(
    c["f16_dtype"], c["f8_dtype"], c["fa2_head_dim"], c["fa3_head_dim"], c["use_sliding_window"],
    c["use_logits_soft_cap"], aot.detect_sm_capabilities(), c["add_comm"], c["add_gemma"],
    c["add_oai_oss"], c["add_moe"], c["add_act"], c["add_misc"], c["add_xqa"],
)
print(json.dumps([specification.name for specification in specifications]))
"""


@dataclass(frozen=True)
class Flashinfer:
    """Runs Python code with one FlashInfer tree importable, and returns what it prints as JSON."""

    python: Path
    tree: Path
    folder: Path

    def run(self, code: str, *, target: str) -> subprocess.CompletedProcess[str]:
        nvcc = self.folder / "cuda" / "bin" / "nvcc"
        nvcc.parent.mkdir(parents=True, exist_ok=True)
        nvcc.write_text(NVCC)
        nvcc.chmod(0o755)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "PYTHONPATH": str(self.tree),
            "PYTHONDONTWRITEBYTECODE": "1",
            "CUDA_HOME": str(self.folder / "cuda"),
            "FLASHINFER_CUDA_ARCH_LIST": target,
            "FLASHINFER_WORKSPACE_BASE": str(self.folder),
            "NVSHMEM_INCLUDE_PATH": str(self.folder),
            "NVSHMEM_LIBRARY_PATH": str(self.folder),
        }
        return subprocess.run(
            [self.python, "-c", code], env=environment, cwd=self.folder, capture_output=True, text=True, check=False
        )

    def json(self, code: str, *, target: str) -> Any:
        done = self.run(code, target=target)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def stock(stock_trees: dict[str, Path], cpu_torch_python: Path, tmp_path: Path) -> Flashinfer:
    folder = tmp_path / "stock"
    folder.mkdir()
    return Flashinfer(cpu_torch_python, stock_trees["flashinfer-python"], folder)


@pytest.fixture
def patched(patched_trees: dict[str, Path], cpu_torch_python: Path, tmp_path: Path) -> Flashinfer:
    folder = tmp_path / "patched"
    folder.mkdir()
    return Flashinfer(cpu_torch_python, patched_trees["flashinfer-python"], folder)


def test_patched_compiles_the_all_reduce_for_sm120_beside_the_stock_cubins(patched: Flashinfer) -> None:
    said = patched.json(SPECIFICATION, target="12.0a")

    assert said["version"] == "0.6.3+sm120.1"
    assert [flag for flag in said["flags"] if flag.startswith("-gencode")] == [GENCODE]


def test_stock_raises_for_sm120(stock: Flashinfer) -> None:
    done = stock.run(SPECIFICATION, target="12.0a")

    assert done.returncode != 0
    assert "No supported CUDA architectures found for major versions [9, 10]." in done.stderr


@pytest.mark.parametrize("target", ["8.0", "11.0a"])
def test_patched_still_raises_for_what_it_does_not_know(patched: Flashinfer, target: str) -> None:
    done = patched.run(SPECIFICATION, target=target)

    assert done.returncode != 0
    assert "No supported CUDA architectures found" in done.stderr


@pytest.mark.parametrize("target", ["9.0a", "10.0a"])
def test_other_targets_get_the_same_flags(stock: Flashinfer, patched: Flashinfer, target: str) -> None:
    before, after = (tree.json(SPECIFICATION, target=target) for tree in (stock, patched))

    assert before["flags"] == after["flags"]


@pytest.mark.parametrize("target", TARGETS)
def test_ahead_of_time_list_gains_the_all_reduce_for_sm120_alone(
    stock: Flashinfer, patched: Flashinfer, target: str
) -> None:
    before, after = (tree.json(MODULES, target=target) for tree in (stock, patched))

    gained = ["trtllm_comm"] if target == "12.0a" else []
    assert len(before) > 600
    assert sorted(after) == sorted([*before, *gained])
    assert ("trtllm_comm" in after) == (target != "9.0a")


def test_ahead_of_time_list_leaves_out_what_does_not_build_for_sm120(patched: Flashinfer) -> None:
    names = patched.json(MODULES, target="12.0a")

    assert {"trtllm_mnnvl_comm", "mnnvl_moe_alltoall"}.isdisjoint(names)


def test_both_targets_together_get_each_module_once(patched: Flashinfer) -> None:
    names = patched.json(MODULES, target="10.0a 12.0a")

    assert {"trtllm_comm", "trtllm_mnnvl_comm", "mnnvl_moe_alltoall"} <= set(names)
    assert len(names) == len(set(names))
