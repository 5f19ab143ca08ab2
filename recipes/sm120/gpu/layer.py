"""Drives the function through which SGLang's layers call the fusion, for forkwheel's GPU checks.

Where SGLang's dependencies are missing, the modules that its file imports are stood in for; the
file itself is the fork's own, as installed.
"""

import contextlib
import importlib
import importlib.metadata
import importlib.util
import sys
import types
from pathlib import Path

import torch
import torch.distributed as dist

from forkwheel.gpu.rank_main import load_module

MODULE = "sglang.srt.layers.flashinfer_comm_fusion"
ONE_SHOT = {"one-shot": True, "two-shot": False, "chosen": None}
Shots = load_module(Path(__file__).with_name("shots.py")).Shots


def stand_in(name, **values):
    module = types.ModuleType(name)
    module.__path__ = []
    vars(module).update(values)
    sys.modules[name] = module


def stubbed():
    """Import the file with stand-ins for what it imports."""
    distribution = importlib.metadata.distribution("sglang")
    file = distribution.locate_file(MODULE.replace(".", "/") + ".py")
    for name in ("sglang", "sglang.srt", "sglang.srt.layers"):
        stand_in(name)
    stand_in("sglang.srt.distributed", get_tensor_model_parallel_world_size=dist.get_world_size)
    stand_in("sglang.srt.utils", is_flashinfer_available=lambda: True)
    stand_in("sglang.srt.utils.custom_op", register_custom_op=lambda **options: lambda function: function)
    spec = importlib.util.spec_from_file_location(MODULE, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def unstubbed():
    """Import the file as it is, and make the group that SGLang's layers ask for; None where that can't be."""
    try:
        parallel = importlib.import_module("sglang.srt.distributed.parallel_state")
        module = importlib.import_module(MODULE)
    except ImportError:
        for name in [name for name in sys.modules if name.split(".")[0] == "sglang"]:
            del sys.modules[name]
        return None
    parallel.init_distributed_environment(dist.get_world_size(), dist.get_rank(), backend="gloo")
    parallel.initialize_model_parallel(dist.get_world_size(), backend="gloo")
    return module


@contextlib.contextmanager
def poisoned():
    """Fill what the function allocates for its results with NaN, so that nothing unwritten passes."""
    plain = torch.empty_like
    torch.empty_like = lambda tensor: plain(tensor).fill_(float("nan"))
    try:
        yield
    finally:
        torch.empty_like = plain


class Driver(Shots):
    """SGLang's own workspace, made by the first call for that call's hidden size."""

    def __init__(self, rank):
        super().__init__(rank)
        self.module = unstubbed()
        self.stubs = self.module is None
        if self.stubs:
            self.module = stubbed()
        self.made_for = None

    def unsupported(self, case):
        if reason := super().unsupported(case):
            return reason
        if case["dtype"] == "float32" and case["shot"] == "two-shot" and case["tokens"] > 512 * self.rank.world_size:
            return "the workspace is sized for 16-bit values: it has no room for fp32 with two-shot at so many tokens"
        return None

    def begin(self, case):
        """Make the workspace anew where hidden size or type change: a server has one of each."""
        wanted = (case["hidden"], case["dtype"])
        if self.made_for != wanted:
            self.cleanup()
            self.made_for = wanted

    def cleanup(self):
        torch.cuda.synchronize()
        dist.barrier()
        self.module.cleanup_flashinfer_workspace()

    def call(self, case, tensors):
        with poisoned():
            norm, residual = self.module.flashinfer_allreduce_residual_rmsnorm(
                tensors["input"],
                tensors["residual_input"],
                tensors["gamma"],
                eps=1e-6,
                use_oneshot=ONE_SHOT[case["shot"]],
                fp32_acc=case["fp32_accumulation"],
            )
        if norm is None:
            raise RuntimeError("the layer's function declined to fuse")
        tensors["norm"].copy_(norm)
        tensors["residual"].copy_(residual)

    def close(self):
        self.cleanup()
