"""How ``kernels.toml`` changes the units of a module: what is split off, and what goes before a unit's text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from forkwheel.toml_file import Section

_TYPE = "type"


@dataclass(frozen=True)
class Split:
    """How a unit is split: a part for each of ``types``, which instantiates ``functions`` of ``header``.

    A function is written as its explicit instantiation in ``namespace``, with ``{type}`` for the
    type and ``{NAME}`` for each of the ``arguments`` of that name. Types that are not listed stay
    with the unit.
    """

    unit: str
    header: str
    namespace: str
    functions: tuple[str, ...]
    types: tuple[str, ...]
    arguments: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def declarations(self, types: Sequence[str], *, keyword: str) -> str:
        """Write the instantiations for ``types`` after a keyword: ``template`` or ``extern template``."""
        lines = [f"{keyword} {text};\n" for name in types for text in dict.fromkeys(self._instantiations(name))]
        return f"namespace {self.namespace} {{\n{''.join(lines)}}}\n"

    def _instantiations(self, type_name: str) -> Iterator[str]:
        names = [_TYPE, *(name for name, _ in self.arguments)]
        for function in self.functions:
            for values in product([type_name], *(values for _, values in self.arguments)):
                text = function
                for name, value in zip(names, values, strict=True):
                    text = text.replace(f"{{{name}}}", value)
                yield text

    def part(self, type_name: str) -> str:
        """Name the part of a type: ``unit.half.cu``."""
        return f"{Path(self.unit).stem}.{type_name.strip('_')}.cu"


@dataclass(frozen=True)
class Prelude:
    """A text that goes before the text of some units, parts of a split among them."""

    units: tuple[str, ...]
    text: str


def read_splits(compile_: Section) -> tuple[Split, ...]:
    """Read ``[[compile.split]]``; fail for one that would split nothing."""
    return tuple(_split(section) for section in compile_.sections("split"))


def read_preludes(compile_: Section) -> tuple[Prelude, ...]:
    """Read ``[[compile.prelude]]``; fail for one that is for no unit, or a second one for the same unit."""
    found: list[Prelude] = []
    for section in compile_.sections("prelude"):
        prelude = Prelude(section.strings("units"), section.string("text"))
        if not prelude.units:
            section.fail("a prelude is for no unit", key="units", hint="name the `units` that it goes before")
        if twice := next((name for name in prelude.units if any(name in other.units for other in found)), None):
            section.fail(f"{twice} has a prelude already", key="units", hint="write both into one")
        section.finish()
        found.append(prelude)
    return tuple(found)


def _split(section: Section) -> Split:
    split = Split(
        unit=section.string("unit"),
        header=section.string("header"),
        namespace=section.string("namespace", pattern=r"\w+(?:::\w+)*", what="a namespace such as a::b"),
        functions=section.strings("functions"),
        types=section.strings("types"),
        arguments=_arguments(section),
    )
    if not split.functions or not split.types:
        section.fail(f"the split of {split.unit} has no functions or no types", hint="name both")
    known = {_TYPE, *(name for name, _ in split.arguments)}
    for function in split.functions:
        if unknown := next((name for name in re.findall(r"{(\w+)}", function) if name not in known), None):
            section.fail(f"{{{unknown}}} stands for nothing", key="functions", hint="list it under `arguments`")
    section.finish()
    return split


def _arguments(section: Section) -> tuple[tuple[str, tuple[str, ...]], ...]:
    child = section.section("arguments", required=False)
    if child is None:
        return ()
    arguments = tuple((name, child.strings(name)) for name in child.table)
    for name, values in arguments:
        if name == _TYPE:
            child.fail(f"`{_TYPE}` is what `types` lists", key=name, hint="give the argument another name")
        if not values:
            child.fail(f"`{name}` has no values", key=name, hint="list them")
    return arguments
