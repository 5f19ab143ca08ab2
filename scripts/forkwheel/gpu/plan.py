"""What is run on the GPUs, read from a recipe's ``gpu.toml``."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from forkwheel.errors import RecipeError
from forkwheel.gpu.reference import BOUNDS
from forkwheel.toml_file import Section, read_toml

FORMAT = 1
FILENAME = "gpu.toml"
OUTPUTS = ("sum", "residual", "norm", "fp8", "fp4")


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
        for operation in self.operations:
            if operation.name == name:
                return operation
        raise RecipeError(f"{self.file}: no operation {name!r}", hint="add it, or correct the name")


def load_plan(folder: Path) -> GpuPlan:
    """Read and check a recipe's ``gpu.toml``; raise RecipeError, with file and line, at the first fault."""
    top = read_toml(folder / FILENAME)
    number = top.integer("format", minimum=1)
    if number > FORMAT:
        top.fail(f"format {number} is newer than {FORMAT}", key="format", hint="use a newer forkwheel")
    gate = top.section("gate", required=False)
    plan = GpuPlan(
        file=top.file,
        package=top.string("package"),
        module=top.string("module"),
        object=top.string("object"),
        compile=_file(top, "compile"),
        workspace_variable=top.string("workspace_variable"),
        world_sizes=_integers(top, "world_sizes"),
        torch=top.string("torch"),
        needs=top.mapping("needs"),
        shapes=_shapes(_required(top, "shapes")),
        operations=tuple(_operation(section) for section in top.sections("operation")),
        gate=_file(gate, "worker") if gate else None,
        numerics=_numerics(top.section("numerics", required=False)),
        bench=_bench(_required(top, "bench")),
        advice=_advice(_required(top, "advice")),
        controls=tuple(top.value("controls", dict, default={}, required=False).items()),
    )
    if gate:
        gate.finish()
    top.finish()
    _check_bench(top, plan)
    return plan


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


def _required(top: Section, key: str) -> Section:
    section = top.section(key)
    assert section is not None
    return section


def _file(section: Section, key: str) -> Path:
    name = section.string(key)
    file = section.file.parent / name
    if not file.is_file():
        section.fail(f"{name!r} does not exist", key=key, hint="write it relative to this file")
    return file.resolve()


def _integers(section: Section, key: str) -> tuple[int, ...]:
    values: list[Any] = section.value(key, list)
    if not values or any(type(value) is not int or value < 1 for value in values):
        section.fail(f"`{key}` must be a list of positive numbers", key=key, hint="write it like [1, 2]")
    if len(set(values)) != len(values):
        section.fail(f"`{key}` lists a number twice", key=key, hint="remove one of them")
    return tuple(values)


def _shapes(section: Section) -> Shapes:
    dtypes = section.strings("dtypes")
    for dtype in dtypes:
        if dtype not in BOUNDS:
            known = ", ".join(BOUNDS)
            section.fail(f"there is no error bound for {dtype!r}", key="dtypes", hint=f"the types known are {known}")
    shapes = Shapes(
        dtypes=dtypes,
        tokens=_integers(section, "tokens"),
        hidden=_integers(section, "hidden"),
        calls=section.integer("calls", minimum=1),
        replays=section.integer("replays"),
    )
    section.finish()
    return shapes


def _operation(section: Section) -> Operation:
    variants: dict[str, Any] = section.value("variants", dict)
    for name, values in variants.items():
        if not isinstance(values, list) or not values:
            section.fail(f"`variants.{name}` must be a list", key="variants", hint="write it like [true, false]")
    operation = Operation(
        name=section.string("name"),
        driver=_file(section, "driver"),
        variants=tuple((name, tuple(values)) for name, values in variants.items()),
        patterns=tuple(_pattern(child) for child in section.sections("pattern")),
    )
    section.finish()
    return operation


def _pattern(section: Section) -> Pattern:
    pattern = Pattern(section.string("name"), section.strings("outputs"), section.strings("layouts"))
    for output in pattern.outputs:
        if output not in OUTPUTS:
            known = ", ".join(OUTPUTS)
            section.fail(f"{output!r} is no output", key="outputs", hint=f"the outputs known are {known}")
    if not pattern.outputs:
        section.fail("`outputs` names nothing to compare", key="outputs", hint="name what the pattern writes")
    section.finish()
    return pattern


def _numerics(section: Section | None) -> Numerics | None:
    if section is None:
        return None
    numerics = Numerics(_file(section, "source"), _integers(section, "threads"), section.strings("include"))
    section.finish()
    return numerics


def _bench(section: Section) -> Bench:
    bench = Bench(
        operation=section.string("operation"),
        pattern=section.string("pattern"),
        dtype=section.string("dtype"),
        tokens=tuple(sorted(_integers(section, "tokens"))),
        hidden=_integers(section, "hidden"),
        shots=section.strings("shots"),
        others=section.strings("others"),
    )
    section.finish()
    return bench


def _check_bench(top: Section, plan: GpuPlan) -> None:
    operation = next((item for item in plan.operations if item.name == plan.bench.operation), None)
    if operation is None or all(pattern.name != plan.bench.pattern for pattern in operation.patterns):
        section = _required(top, "bench")
        section.fail(
            f"there is no pattern {plan.bench.pattern!r} of an operation {plan.bench.operation!r}",
            key="operation",
            hint="name one that is given above",
        )


def _advice(section: Section) -> tuple[tuple[str, str], ...]:
    texts = tuple((name, section.string(name)) for name in ("on", "limited", "off"))
    section.finish()
    return texts
