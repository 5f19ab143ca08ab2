from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from forkwheel.cuda.build_root import ROOT, BuildRoot
from forkwheel.cuda.module import Module, Unit
from forkwheel.cuda.splitting import check_names, check_splits, split_units
from forkwheel.cuda.unit_config import Prelude, Split
from forkwheel.errors import RecipeError

SPLIT = Split("a.cu", "demo/a.cuh", "demo::ops", ("int run<{type}>({type}*)",), ("half", "__nv_bfloat16"))


def unit(name: str) -> Unit:
    source, output = f"{ROOT}/tree/src/{name}.cu", f"{ROOT}/objects/ops/{name}.cuda.o"
    command = (
        "nvcc",
        "-objtemp",
        f"-frandom-seed={name}.cu",
        "--dependency-output",
        f"{output}.d",
        "-c",
        source,
        "-o",
        output,
    )
    return Unit(source, output, command)


def module(*names: str, linker: str = "c++") -> Module:
    units = tuple(unit(name) for name in names)
    link = (linker, *(item.output for item in units), "-shared", "-o", f"{ROOT}/objects/ops/ops.so")
    return Module("ops", units, f"{ROOT}/objects/ops/ops.so", link)


def test_a_unit_becomes_itself_without_its_instantiations_and_a_part_a_type(tmp_path: Path) -> None:
    split = split_units(BuildRoot(tmp_path, ()), module("a", "b"), [SPLIT])

    assert [item.name for item in split.units] == ["a.cu", "a.half.cu", "a.nv_bfloat16.cu", "b.cu"]
    rest = (tmp_path / "generated" / "a.cu").read_text()
    assert "extern template int run<half>(half*);\nextern template int run<__nv_bfloat16>(__nv_bfloat16*);" in rest
    assert rest.startswith(f'#include "{ROOT}/tree/src/a.cu"\n')
    part = (tmp_path / "generated" / "a.half.cu").read_text()
    assert part == '#include "demo/a.cuh"\n\nnamespace demo::ops {\ntemplate int run<half>(half*);\n}\n'


def test_types_that_are_not_listed_stay_with_the_unit(tmp_path: Path) -> None:
    split_units(BuildRoot(tmp_path, ()), module("a"), [replace(SPLIT, types=("half",))])

    assert sorted(path.name for path in (tmp_path / "generated").iterdir()) == ["a.cu", "a.half.cu"]
    rest = (tmp_path / "generated" / "a.cu").read_text().split("\n", 2)[2]
    assert rest == "namespace demo::ops {\nextern template int run<half>(half*);\n}\n"


def test_every_choice_of_the_arguments_is_instantiated_once(tmp_path: Path) -> None:
    functions = ("int run<{type}, {ranks}, {push}>()", "int stop<{type}>()")
    arguments = (("ranks", ("2", "4")), ("push", ("false", "true")))
    split = replace(SPLIT, functions=functions, types=("half",), arguments=arguments)

    declared = split.declarations(["half"], keyword="template").splitlines()[1:-1]

    assert declared == [
        "template int run<half, 2, false>();",
        "template int run<half, 2, true>();",
        "template int run<half, 4, false>();",
        "template int run<half, 4, true>();",
        "template int stop<half>();",
    ]


def test_a_prelude_goes_before_a_part(tmp_path: Path) -> None:
    split_units(BuildRoot(tmp_path, ()), module("a"), [SPLIT], [Prelude(("a.half.cu",), "#define QUIET")])

    texts = {path.name: path.read_text() for path in (tmp_path / "generated").iterdir()}
    assert texts["a.half.cu"].startswith('#define QUIET\n#include "demo/a.cuh"\n')
    assert "QUIET" not in texts["a.cu"] + texts["a.nv_bfloat16.cu"]


def test_a_prelude_goes_before_a_unit_that_is_not_split(tmp_path: Path) -> None:
    before = module("a", "b")

    after = split_units(BuildRoot(tmp_path, ()), before, [], [Prelude(("a.cu",), "#define QUIET")])

    text = (tmp_path / "generated" / "a.cu").read_text()
    assert text == f'#define QUIET\n#include "{ROOT}/tree/src/a.cu"\n'
    assert (after.units[0].source, after.units[0].output) == (f"{ROOT}/generated/a.cu", before.units[0].output)
    assert (after.units[1], after.link) == (before.units[1], before.link)


def test_the_parts_have_the_commands_of_the_unit(tmp_path: Path) -> None:
    split = split_units(BuildRoot(tmp_path, ()), module("a"), [SPLIT])

    source, output = f"{ROOT}/generated/a.half.cu", f"{ROOT}/objects/ops/a.half.cuda.o"
    expected = (
        "nvcc",
        "-objtemp",
        "-frandom-seed=a.half.cu",
        "--dependency-output",
        f"{output}.d",
        "-c",
        source,
        "-o",
        output,
    )
    assert (split.units[1].output, split.units[1].command) == (output, expected)


def test_all_parts_are_linked_in_the_place_of_the_unit(tmp_path: Path) -> None:
    split = split_units(BuildRoot(tmp_path, ()), module("b", "a", "c"), [SPLIT])

    objects = [word for word in split.link if word.endswith(".o")]
    assert objects == [item.output for item in split.units]
    assert "-Wl,-z,muldefs" in split.link


def test_nvcc_is_told_in_its_own_way(tmp_path: Path) -> None:
    split = split_units(BuildRoot(tmp_path, ()), module("a", linker="/cuda/bin/nvcc"), [SPLIT])

    assert split.link[1:5] == ("-Xlinker", "-z", "-Xlinker", "muldefs")


def test_a_module_without_a_split_stays_as_it_is(tmp_path: Path) -> None:
    whole = module("b")

    assert split_units(BuildRoot(tmp_path, ()), whole, [SPLIT]) == whole
    assert list(tmp_path.iterdir()) == []


def test_a_split_of_a_unit_that_is_gone_is_told() -> None:
    with pytest.raises(RecipeError, match=r"a split names the unit a\.cu") as caught:
        check_splits([SPLIT], [module("b")], file=Path("kernels.toml"))

    assert "b.cu" in caught.value.hint


@dataclass(frozen=True)
class Named:
    """What of a description names units."""

    longest_first: tuple[str, ...] = ()
    preludes: tuple[Prelude, ...] = ()
    file: Path = Path("kernels.toml")


@pytest.mark.parametrize(
    ("named", "what"),
    [
        (Named(longest_first=("b.cu", "a.cu")), "`longest_first`"),
        (Named(preludes=(Prelude(("b.cu", "a.cu"), "x"),)), "a prelude"),
    ],
)
def test_an_order_or_a_prelude_of_a_unit_that_is_gone_is_told(named: Named, what: str) -> None:
    with pytest.raises(RecipeError, match=rf"{what} names the unit a\.cu, which no module has"):
        check_names(named, [module("b")])

    check_names(named, [module("a", "b")])
