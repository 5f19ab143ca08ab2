"""The worker that runs a driver's cases on a GPU and compares them with the fp64 reference.

Runs inside the ranks, in the environment under test. A case holds ``dtype``, ``tokens``,
``hidden``, ``outputs`` (of sum, residual, norm, fp8, fp4), ``calls`` and ``replays``, and what
its driver reads. The driver is a Python file with a class ``Driver(rank)`` that has

- ``unsupported(case)``: why this GPU or these kernels can't run it, or None
- ``kernels(case)``: for each kernel of one call, a part of its name
- ``same_on_all_ranks(case)``: whether the ranks' outputs must be equal bit for bit
- ``begin(case)``: called before the first call of a case
- ``call(case, tensors)``: one call; reads ``input``, ``residual`` and ``gamma``, writes the outputs
- ``graph``: whether a call may be captured in a CUDA graph and replayed
"""

from __future__ import annotations

import functools
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from forkwheel.gpu import reference
from forkwheel.gpu.rank_main import Rank, load_module

torch: Any = import_module("torch")

EPSILON = 1e-6
FP8_SCALE, FP4_SCALE = 0.0625, 64.0
_FP8_NAN, _FP4_FILL = 0x7F, 0x77


def start(rank: Rank) -> Correctness:
    """Join the group and open the driver."""
    join(rank)
    return Correctness(rank)


def join(rank: Rank) -> None:
    """Take the rank's GPU and meet the other ranks (over the CPU: two ranks may share a GPU)."""
    torch.cuda.set_device(rank.device)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{rank.meeting}", rank=rank.rank, world_size=rank.world_size
    )


def open_driver(rank: Rank) -> Any:
    """Load the driver that the settings name."""
    return load_module(Path(rank.settings["driver"])).Driver(rank)


class Correctness:
    """Runs cases one after the other with a driver that stays open."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.driver = open_driver(rank)
        self.noop = bool(rank.settings.get("noop"))
        self.forced = bool(rank.settings.get("forced"))

    def run(self, case: dict[str, Any]) -> dict[str, Any]:
        """Run a case; an error names the kernels that the case was to run."""
        if not self.forced and (reason := self.driver.unsupported(case)):
            return {"skip": reason}
        try:
            return self._run(case)
        except Exception as error:
            kernels = ", ".join(self.driver.kernels(case))
            raise RuntimeError(f"{error} (kernel {kernels})") from error

    def _run(self, case: dict[str, Any]) -> dict[str, Any]:
        """Make plain calls, one under the profiler, and replays of a CUDA graph."""
        began = time.perf_counter()
        self.driver.begin(case)
        tensors = Tensors(case, self.rank)
        figures: list[dict[str, Any]] = []
        for _ in range(case["calls"]):
            self._judged(tensors, figures, lambda: self._call(case, tensors))
        names = self._judged(tensors, figures, lambda: self._profiled(case, tensors))
        if self.driver.graph and case["replays"]:
            graph = self._captured(case, tensors)
            for _ in range(case["replays"]):
                self._judged(tensors, figures, graph.replay)
        return {
            "kernels": sorted(set(names)),
            "missing": _missing(self.driver.kernels(case), names),
            "figures": _worst(figures),
            "seconds": time.perf_counter() - began,
            "digest": tensors.digest() if self.driver.same_on_all_ranks(case) else "",
        }

    def close(self) -> None:
        """Release the driver's workspaces and leave the group."""
        self.driver.close()
        torch.distributed.destroy_process_group()

    def _call(self, case: dict[str, Any], tensors: Tensors) -> None:
        if not self.noop:
            self.driver.call(case, tensors.by_name)

    def _judged(self, tensors: Tensors, figures: list[dict[str, Any]], act: Any) -> Any:
        tensors.renew()
        torch.cuda.synchronize()
        answer = act()
        torch.cuda.synchronize()
        figures.append(tensors.judge())
        return answer

    def _profiled(self, case: dict[str, Any], tensors: Tensors) -> list[str]:
        activities = [torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profile:
            self._call(case, tensors)
            torch.cuda.synchronize()
        return [event.name for event in profile.events() if str(event.device_type).endswith("CUDA")]

    def _captured(self, case: dict[str, Any], tensors: Tensors) -> Any:
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            self._call(case, tensors)
        torch.cuda.synchronize()
        return graph


def _missing(expected: list[str], names: list[str]) -> list[str]:
    """Return the expected kernels that did not run, each as often as it is missing."""
    left = list(names)
    missing = []
    for part in expected:
        found = next((name for name in left if part in name), None)
        if found is None:
            missing.append(part)
        else:
            left.remove(found)
    return missing


def _worst(figures: list[dict[str, Any]]) -> dict[str, Any]:
    """Join the figures of all calls: for each output the largest errors, and the unwritten values' sum."""
    joined: dict[str, Any] = {}
    for figure in figures:
        for name, values in figure.items():
            known = joined.setdefault(name, {"error": 0.0, "row": 0.0, "unwritten": 0})
            known["unwritten"] += values["unwritten"]
            for key in ("error", "row"):
                known[key] = reference.larger(known[key], values[key])
    return joined


class Tensors:
    """A case's tensors: fresh inputs and poisoned outputs before every call."""

    def __init__(self, case: dict[str, Any], rank: Rank) -> None:
        self._case, self._rank = case, rank
        self._dtype = getattr(torch, case["dtype"])
        self._generator = torch.Generator(device="cuda")
        self._calls = 0
        tokens, hidden = case["tokens"], case["hidden"]
        self.by_name: dict[str, Any] = {
            name: self._empty(tokens, hidden) for name in ("input", "residual_input", "sum", "residual", "norm")
        }
        self.by_name["gamma"] = self._empty(hidden)
        self.by_name["fp8"] = torch.empty(tokens, hidden, dtype=torch.uint8, device="cuda")
        self.by_name["fp4"] = torch.empty(tokens, hidden // 2, dtype=torch.uint8, device="cuda")
        layout = case.get("layout", reference.SWIZZLED_128X4)
        size = reference.scale_count(tokens, hidden, layout)
        self.by_name["scales"] = torch.empty(size, dtype=torch.uint8, device="cuda")
        self.by_name["fp8_scale"] = torch.tensor([FP8_SCALE], device="cuda")
        self.by_name["fp4_scale"] = torch.tensor([FP4_SCALE], device="cuda")
        self._expected: dict[str, Any] = {}

    def _empty(self, *shape: int) -> Any:
        return torch.empty(*shape, dtype=self._dtype, device="cuda")

    def renew(self) -> None:
        """Draw new inputs (each rank knows those of all) and poison all outputs."""
        self._calls += 1
        self._generator.manual_seed(hash((self._case["seed"], self._calls)) % (1 << 63))
        tokens, hidden = self._case["tokens"], self._case["hidden"]
        inputs = [self._random(tokens, hidden) for _ in range(self._rank.world_size)]
        residual = self._random(tokens, hidden)
        gamma = (1 + 0.25 * self._random(hidden).float()).to(self._dtype)
        self.by_name["input"].copy_(inputs[self._rank.rank])
        self.by_name["residual_input"].copy_(residual)
        self.by_name["gamma"].copy_(gamma)
        self._expected = reference.expected(
            [part.double() for part in inputs], residual.double(), gamma.double(), EPSILON
        )
        for name in ("sum", "residual", "norm"):
            self.by_name[name].fill_(float("nan"))
        self.by_name["fp8"].fill_(_FP8_NAN)
        self.by_name["fp4"].fill_(_FP4_FILL)
        self.by_name["scales"].fill_(_FP8_NAN)

    def _random(self, *shape: int) -> Any:
        return torch.randn(*shape, generator=self._generator, device="cuda").to(self._dtype)

    def judge(self) -> dict[str, Any]:
        """Compare each output that the case has with its reference."""
        figures = {}
        for name in self._case["outputs"]:
            out = self._decoded(name)
            wanted = self._expected["norm" if name in ("fp8", "fp4") else name]
            whole, worst = reference.errors(out, wanted)
            unwritten = int(out.isnan().sum())
            figures[name] = {"error": whole, "row": worst, "unwritten": unwritten}
        return figures

    def _decoded(self, name: str) -> Any:
        if name == "fp8":
            return _table("e4m3")[self.by_name["fp8"].long()] * FP8_SCALE
        if name == "fp4":
            return self._decoded_fp4()
        return self.by_name[name].double()

    def _decoded_fp4(self) -> Any:
        tokens, hidden = self._case["tokens"], self._case["hidden"]
        rows = torch.arange(tokens, device="cuda")[:, None]
        columns = torch.arange(hidden // reference.FP4_BLOCK, device="cuda")[None, :]
        layout = self._case.get("layout", reference.SWIZZLED_128X4)
        scales = self.by_name["scales"][reference.scale_offsets(rows, columns, hidden, layout)].long()
        low, high = reference.fp4_values(
            self.by_name["fp4"].long(),
            scales,
            table=_table("e2m1"),
            scale_table=_table("e4m3"),
            global_scale=FP4_SCALE,
        )
        return torch.stack([low, high], dim=-1).reshape(tokens, hidden)

    def digest(self) -> str:
        """Return a number that differs where any bit of the last outputs does."""
        total = 0
        for name in self._case["outputs"]:
            tensor = self.by_name[name]
            bits = tensor.view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[tensor.element_size()]).reshape(-1)
            weights = torch.arange(1, bits.numel() + 1, device="cuda") * 0x9E3779B1 | 1
            total = (total * 31 + int((bits.long() * weights).sum())) % (1 << 64)
        return f"{total:016x}"


@functools.cache
def _table(name: str) -> Any:
    values = reference.e4m3_table() if name == "e4m3" else reference.e2m1_table()
    return torch.tensor(values, dtype=torch.float64, device="cuda")
