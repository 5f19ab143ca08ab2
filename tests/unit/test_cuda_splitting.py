from __future__ import annotations

from pathlib import Path

import pytest

from forkwheel.cuda.build_root import ROOT, BuildRoot
from forkwheel.cuda.kernel_config import Split
from forkwheel.cuda.module import Module, Unit
from forkwheel.cuda.splitting import check_order, check_splits, split_units
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

    assert split_units(BuildRoot(tmp_path, ()), whole, [SPLIT]) is whole
    assert list(tmp_path.iterdir()) == []


def test_a_split_of_a_unit_that_is_gone_is_told() -> None:
    with pytest.raises(RecipeError, match=r"a split names the unit a\.cu") as caught:
        check_splits([SPLIT], [module("b")], file=Path("kernels.toml"))

    assert "b.cu" in caught.value.hint


def test_an_order_that_names_a_unit_that_is_gone_is_told() -> None:
    with pytest.raises(RecipeError, match=r"`longest_first` names the unit a\.cu, which no module has"):
        check_order(["b.cu", "a.cu"], [module("b")], file=Path("kernels.toml"))

    check_order(["b.cu"], [module("b")], file=Path("kernels.toml"))
