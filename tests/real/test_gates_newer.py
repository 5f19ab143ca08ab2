"""The audit on the newest pair, whose files and predicates are others: nothing in it knows their names."""

from __future__ import annotations

import subprocess
import sys
import zipfile

import pytest

from forkwheel.gates.arch import Arch
from forkwheel.gates.audit import audit
from forkwheel.gates.model import Audit, Entry

WHEELS = ("sglang==0.5.23", "flashinfer-python==0.7.2")
# What lies on the fusion's path; the whole wheels hold 480 MB of sources.
PARTS = (
    "sglang/srt/arg_groups/",
    "sglang/srt/layers/flashinfer_comm_fusion.py",
    "sglang/srt/layers/layer_boundary/",
    "sglang/srt/runtime_context.py",
    "sglang/srt/utils/",
    "flashinfer/comm/",
    "flashinfer/compilation_context.py",
    "flashinfer/data/csrc/trtllm_allreduce",
    "flashinfer/data/include/flashinfer/comm/",
    "flashinfer/jit/",
    "flashinfer/utils.py",
)
ENTRIES = (
    Entry("sglang.srt.arg_groups.overrides:_flashinfer_allreduce_fusion_auto_enable"),
    Entry("sglang.srt.layers.layer_boundary.residual.add_norm:flashinfer_ar_fusion_applies"),
    Entry("sglang.srt.layers.flashinfer_comm_fusion:resolve_flashinfer_allreduce_fusion_backend"),
    Entry("flashinfer.comm.trtllm_ar:trtllm_allreduce_fusion"),
)


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    work = tmp_path_factory.mktemp("newer")
    choice = ["--no-deps", "--only-binary", ":all:", "--python-version", "3.12", "--platform", "manylinux_2_34_x86_64"]
    command = [sys.executable, "-m", "pip", "download", "--quiet", *choice, "--dest", str(work), *WHEELS]
    subprocess.run(command, check=True)
    roots = {}
    for wheel in sorted(work.glob("*.whl")):
        root = roots[wheel.name.split("-")[0]] = work / wheel.stem
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(root, [n for n in archive.namelist() if n.startswith(PARTS) or n.count("/") == 1])
    return audit(roots, target=Arch(12, 0), references=(Arch(9, 0), Arch(10, 0)), entries=ENTRIES)


def test_the_gates_of_sglang_are_found_behind_platform_attributes(audited: Audit) -> None:
    closed = {(step.gate.place.path, step.gate.symbol.rpartition(":")[2]) for step in audited.closed}

    assert {
        ("sglang/srt/layers/flashinfer_comm_fusion.py", "_resolve_backend"),
        ("sglang/srt/layers/layer_boundary/residual/add_norm.py", "flashinfer_ar_fusion_applies"),
        ("sglang/srt/arg_groups/overrides.py", "_flashinfer_allreduce_fusion_auto_enable"),
    } <= closed


def test_the_architecture_list_and_the_headers_are_open(audited: Audit) -> None:
    lists = [s.gate for s in audited.path if s.gate.kind == "list" and s.gate.place.path == "flashinfer/jit/comm.py"]
    headers = [step for step in audited.path if step.gate.place.path.endswith("trtllm_allreduce_fusion.cuh")]

    assert [gate.state(Arch(12, 0)) for gate in lists] == ["yes"]
    assert headers
    assert not [step for step in headers if step in audited.closed]
