"""Drives FlashInfer's ``trtllm_allreduce_fusion`` for forkwheel's GPU checks."""

from pathlib import Path

import flashinfer.comm as comm
import torch

from forkwheel.gpu.rank_main import load_module

PATTERNS = {
    "all-reduce": comm.AllReduceFusionPattern.kAllReduce,
    "norm": comm.AllReduceFusionPattern.kARResidualRMSNorm,
    "norm-fp8": comm.AllReduceFusionPattern.kARResidualRMSNormFP8Quant,
    "norm-fp4": comm.AllReduceFusionPattern.kARResidualRMSNormFP4Quant,
    "norm-out-fp8": comm.AllReduceFusionPattern.kARResidualRMSNormOutFP8Quant,
    "norm-out-fp4": comm.AllReduceFusionPattern.kARResidualRMSNormOutFP4Quant,
}
LAYOUTS = {
    "swizzled-128x4": comm.QuantizationSFLayout.SWIZZLED_128x4,
    "linear": comm.QuantizationSFLayout.LINEAR,
}
EPSILON = 1e-6
Shots = load_module(Path(__file__).with_name("shots.py")).Shots


class Driver(Shots):
    """One workspace for the 16-bit types and one for fp32, each for the largest shape."""

    def __init__(self, rank):
        super().__init__(rank)
        self.workspaces = {}

    def unsupported(self, case):
        if reason := super().unsupported(case):
            return reason
        if "fp4" in case["pattern"]:
            if case["dtype"] == "float32":
                return "FP4 is for the 16-bit types"
            if torch.cuda.get_device_capability()[0] < 10:
                return "FP4 needs SM100 or later"
        return None

    def begin(self, case):
        self.workspace(case)

    def workspace(self, case):
        """Return the workspace's device tensor, made on first use by all ranks together."""
        wide = case["dtype"] == "float32"
        if wide not in self.workspaces:
            settings = self.rank.settings
            # The two-shot buffer is sized for 16-bit values: fp32 needs twice the tokens.
            tokens = settings["max_tokens"] * (2 if wide else 1)
            self.workspaces[wide] = comm.trtllm_create_ipc_workspace_for_all_reduce_fusion(
                self.rank.rank,
                self.rank.world_size,
                tokens,
                settings["max_hidden"],
                use_fp32_lamport=wide,
            )
        return self.workspaces[wide][1]

    def call(self, case, tensors):
        outputs = case["outputs"]
        quantised = "fp8" if "fp8" in outputs else "fp4" if "fp4" in outputs else None
        comm.trtllm_allreduce_fusion(
            allreduce_in=tensors["input"],
            world_size=self.rank.world_size,
            world_rank=self.rank.rank,
            token_num=case["tokens"],
            hidden_dim=case["hidden"],
            workspace_ptrs=self.workspace(case),
            launch_with_pdl=case["pdl"],
            trigger_completion_at_end=case.get("trigger_at_end", False),
            fp32_acc=case["fp32_accumulation"],
            pattern_code=PATTERNS[case["pattern"]],
            use_oneshot=case["shot"] == "one-shot",
            allreduce_out=tensors["sum"] if "sum" in outputs else None,
            residual_in=tensors["residual_input"],
            residual_out=tensors["residual"] if "residual" in outputs else None,
            norm_out=tensors["norm"] if "norm" in outputs else None,
            quant_out=tensors[quantised] if quantised else None,
            scale_out=tensors["scales"] if quantised == "fp4" else None,
            rms_gamma=tensors["gamma"],
            rms_eps=EPSILON,
            scale_factor=tensors[f"{quantised}_scale"] if quantised else None,
            layout_code=LAYOUTS[case["layout"]] if quantised == "fp4" else None,
        )

    def close(self):
        for workspace in self.workspaces.values():
            comm.trtllm_destroy_ipc_workspace_for_all_reduce_fusion(workspace[0])
