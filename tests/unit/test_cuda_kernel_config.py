from __future__ import annotations

import re
from pathlib import Path

import pytest

from forkwheel.cuda.kernel_config import load_kernels, load_recipe_kernels
from forkwheel.errors import RecipeError
from forkwheel.recipe import load_recipe

REPOSITORY = Path(__file__).resolve().parents[2]

TEXT = """\
format = 1
package = "demo"

[modules]
one = "demo.jit:generate"

[links]
"demo/data/src" = "src"

[evaluation]
package = "demo"
stand_ins = ["torch"]

[evaluation.values]
"torch.ABI" = "true"

[compile]
memory = 100

[wheel]
distribution = "demo-kernels"
summary = "Kernels"
tag = "cp39-abi3"
objects = "demo_kernels/objects"
license = "MIT"

[wheel.files]
"demo_kernels/__init__.py" = "x = 1"

[census]
target = "sm_120a"
empty = 16

[[census.rule]]
families = ["demo::*"]
kernels = 3
"""


def load(folder: Path, text: str):
    file = folder / "kernels.toml"
    file.write_text(text)
    return load_kernels(file)


def test_the_recipe_of_the_project_is_read() -> None:
    kernels = load_kernels(REPOSITORY / "recipes" / "sm120" / "kernels.toml")

    assert [name for name, _ in kernels.modules] == ["trtllm_comm"]
    assert sum(rule.kernels or 0 for rule in kernels.rules.rules[:3]) == 921 + 336 + 192


def test_every_patch_that_the_rules_name_is_in_the_series() -> None:
    kernels = load_kernels(REPOSITORY / "recipes" / "sm120" / "kernels.toml")
    series = (REPOSITORY / "patches" / "flashinfer" / "0.6.3" / "series").read_text().split()

    named = {rule.patch for rule in kernels.rules.rules if rule.patch}

    assert named
    assert named <= set(series)


def test_a_second_module_is_one_line(tmp_path: Path) -> None:
    kernels = load(tmp_path, TEXT.replace("[links]", 'two = "demo.jit:other"\n\n[links]'))

    assert kernels.modules == (("one", "demo.jit:generate"), ("two", "demo.jit:other"))


def test_values_are_json(tmp_path: Path) -> None:
    assert load(tmp_path, TEXT).evaluation.values == (("torch.ABI", True),)


RECIPE = """\
[recipe]
name = "demo"
local = "wide"
revision = 1
target = "sm_120a"

[[package]]
name = "demo"
version = "1.0"
epoch = 1700000000
series = "patches"

[[package.source]]
kind = "sdist"
filename = "demo-1.0.tar.gz"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
"""


def recipe_of(folder: Path, *, kernels: str | None, target: str = "sm_120a"):
    (folder / "patches").mkdir()
    (folder / "patches" / "series").write_text("guards.patch\n")
    (folder / "patches" / "guards.patch").touch()
    (folder / "recipe.toml").write_text(RECIPE.replace("sm_120a", target))
    if kernels is not None:
        (folder / "kernels.toml").write_text(kernels)
    return load_recipe(folder / "recipe.toml")


def test_kernels_that_fit_their_recipe_are_read(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path, kernels=f'{TEXT}patch = "guards.patch"\n')

    assert load_recipe_kernels(recipe).rules.rules[0].patch == "guards.patch"


def test_a_recipe_without_kernels_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="the recipe demo has no kernels"):
        load_recipe_kernels(recipe_of(tmp_path, kernels=None))


def test_rules_for_another_target_than_the_recipes_are_refused(tmp_path: Path) -> None:
    """They would never be checked, and nobody would see it."""
    with pytest.raises(RecipeError, match="rules are for sm_120a, and the recipe is for sm_90a"):
        load_recipe_kernels(recipe_of(tmp_path, kernels=TEXT, target="sm_90a"))


def test_a_rule_that_names_no_patch_of_the_series_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"a rule names gards\.patch"):
        load_recipe_kernels(recipe_of(tmp_path, kernels=f'{TEXT}patch = "gards.patch"\n'))


@pytest.mark.parametrize(
    ("old", "new", "line", "part"),
    [
        ('"demo.jit:generate"', '"demo.jit.generate"', 5, "package.module:function"),
        ("format = 1", "format = 2", 1, "newer"),
        ('= "src"', '= "../src"', 7, "plain relative path"),
        ('"true"', '"yes"', 14, "not JSON"),
        ("memory = 100", "memory = 0", 18, "below 1"),
        ("memory = 100", "memory = 100\nspeed = 3", 19, "unknown key"),
        ('"cp39-abi3"', '"py3"', 23, "a Python and an ABI tag"),
        ('["demo::*"]', "[]", 34, "about nothing"),
        ("kernels = 3", "kernels = 0", 36, "below 1"),
        ('one = "demo.jit:generate"', "", 4, "no module"),
        ('target = "sm_120a"', 'target = "sm_120"', 31, "has no suffix"),
        ('target = "sm_120a"', 'target = "hopper"', 31, "not a GPU target"),
        ('license = "MIT"', 'license = "MIT"\nlicense_files = ["../../etc/passwd"]', 26, "plain relative path"),
        ('license = "MIT"', 'license = "MIT"\nrequires = ["not a requirement"]', 26, "not a requirement"),
        ('"torch.ABI"', '"numpy.ABI"', 14, "of no stand-in"),
        ('"demo-kernels"', '"demo kernels/"', 21, "a distribution's name"),
        ('"Kernels"', '"Kernels\\nRequires-Dist: evil"', 22, "one line"),
        ("[compile]", '[evaluation.environment]\nA = "{target}"\n\n[compile]', 17, "{target}, which is not replaced"),
    ],
)
def test_a_fault_is_told_with_its_line(tmp_path: Path, old: str, new: str, line: int, part: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load(tmp_path, TEXT.replace(old, new, 1))

    assert part in caught.value.message
    assert f"kernels.toml:{line}:" in caught.value.message


UNITS = """
[[compile.split]]
unit = "a.cu"
header = "a.cuh"
namespace = "demo"
functions = ["int run<{type}, {ranks}>()"]
types = ["half"]

[compile.split.arguments]
ranks = ["2", "4"]

[[compile.prelude]]
units = ["a.cu", "a.half.cu"]
text = "#define QUIET\\n"
"""


def test_splits_and_preludes_are_read(tmp_path: Path) -> None:
    kernels = load(tmp_path, TEXT + UNITS)

    assert kernels.splits[0].arguments == (("ranks", ("2", "4")),)
    assert kernels.preludes[0].text == "#define QUIET\n"


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("{ranks}", "{rank}", "{rank} stands for nothing"),
        ('["half"]', "[]", "no functions or no types"),
        ('"demo"\nfunctions', '"demo space"\nfunctions', "a namespace such as a::b"),
        ('["2", "4"]', "[]", "`ranks` has no values"),
        ('ranks = ["2", "4"]', 'ranks = ["2", "4"]\ntype = ["float"]', "`type` is what `types` lists"),
        ('["a.cu", "a.half.cu"]', "[]", "a prelude is for no unit"),
        ("[[compile.prelude]]", '[[compile.prelude]]\nunits = ["a.cu"]\ntext = "x"\n\n[[compile.prelude]]', "already"),
        ("text = ", "words = ", "`text` is missing"),
    ],
)
def test_a_fault_of_a_split_or_prelude_is_told(tmp_path: Path, old: str, new: str, part: str) -> None:
    assert old in UNITS
    with pytest.raises(RecipeError) as caught:
        load(tmp_path, TEXT + UNITS.replace(old, new, 1))

    assert part in caught.value.message
    assert re.search(r"kernels\.toml:\d+:", caught.value.message)
