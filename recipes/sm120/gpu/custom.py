"""Drives FlashInfer's ``trtllm_custom_all_reduce`` for forkwheel's GPU checks."""

import flashinfer.comm as comm
import torch
import torch.distributed as dist

STRATEGIES = {
    "one-shot": comm.AllReduceStrategyType.ONESHOT,
    "two-shot": comm.AllReduceStrategyType.TWOSHOT,
}
LAMPORT_TOKENS = 16
LAMPORT_HIDDEN = 256
EPSILON = 1e-6


class Driver:
    """One workspace for the largest shape; its flag is a number that the host counts up."""

    graph = False  # a graph would replay one and the same flag

    def __init__(self, rank):
        self.rank = rank
        self.flag = 0
        self.workspace = None

    def open(self):
        settings = self.rank.settings
        self.workspace = comm.trtllm_create_ipc_workspace_for_all_reduce(
            rank=self.rank.rank,
            tp_size=self.rank.world_size,
            max_token_num=settings["max_tokens"],
            hidden_dim=settings["max_hidden"],
        )
        self.pointers = [torch.tensor(pointers, dtype=torch.int64) for pointers in self.workspace]

    def unsupported(self, case):
        if case["shot"] == "two-shot" and case["tokens"] <= self.rank.world_size:
            return "two-shot needs more tokens than ranks"
        if self.lamport(case) and not self.whole_warps(case):
            return "the Lamport kernel rounds a token's threads up to whole warps, and reads beyond the token"
        if case["shot"] == "two-shot" and not self.even_blocks(case):
            return "the two-shot kernel's blocks overlap at this size, and some values are summed twice"
        return None

    def even_blocks(self, case):
        """Tell whether a rank's share fills the two-shot launch, which rounds its threads up to whole warps.

        Where it does not, a block's last threads work on what belongs to the next block, which
        then adds to sums that are already there.
        """
        values = 16 // (4 if case["dtype"] == "float32" else 2)
        return case["tokens"] * case["hidden"] // (values * self.rank.world_size) % 32 == 0

    def whole_warps(self, case):
        """Tell whether the Lamport launch has exactly one thread for each 16 bytes of a token."""
        threads = case["hidden"] // 8
        warps = -(-threads // 32)
        least = 4 if case["hidden"] >= 4096 else 32 if self.rank.world_size == 2 else 16
        blocks = min(-(-warps // least), 8)
        return warps // blocks * 32 * blocks == threads

    def lamport(self, case):
        return (
            case["pattern"] == "norm"
            and case["shot"] == "one-shot"
            and case["dtype"] != "float32"
            and case["tokens"] <= LAMPORT_TOKENS
            and case["hidden"] >= LAMPORT_HIDDEN
        )

    def kernels(self, case):
        if case["pattern"] == "all-reduce":
            return ["oneShotAllReduceKernel" if case["shot"] == "one-shot" else "twoShotAllReduceKernel"]
        if case["shot"] == "two-shot":
            return ["twoShotAllReduceKernel", "rms_norm_kernel"]
        if self.lamport(case):
            return ["lamport_style_one_shot_all_reduce_norm_kernel"]
        return ["one_shot_all_reduce_norm_kernel"]

    def same_on_all_ranks(self, case):
        # The fused one-shot kernels begin each sum with the rank's own part.
        return case["pattern"] == "all-reduce" or case["shot"] == "two-shot" or self.rank.world_size == 2

    def begin(self, case):
        """Clear the Lamport buffers: a call clears the one before it only as far as its own shape reaches."""
        if self.workspace is None:
            self.open()
        torch.cuda.synchronize()
        dist.barrier()
        buffers = [self.workspace[index][self.rank.rank] for index in (4, 5, 6)]
        world = self.rank.world_size
        size = world * LAMPORT_TOKENS * world * self.rank.settings["max_hidden"] * 2
        comm.trtllm_ar.trtllm_lamport_initialize_all(*buffers, size // 2, torch.float16)
        torch.cuda.synchronize()
        dist.barrier()

    def call(self, case, tensors):
        self.flag += 1
        norm = case["pattern"] == "norm"
        comm.trtllm_custom_all_reduce(
            inp=tensors["input"],
            out=tensors["norm" if norm else "sum"],
            tp_size=self.rank.world_size,
            tp_rank=self.rank.rank,
            token_num=case["tokens"],
            fusion_op_code=comm.AllReduceFusionOp.RESIDUAL_RMS_NORM if norm else comm.AllReduceFusionOp.NONE,
            strategy_code=STRATEGIES[case["shot"]],
            config_code=0,
            launch_with_pdl=case["pdl"],
            flag_value=self.flag,
            peer_comm_buffer_ptrs=self.pointers[0],
            peer_barrier_ptrs_in=self.pointers[2],
            peer_barrier_ptrs_out=self.pointers[3],
            bias=None,
            residual=tensors["residual_input"] if norm else None,
            weight=tensors["gamma"] if norm else None,
            weight_pre_residual_norm=None,
            eps=EPSILON,
            intermediate_buffer=tensors["residual"] if norm else None,
            lamport_peer_comm_buffer_ptrs_0=self.pointers[4],
            lamport_peer_comm_buffer_ptrs_1=self.pointers[5],
            lamport_peer_comm_buffer_ptrs_2=self.pointers[6],
        )

    def close(self):
        if self.workspace is not None:
            comm.trtllm_ar.trtllm_destroy_ipc_workspace_for_all_reduce(self.workspace)
