"""What a recipe runs on the GPUs, and every case of it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

#: The types of tensors, the outputs that can be compared, and what is timed beside the fusion.
DTYPES = ("float16", "bfloat16", "float32")
OUTPUTS = ("sum", "residual", "norm", "fp8", "fp4")
OTHERS = ("nccl", "symmetric one-shot", "symmetric two-shot")


@dataclass(frozen=True)
class Pattern:
    """One fused pattern: the outputs it writes, and the layouts of FP4 scales it is run with."""

    name: str
    outputs: tuple[str, ...]
    layouts: tuple[str, ...]


@dataclass(frozen=True)
class Operation:
    """One function under test: its driver, and the values that each of its options takes."""

    name: str
    driver: Path
    variants: tuple[tuple[str, tuple[Any, ...]], ...]
    patterns: tuple[Pattern, ...]


@dataclass(frozen=True)
class Shapes:
    """Which tensors the operations are run on, and how often each."""

    dtypes: tuple[str, ...]
    tokens: tuple[int, ...]
    hidden: tuple[int, ...]
    calls: int
    replays: int


@dataclass(frozen=True)
class Bench:
    """What is timed: one operation's pattern, apart for each of ``shots``, and the ``others`` beside it."""

    operation: str
    pattern: str
    dtype: str
    tokens: tuple[int, ...]
    hidden: tuple[int, ...]
    shots: tuple[str, ...]
    others: tuple[str, ...]


@dataclass(frozen=True)
class Numerics:
    """A CUDA program that is compiled against the installed headers and run with ``threads``."""

    source: Path
    threads: tuple[int, ...]
    include: tuple[str, ...]


@dataclass(frozen=True)
class GpuPlan:
    """All that a recipe says about its GPU checks.

    ``package`` is the recipe's package whose compiled ``object`` is loaded; ``compile`` makes it
    and prints its path. ``torch`` is installed where no interpreter has torch for CUDA, and
    ``needs`` are the distributions (and import names) that must be there beside the wheels.
    ``advice`` holds the texts for on, limited and off.
    """

    file: Path
    package: str
    module: str
    object: str
    compile: Path
    workspace_variable: str
    world_sizes: tuple[int, ...]
    torch: str
    needs: tuple[tuple[str, str], ...]
    shapes: Shapes
    operations: tuple[Operation, ...]
    gate: Path | None
    numerics: Numerics | None
    bench: Bench
    advice: tuple[tuple[str, str], ...]
    controls: tuple[tuple[str, Mapping[str, Any]], ...]

    def operation(self, name: str) -> Operation:
        """Return the operation of that name."""
        return next(operation for operation in self.operations if operation.name == name)


def cases(plan: GpuPlan, operation: Operation) -> Iterator[dict[str, Any]]:
    """Yield every case of an operation, those that share a type and a hidden size together."""
    names = [name for name, _ in operation.variants]
    choices = list(product(*(values for _, values in operation.variants)))
    shapes = plan.shapes
    for dtype, hidden, pattern in product(shapes.dtypes, shapes.hidden, operation.patterns):
        for layout, choice, tokens in product(pattern.layouts or ("",), choices, shapes.tokens):
            case = {"operation": operation.name, "pattern": pattern.name, "dtype": dtype, "tokens": tokens}
            case |= {"hidden": hidden, **dict(zip(names, choice, strict=True))}
            case |= {"layout": layout} if layout else {}
            seed = zlib.crc32(repr(sorted(case.items())).encode())
            yield case | {
                "outputs": list(pattern.outputs),
                "calls": shapes.calls,
                "replays": shapes.replays,
                "seed": seed,
            }


def cases_like(plan: GpuPlan, wanted: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield an operation's cases that have all the wanted values; a control's own settings are none of a case's."""
    values = {name: value for name, value in wanted.items() if name not in ("error", "calls", "race")}
    for case in cases(plan, plan.operation(wanted["operation"])):
        if all(case.get(name) == value for name, value in values.items()):
            yield case


def quick(plan: GpuPlan) -> GpuPlan:
    """Return the plan with every other token count and hidden size, the smallest and the largest among them."""
    shapes = plan.shapes
    fewer = replace(shapes, tokens=_fewer(shapes.tokens), hidden=_fewer(shapes.hidden))
    return replace(plan, shapes=fewer)


def _fewer(numbers: tuple[int, ...]) -> tuple[int, ...]:
    ordered = sorted(numbers)
    return tuple(dict.fromkeys((*ordered[::3], ordered[-1])))


def describe(case: Mapping[str, Any]) -> str:
    """Name a case in one line."""
    hidden = ("operation", "pattern", "dtype", "tokens", "hidden", "outputs", "calls", "replays", "seed", "fault")
    options = []
    for name, value in case.items():
        if name not in hidden:
            options.append(value if isinstance(value, str) else f"{name.replace('_', ' ')} {'on' if value else 'off'}")
    what = " ".join([case["operation"], case["pattern"], *options, case["dtype"]])
    return f"{what} [{case['tokens']}, {case['hidden']}]"
