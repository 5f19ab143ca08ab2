from pathlib import Path

import pytest

from forkwheel.errors import RecipeError
from forkwheel.gpu.plan import cases, describe, quick
from forkwheel.gpu.plan_file import load_plan

GPU = Path(__file__).parents[2] / "recipes" / "sm120"


def edited(folder: Path, old: str, new: str) -> Path:
    text = (GPU / "gpu.toml").read_text()
    assert old in text
    for name in ("fusion", "custom", "layer", "gate", "compile"):
        file = folder / "gpu" / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.touch()
    source = folder.parent.parent / "tests" / "gpu" / "block_sum.cu"
    source.parent.mkdir(parents=True, exist_ok=True)
    source.touch()
    (folder / "gpu.toml").write_text(text.replace(old, new, 1))
    return folder


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "recipes" / "x"
    made.mkdir(parents=True)
    return made


def test_the_recipes_matrix_is_what_the_checks_promise():
    plan = load_plan(GPU)

    assert plan.shapes.tokens == (1, 2, 8, 16, 17, 128, 1024, 2048)
    assert plan.shapes.hidden == (1024, 2880, 4096, 7168)
    assert set(plan.shapes.dtypes) == {"float16", "bfloat16", "float32"}
    assert dict(plan.operations[0].variants) == {
        "shot": ("one-shot", "two-shot"),
        "pdl": (True, False),
        "fp32_accumulation": (True, False),
    }
    calls = plan.shapes.calls + 1 + plan.shapes.replays
    assert calls > 3  # more than there are buffers to rotate


def test_every_case_is_there_once_and_has_a_seed_of_its_own():
    plan = load_plan(GPU)
    operation = plan.operations[1]

    found = list(cases(plan, operation))

    assert len(found) == 3 * 2 * 2 * 2 * 8 * 4
    assert len({describe(case) for case in found}) == len(found)
    assert len({case["seed"] for case in found}) == len(found)


def test_the_quick_plan_keeps_the_smallest_and_the_largest_shapes():
    shapes = quick(load_plan(GPU)).shapes

    assert shapes.tokens == (1, 16, 1024, 2048)
    assert shapes.hidden == (1024, 7168)


def test_a_case_is_named_in_one_line():
    plan = load_plan(GPU)
    case = next(cases(plan, plan.operations[0]))

    assert describe(case) == (
        "trtllm_allreduce_fusion all-reduce one-shot pdl on fp32 accumulation on float16 [1, 1024]"
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("world_sizes = [2, 4, 8]", "world_sizes = [2, 2]", "gpu.toml:4: `world_sizes` lists a number twice"),
        ("world_sizes = [2, 4, 8]", 'world_sizes = ["2"]', "must be a list of positive numbers"),
        ('module = "flashinfer"', 'module = "flashinfer; import os"', "not a module's name"),
        ('"FLASHINFER_WORKSPACE_BASE"', '"A=B"', "not a variable's name"),
        ('"gpu/fusion.py"', '"gpu/none.py"', "'gpu/none.py' does not exist"),
        ('"gpu/fusion.py"', "7", "`driver` must be a string, not an integer"),
        ('outputs = ["sum"]', 'outputs = ["total"]', "'total' is no output"),
        ('outputs = ["sum"]', "outputs = []", "`outputs` is missing or empty"),
        ('"linear"]', '"diagonal"]', "'diagonal' is no layout"),
        ('dtypes = ["float16"', 'dtypes = ["float8"', "'float8' is no type that can be compared"),
        ('dtypes = ["float16"', 'dtypes = ["fp8"', "'fp8' is no type that can be compared"),
        ("variants.pdl = [true, false]", "variants.pdl = []", "`variants.pdl` must be a list"),
        ("variants.pdl = [true, false]", "variants.pdl = [1, 0]", "`variants.pdl` must be a list"),
        ("variants.pdl = [true, false]", "variants.pdl = [true, true]", "`variants.pdl` lists a value twice"),
        ("variants.pdl = [true, false]", "variants.tokens = [true]", "a variant can't be named 'tokens'"),
        ('name = "trtllm_custom_all_reduce"', 'name = "trtllm_allreduce_fusion"', "there are two of the name"),
        ('name = "norm-fp8"', 'name = "norm"', "there are two of the name 'norm'"),
        ("[bench]\noperation = ", '[bench]\nother = "x"\noperation = ', "unknown key `other`"),
        ('[bench]\noperation = "', '[bench]\noperation = "x', "there is no operation 'xtrtllm_allreduce_fusion'"),
        ('pattern = "norm"\ndtype', 'pattern = "sum"\ndtype', "has no pattern 'sum'"),
        ('dtype = "bfloat16"', 'dtype = "int4"', "'int4' is no type"),
        ('shots = ["one-shot"', 'shots = ["no-shot"', "'no-shot' is no shot of trtllm_allreduce_fusion"),
        ('others = ["nccl"', 'others = ["mpi"', "'mpi' is no thing to compare with"),
        ("communicator.py, 2048 now) to {tokens}", "communicator.py) to {token}", "`limited` can't be filled in"),
        ("failing = {", "failling = {", "unknown control `failling`"),
        ('passing = { operation = "', 'passing = { operation = "x', "there is no operation 'xtrtllm_allreduce_fusion'"),
        ("tokens = 8, hidden = 4096 }", "tokens = 9, hidden = 4096 }", "no case is like the control `passing`"),
        (', error = "illegal memory access"', "", "`error` is missing"),
        (', error = "never written"', "", "`error` is missing"),
        ("calls = 200", 'calls = "many"', "`calls` must be an integer"),
        ('worker = "gpu/gate.py"', 'worker = "gpu/gate.py"\nwho = 1', "unknown key `who`"),
        ("[shapes]", "[shape]", "`shapes` is missing"),
        ("format = 1", "format = 9", "format 9 is newer than 1"),
    ],
)
def test_a_fault_is_an_error_with_its_line(folder, old, new, message):
    with pytest.raises(RecipeError, match=r"gpu\.toml:\d+: ") as caught:
        load_plan(edited(folder, old, new))

    assert message in caught.value.message
