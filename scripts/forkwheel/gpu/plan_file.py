"""Read a recipe's ``gpu.toml``. Whatever a run would trip over after minutes on a GPU is refused here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from forkwheel.errors import RecipeError
from forkwheel.gpu.plan import (
    DTYPES,
    OTHERS,
    OUTPUTS,
    Bench,
    GpuPlan,
    Numerics,
    Operation,
    Pattern,
    Shapes,
    cases_like,
)
from forkwheel.gpu.reference import LINEAR, SWIZZLED_128X4
from forkwheel.toml_file import Section, read_toml

FORMAT = 1
FILENAME = "gpu.toml"

_DOTTED = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
_VARIABLE = r"[A-Za-z_]\w*"
#: What every case holds beside its variants.
_CASE = ("operation", "pattern", "dtype", "tokens", "hidden", "layout", "outputs", "calls", "replays", "seed")
_NAMED_CONTROLS = ("passing", "failing")


def load_plan(folder: Path) -> GpuPlan:
    """Read and check a recipe's ``gpu.toml``; raise RecipeError, with file and line, at the first fault."""
    file = folder / FILENAME
    if not file.exists():
        raise RecipeError(f"{file} is missing: the recipe has no GPU checks", hint="name another with --recipe")
    top = read_toml(file)
    number = top.integer("format", minimum=1)
    if number > FORMAT:
        top.fail(f"format {number} is newer than {FORMAT}", key="format", hint="use a newer forkwheel")
    operations = tuple(_operation(section) for section in top.sections("operation"))
    _distinct(top, "operation", (operation.name for operation in operations))
    plan = GpuPlan(
        file=top.file,
        package=top.string("package"),
        module=top.string("module", pattern=_DOTTED, what="a module's name"),
        object=top.string("object"),
        compile=_file(top, "compile"),
        workspace_variable=top.string("workspace_variable", pattern=_VARIABLE, what="a variable's name"),
        world_sizes=_integers(top, "world_sizes"),
        torch=top.string("torch"),
        needs=top.mapping("needs"),
        shapes=_shapes(_required(top, "shapes")),
        operations=operations,
        gate=_gate(top.section("gate", required=False)),
        numerics=_numerics(top.section("numerics", required=False)),
        bench=_bench(_required(top, "bench"), operations),
        advice=_advice(_required(top, "advice")),
        controls=tuple(top.value("controls", dict, default={}, required=False).items()),
    )
    top.finish()
    for name, _ in plan.controls:
        _check_control(_required(top, "controls"), name, plan)
    return plan


def _required(section: Section, key: str) -> Section:
    child = section.section(key)
    assert child is not None
    return child


def _distinct(section: Section, key: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            section.fail(f"there are two of the name {name!r}", key=key, hint="give each a name of its own")
        seen.add(name)
    if not seen:
        section.fail(f"there is no `{key}`", hint=f"add at least one `{key}`")


def _choices(section: Section, key: str, known: Iterable[str], what: str) -> tuple[str, ...]:
    """Return a list of which each is one of ``known``, and that is not empty."""
    chosen = section.strings(key)
    names = ", ".join(known)
    for name in chosen:
        if name not in known:
            section.fail(f"{name!r} is no {what}", key=key, hint=f"the known ones are {names}")
    if not chosen:
        section.fail(f"`{key}` is missing or empty", key=key, hint=f"name some of {names}")
    return chosen


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
    shapes = Shapes(
        dtypes=_choices(section, "dtypes", DTYPES, "type that can be compared"),
        tokens=_integers(section, "tokens"),
        hidden=_integers(section, "hidden"),
        calls=section.integer("calls", minimum=1),
        replays=section.integer("replays"),
    )
    section.finish()
    return shapes


def _operation(section: Section) -> Operation:
    variants: dict[str, Any] = section.value("variants", dict, default={}, required=False)
    for name, values in variants.items():
        if name in _CASE:
            section.fail(f"a variant can't be named {name!r}", key="variants", hint="every case has one of that name")
        if not isinstance(values, list) or not values or any(type(value) not in (bool, str) for value in values):
            hint = "write it like [true, false], or with strings"
            section.fail(f"`variants.{name}` must be a list of values", key="variants", hint=hint)
        if len(set(values)) != len(values):
            section.fail(f"`variants.{name}` lists a value twice", key="variants", hint="remove one of them")
    patterns = tuple(_pattern(child) for child in section.sections("pattern"))
    _distinct(section, "pattern", (pattern.name for pattern in patterns))
    operation = Operation(
        name=section.string("name", pattern=r"[\w.-]+", what="a name without spaces"),
        driver=_file(section, "driver"),
        variants=tuple((name, tuple(values)) for name, values in variants.items()),
        patterns=patterns,
    )
    section.finish()
    return operation


def _pattern(section: Section) -> Pattern:
    pattern = Pattern(
        name=section.string("name"),
        outputs=_choices(section, "outputs", OUTPUTS, "output"),
        layouts=_choices(section, "layouts", (SWIZZLED_128X4, LINEAR), "layout") if "layouts" in section.table else (),
    )
    section.finish()
    return pattern


def _gate(section: Section | None) -> Path | None:
    if section is None:
        return None
    worker = _file(section, "worker")
    section.finish()
    return worker


def _numerics(section: Section | None) -> Numerics | None:
    if section is None:
        return None
    numerics = Numerics(_file(section, "source"), _integers(section, "threads"), section.strings("include"))
    section.finish()
    return numerics


def _bench(section: Section, operations: tuple[Operation, ...]) -> Bench:
    names = [operation.name for operation in operations]
    timed, pattern = section.string("operation"), section.string("pattern")
    if timed not in names:
        section.fail(f"there is no operation {timed!r}", key="operation", hint=f"there are {', '.join(names)}")
    operation = operations[names.index(timed)]
    patterns = [one.name for one in operation.patterns]
    if pattern not in patterns:
        section.fail(f"{timed} has no pattern {pattern!r}", key="pattern", hint=f"it has {', '.join(patterns)}")
    dtype = section.string("dtype")
    if dtype not in DTYPES:
        section.fail(f"{dtype!r} is no type", key="dtype", hint=f"the types known are {', '.join(DTYPES)}")
    shots = dict(operation.variants).get("shot", ())
    bench = Bench(
        operation=timed,
        pattern=pattern,
        dtype=dtype,
        tokens=tuple(sorted(_integers(section, "tokens"))),
        hidden=_integers(section, "hidden"),
        shots=_choices(section, "shots", shots, f"shot of {timed}"),
        others=_choices(section, "others", OTHERS, "thing to compare with"),
    )
    section.finish()
    return bench


def _advice(section: Section) -> tuple[tuple[str, str], ...]:
    texts = tuple((name, section.string(name)) for name in ("on", "limited", "off"))
    for name, text in texts:
        try:
            text.format(tokens=1, below=1)
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            hint = "the places are {tokens} and {below}; a brace is written twice"
            section.fail(f"`{name}` can't be filled in: {error!r}", key=name, hint=hint)
    section.finish()
    return texts


def _check_control(section: Section, name: str, plan: GpuPlan) -> None:
    """Refuse a control that no case is like, which would end the run instead of being judged."""
    control = _required(section, name)
    if name not in _NAMED_CONTROLS and not name.startswith("limit"):
        section.fail(f"unknown control `{name}`", key=name, hint="they are `passing`, `failing` and `limit…`")
    wanted: Mapping[str, Any] = control.table
    control.integer("calls", default=1, minimum=1)
    control.value("race", bool, default=False, required=False)
    if name != "passing":
        control.string("error")
    if control.string("operation") not in [operation.name for operation in plan.operations]:
        control.fail(f"there is no operation {wanted['operation']!r}", key="operation", hint="name one given above")
    if next(cases_like(plan, wanted), None) is None:
        section.fail(f"no case is like the control `{name}`", key=name, hint="correct its values, or leave some out")
