"""The compiler judges what the audit says of kernels: emptied or not, with grid-dependency instructions or not."""

from __future__ import annotations

import io
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from forkwheel.console import Console
from forkwheel.cuda.cubins import extract_cubins
from forkwheel.cuda.disassembly import Counts, disassemble
from forkwheel.cuda.kernels import reading_tools
from forkwheel.cuda.toolchain import load_toolchain_lock, locked_toolchain
from forkwheel.gates.arch import Arch
from forkwheel.gates.cuda_gates import DEPENDENCY_CALL, WHOLE_BODY, CppFile
from forkwheel.gates.cuda_worker import find_cuda_gates
from forkwheel.gates.model import NO, Gate, Question
from forkwheel.store import Store

REPOSITORY = Path(__file__).resolve().parents[2]
HEADERS = ("include/flashinfer/comm/trtllm_allreduce.cuh", "include/flashinfer/comm/trtllm_allreduce_fusion.cuh")
EMPTY = 16  # instructions; an emptied kernel is padded to this many
ARCHS = {"sm_90a": Arch(9, 0), "sm_120a": Arch(12, 0)}

# One instance of each kernel: enough to see what its guards leave.
UNIT = """
#include "flashinfer/comm/trtllm_allreduce.cuh"
#include "flashinfer/comm/trtllm_allreduce_fusion.cuh"
using namespace flashinfer::trtllm_allreduce;
using namespace flashinfer::trtllm_allreduce::reduce_fusion;
namespace fusion = flashinfer::trtllm_allreduce_fusion;
void* kernels[] = {
  (void*)rms_norm_kernel<half>,
  (void*)lamport_style_one_shot_all_reduce_norm_kernel<1, half, 2>,
  (void*)one_shot_all_reduce_norm_kernel<half, 2>,
  (void*)lamport_initialize_kernel<half>,
  (void*)oneShotAllReduceKernel<half, 2>,
  (void*)fusion::allreduce_fusion_kernel_oneshot_lamport<fusion::AllReduceFusionPattern::kAllReduce, half, 2, false>,
};
"""
KERNELS = {
    "rms_norm_kernel": HEADERS[0],
    "lamport_style_one_shot_all_reduce_norm_kernel": HEADERS[0],
    "one_shot_all_reduce_norm_kernel": HEADERS[0],
    "lamport_initialize_kernel": HEADERS[0],
    "oneShotAllReduceKernel": HEADERS[0],
    "allreduce_fusion_kernel_oneshot_lamport": HEADERS[1],
}


@dataclass(frozen=True)
class Statement:
    """What is said of a kernel for one architecture."""

    empty: bool
    dependency: bool


def said(gates: tuple[Gate, ...], kernel: str, arch: Arch) -> Statement:
    """Return what the audit's gates say: a closed whole body empties, a closed call is gone."""
    own = [gate for gate in gates if gate.symbol == kernel and gate.place.path == KERNELS[kernel]]
    bodies = [gate for gate in own if gate.holds.startswith(WHOLE_BODY)]
    calls = [gate for gate in own if gate.holds.startswith(DEPENDENCY_CALL)]
    empty = any(gate.state(arch) == NO for gate in bodies)
    return Statement(empty, not empty and any(gate.state(arch) != NO for gate in [*calls, *bodies]))


def compiled(counts: dict[str, Counts], kernel: str) -> Statement:
    """Return what the machine code says."""
    names = [name for name in counts if f"{len(kernel)}{kernel}" in name]
    assert len(names) == 1, (kernel, sorted(counts))
    found = counts[names[0]]
    return Statement(found.instructions <= EMPTY, found.waits + found.launches > 0)


@pytest.mark.parametrize("target", ARCHS)
@pytest.mark.parametrize("tree", ["stock", "patched"])
def test_what_the_audit_says_of_a_kernel_is_what_was_compiled(
    tree: str,
    target: str,
    stock_trees: dict[str, Path],
    patched_trees: dict[str, Path],
    store: Store,
    tmp_path: Path,
) -> None:
    root = {"stock": stock_trees, "patched": patched_trees}[tree]["flashinfer-python"]
    files = [CppFile("flashinfer-python", path, (root / path).read_text) for path in HEADERS]
    gates = find_cuda_gates(files, Question(Arch(12, 0), (Arch(9, 0), Arch(10, 0)))).gates
    log = Console(stream=io.StringIO()).bind("test")
    lock = load_toolchain_lock(REPOSITORY / "recipes" / "sm120")
    toolchain = locked_toolchain(lock, store=store, log=log)
    unit, cubin = tmp_path / "unit.cu", tmp_path / "unit.cubin"
    unit.write_text(UNIT)

    includes = [f"-I{root / folder}" for folder in ("include", "3rdparty/spdlog/include", "3rdparty/cutlass/include")]
    nvcc = [
        str(toolchain.cuda_home / "bin" / "nvcc"),
        "-std=c++17",
        "-cubin",
        f"-arch={target}",
        "--expt-relaxed-constexpr",
    ]
    subprocess.run([*nvcc, *includes, "-o", str(cubin), str(unit)], check=True, cwd=tmp_path)
    tools = reading_tools(lock, store=store, log=log)
    (counts,) = disassemble(extract_cubins([cubin], tools=tools, folder=tmp_path / "cubins"), tools=tools)

    arch = ARCHS[target]
    assert {k: said(gates, k, arch) for k in KERNELS} == {k: compiled(counts, k) for k in KERNELS}
    emptied = [kernel for kernel in KERNELS if compiled(counts, kernel).empty]
    stock_120 = tree == "stock" and target == "sm_120a"
    assert emptied == (["lamport_style_one_shot_all_reduce_norm_kernel"] if stock_120 else [])
