"""What every driver of ``trtllm_allreduce_fusion``'s kernels shares, however they are called."""

KERNELS = {
    "one-shot": "allreduce_fusion_kernel_oneshot_lamport",
    "two-shot": "allreduce_fusion_kernel_twoshot_sync",
    "chosen": "allreduce_fusion_kernel_",
}


class Shots:
    """The kernel of each shot, and the cases for which there is none."""

    graph = True

    def __init__(self, rank):
        self.rank = rank

    def unsupported(self, case):
        if case["shot"] == "two-shot" and case["tokens"] <= self.rank.world_size:
            return "two-shot needs more tokens than ranks"
        if case["dtype"] == "float32" and case["fp32_accumulation"]:
            return "fp32 is summed in fp32 anyway"
        return None

    def kernels(self, case):
        return [KERNELS[case["shot"]]]

    def same_on_all_ranks(self, case):
        return True
