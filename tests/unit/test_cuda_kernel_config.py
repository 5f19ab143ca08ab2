from __future__ import annotations

from pathlib import Path

import pytest

from forkwheel.cuda.kernel_config import load_kernels
from forkwheel.errors import RecipeError

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
    ],
)
def test_a_fault_is_told_with_its_line(tmp_path: Path, old: str, new: str, line: int, part: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load(tmp_path, TEXT.replace(old, new, 1))

    assert part in caught.value.message
    assert f"kernels.toml:{line}:" in caught.value.message
