"""The worker that times one shape: the fusion, by shot, and what would run otherwise.

Everything is timed in CUDA graphs of many calls each, over several input sets, with device
events, in rounds that alternate between the variants, so that drift shows as noise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from itertools import pairwise
from typing import Any

from forkwheel.gpu.correctness import EPSILON, join, open_driver
from forkwheel.gpu.rank_main import Rank

torch: Any = import_module("torch")

CALLS, SETS, ROUNDS, REPLAYS = 24, 4, 6, 8
#: NCCL sums in place: what it is given again and again must not grow beyond the type.
_SMALL = 2.0**-100
_ONE_GPU = "NCCL refuses two ranks on one GPU"
_Body = Callable[[int], None]


class TimingWorker:
    """Keeps the driver and the baselines' group open."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.driver = open_driver(rank)
        self._shared: list[Any] = []
        self.group: Any = torch.distributed.new_group(backend="nccl") if rank.settings["gpu_each"] else None

    def run(self, case: dict[str, Any]) -> dict[str, Any]:
        """Time every variant of a case; each is either rounds of microseconds for one call, or a reason."""
        tensors = [self._tensors(case) for _ in range(SETS)]
        graphs: dict[str, Any] = {}
        skipped: dict[str, str] = {}
        for name, make in self._variants(case, tensors).items():
            if name.removeprefix("fused ") not in (*case["shots"], *case["others"]):
                continue
            body = make()
            if isinstance(body, str):
                skipped[name] = body
            else:
                graphs[name] = self._graph(body)
        rounds = self._time(graphs, tensors)
        torch.distributed.barrier()  # no rank may release what another still reads
        return {"rounds": rounds, "skipped": skipped}

    def _variants(self, case: dict[str, Any], tensors: list[dict[str, Any]]) -> dict[str, Callable[[], _Body | str]]:
        fused = {f"fused {shot}": partial(self._fused, case | {"shot": shot}, tensors) for shot in case["shots"]}
        symmetric = {f"symmetric {shot}": partial(self._symmetric, shot, tensors) for shot in ("one-shot", "two-shot")}
        return {**fused, "nccl": partial(self._nccl, tensors), **symmetric}

    def _tensors(self, case: dict[str, Any]) -> dict[str, Any]:
        shape, dtype = (case["tokens"], case["hidden"]), getattr(torch, case["dtype"])
        names = ("input", "residual_input", "residual", "norm", "sum")
        tensors = {name: torch.randn(*shape, device="cuda").to(dtype) for name in names}
        tensors["start"] = tensors["input"] * _SMALL
        tensors["reduced"] = tensors["start"].clone()
        return tensors | {"gamma": torch.randn(case["hidden"], device="cuda").to(dtype)}

    def _fused(self, case: dict[str, Any], tensors: list[dict[str, Any]]) -> _Body | str:
        if reason := self.driver.unsupported(case):
            return str(reason)
        self.driver.begin(case)
        return lambda index: self.driver.call(case, tensors[index])

    def _nccl(self, tensors: list[dict[str, Any]]) -> _Body | str:
        group = self.group
        if group is None:
            return _ONE_GPU

        def body(index: int) -> None:
            one = tensors[index]
            torch.distributed.all_reduce(one["reduced"], group=group)
            self._add_and_norm(one["reduced"], one)

        return body

    def _symmetric(self, shot: str, tensors: list[dict[str, Any]]) -> _Body | str:
        """Sum over torch's symmetric memory, into which the input is copied first."""
        if self.group is None:
            return _ONE_GPU
        name, first = self.group.group_name, tensors[0]["input"]
        try:
            shared = [buffer[: first.numel()].view_as(first) for buffer in self._buffers(first.dtype)]
            operations = torch.ops.symm_mem
            sum_of = operations.one_shot_all_reduce if shot == "one-shot" else operations.two_shot_all_reduce_
            sum_of(shared[0], "sum", name)
            torch.cuda.synchronize()
        except (ImportError, AttributeError, RuntimeError) as error:
            return f"{type(error).__name__}: {error}"[:200]

        def body(index: int) -> None:
            one = tensors[index]
            shared[index].copy_(one["input"])
            self._add_and_norm(sum_of(shared[index], "sum", name), one)

        return body

    def _buffers(self, dtype: Any) -> list[Any]:
        """Return the symmetric buffers, which all shapes share and which live as long as the group."""
        if not self._shared:
            memory = import_module("torch.distributed._symmetric_memory")
            size = self.rank.settings["max_tokens"] * self.rank.settings["max_hidden"]
            self._shared = [memory.empty(size, dtype=dtype, device="cuda") for _ in range(SETS)]
            for buffer in self._shared:
                memory.rendezvous(buffer, self.group.group_name)
        return self._shared

    def _add_and_norm(self, total: Any, one: dict[str, Any]) -> None:
        """Do what the fusion does after the sum; the result stays in the graph's own memory.

        Nothing of ``one`` may be replaced: graphs that were captured before write to its tensors.
        """
        torch.add(total, one["residual_input"], out=one["residual"])
        torch.nn.functional.rms_norm(one["residual"], one["gamma"].shape, one["gamma"], EPSILON)

    def _graph(self, body: _Body) -> Any:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for index in range(SETS):
                body(index)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        torch.distributed.barrier()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for call in range(CALLS):
                body(call % SETS)
        for _ in range(3):
            graph.replay()
        torch.cuda.synchronize()
        return graph

    def _time(self, graphs: dict[str, Any], tensors: list[dict[str, Any]]) -> dict[str, list[list[float]]]:
        rounds: dict[str, list[list[float]]] = {name: [] for name in graphs}
        for _ in range(ROUNDS):
            for name, graph in graphs.items():
                for one in tensors:
                    one["reduced"].copy_(one["start"])
                torch.cuda.synchronize()
                torch.distributed.barrier()
                graph.replay()  # brings the ranks into step
                marks = [torch.cuda.Event(enable_timing=True) for _ in range(REPLAYS + 1)]
                marks[0].record()
                for mark in marks[1:]:
                    graph.replay()
                    mark.record()
                torch.cuda.synchronize()
                pairs = pairwise(marks)
                rounds[name].append([1000 * first.elapsed_time(second) / CALLS for first, second in pairs])
        return rounds

    def close(self) -> None:
        """Leave the groups."""
        self.driver.close()
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def start(rank: Rank) -> TimingWorker:
    """Join the group and open the driver."""
    join(rank)
    return TimingWorker(rank)
