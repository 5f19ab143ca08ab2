from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from kernel_support import load_demo

from forkwheel.cuda import evaluate
from forkwheel.cuda.build_root import ROOT, BuildRoot
from forkwheel.cuda.host_compiler import HostCompiler
from forkwheel.cuda.module import Module, Unit, compiled_alike, linked_statically, recorded, with_option
from forkwheel.cuda.specification import evaluate as evaluate_modules
from forkwheel.cuda.specification import stage_inputs
from forkwheel.cuda.targets import parse_targets
from forkwheel.cuda.toolchain import Toolchain
from forkwheel.errors import BuildError, RecipeError

PACKAGE = """
import torch
import first
import torch.utils.cpp_extension
from torch import Tensor
from torch.nn import Module
from pathlib import Path

import torch._C
ABI = int(torch._C._ABI)


class Layer(torch.nn.Module):
    pass


class Specification:
    name = "demo"
    ninja_path = Path("out/build.ninja")

    def write_ninja(self):
        self.ninja_path.parent.mkdir()
        self.ninja_path.write_text(f"abi {ABI}")


def generate():
    return Specification()


def generate_by_calling():
    torch.tensor([1])
"""


def toolchain(kind: str = "locked", home: str = "/toolkit/of/cache", *, chosen: bool = False) -> Toolchain:
    return Toolchain(kind, Path(home), "13.0.88", "0" * 64, HostCompiler("/usr/bin/g++-12", "gcc 12", "ld 2", chosen))


def run_evaluate(folder: Path, generator: str) -> subprocess.CompletedProcess[str]:
    tree, packages = folder / "tree", folder / "packages"
    (tree / "demo" / "jit").mkdir(parents=True)
    packages.mkdir()
    (tree / "demo" / "__init__.py").write_text("raise RuntimeError('all parts are imported')")
    (tree / "demo" / "jit" / "__init__.py").write_text("")
    (tree / "demo" / "jit" / "spec.py").write_text(PACKAGE)
    (packages / "first.py").write_text("import sys\nassert 'torch' not in sys.modules\n")
    request = {
        "tree": str(tree),
        "packages": str(packages),
        "package": "demo",
        "first": ["first"],
        "stand_ins": ["torch"],
        "values": {"torch._C._ABI": True},
        "modules": {"demo": f"demo.jit.spec:{generator}"},
    }
    command = [sys.executable, "-I", "-S", str(evaluate.__file__), json.dumps(request)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_specification_is_evaluated_with_stand_ins(tmp_path: Path) -> None:
    result = run_evaluate(tmp_path, "generate")

    answer = json.loads(result.stdout.splitlines()[-1])
    assert answer["modules"] == {"demo": {"name": "demo", "ninja": "out/build.ninja"}}
    assert (tmp_path / "out" / "build.ninja").read_text() == "abi 1"


def test_a_stand_in_that_is_called_is_named(tmp_path: Path) -> None:
    result = run_evaluate(tmp_path, "generate_by_calling")

    assert result.returncode
    assert "torch.tensor is a stand-in" in result.stderr.splitlines()[-1]


def test_the_runtime_is_linked_statically_and_the_driver_only_if_called() -> None:
    link = linked_statically(["c++", "a.o", "-shared", "-L/cuda/lib64", "-lcudart", "-lcuda", "-o", "a.so"])

    assert "-lcudart" not in link
    assert link.index("-Wl,--as-needed") < link.index("-lcuda")
    assert link.index("-lcudart_static") < link.index("-ldl")
    assert "-Wl,--exclude-libs=libcudart_static.a" in link
    assert "-Wl,--build-id=none" in link


def test_nvcc_is_given_its_linker_options_in_its_own_way() -> None:
    link = linked_statically(["/cuda/bin/nvcc", "-shared", "a.o", "-lcudart", "-o", "a.so"])

    assert link[1:3] == ("-Xlinker", "--as-needed")
    assert not any(argument.startswith("-Wl,") for argument in link)


def test_nvcc_is_given_what_makes_it_repeatable() -> None:
    older = replace(toolchain("system"), nvcc_version="12.8.93")

    command = compiled_alike(["/cuda/bin/nvcc", "-c", "a.cu"], seed="a.cu", toolchain=toolchain())
    by_older = compiled_alike(["/cuda/bin/nvcc", "-c", "a.cu"], seed="a.cu", toolchain=older)
    by_host = compiled_alike(["c++", "-c", "a.cpp"], seed="a.cpp", toolchain=toolchain())

    assert command[1:3] == ("-objtemp", "-frandom-seed=a.cu")
    assert by_older[1:] == ("-objtemp", "-c", "a.cu")
    assert by_host == ("c++", "-c", "a.cpp")


def test_recorded_commands_hold_no_path_of_the_machine() -> None:
    command = [f"{ROOT}/toolkit/bin/nvcc", "-isystem", f"{ROOT}/tree/include", "-c", f"{ROOT}/tree/a.cu"]
    on_system = ["/opt/cuda/bin/nvcc", "-ccbin", "/usr/bin/g++-12", "-I/opt/cuda/include"]

    assert recorded(command, toolchain=toolchain()) == "toolkit/bin/nvcc -isystem tree/include -c tree/a.cu"
    assert (
        recorded(on_system, toolchain=toolchain("system", "/opt/cuda", chosen=True))
        == "toolkit/bin/nvcc -ccbin c++ -Itoolkit/include"
    )


class Stage:
    """A build root that is mounted nowhere, and scripts that answer for the package and for ninja."""

    def __init__(
        self, folder: Path, *, answer: str | None = None, objects: str = f"{ROOT}/work/ops", flags: str = ""
    ) -> None:
        self.folder = folder
        source = f"{ROOT}/tree/src/a.cu"
        commands = [
            {"file": source, "output": f"{objects}/a.o", "command": f"nvcc {flags} -c {source} -o {objects}/a.o"},
            {"file": f"{objects}/a.o", "output": f"{objects}/demo.so", "command": f"c++ {objects}/a.o -shared"},
        ]
        ninja_file = f"{ROOT}/work/ops/build.ninja"
        document = {"modules": {"ops": {"name": "ops", "ninja": ninja_file}}, "python_include": "/py"}
        said = f"it says much\n{json.dumps(document)}\nand more" if answer is None else answer
        self.script = self._says("answer", said)
        self._says("ninja", json.dumps(commands))

    def _says(self, name: str, text: str) -> Path:
        script = self.folder / name
        script.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
        script.chmod(0o755)
        return script

    def evaluate(self) -> tuple[Module, ...]:
        return evaluate_modules(
            BuildRoot(self.folder, (str(self.script),)),
            kernels=load_demo(self.folder / "recipe"),
            modules=["ops"],
            targets=parse_targets("12.0a"),
            toolchain=toolchain(),
            python=self.folder / "python",
        )


def test_the_answer_is_found_among_what_the_package_prints(tmp_path: Path) -> None:
    (module,) = Stage(tmp_path).evaluate()

    assert [unit.source for unit in module.units] == [f"{ROOT}/tree/src/a.cu"]
    assert module.output == f"{ROOT}/objects/ops/demo.so"


@pytest.mark.parametrize("flags", ["-I{ROOT}/tree/other", "-isystem {ROOT}/tree/source", "-include={ROOT}/tree/x.h"])
def test_what_no_link_covers_is_refused(tmp_path: Path, flags: str) -> None:
    """Its content is no part of the key."""
    with pytest.raises(RecipeError, match=r"ops is compiled from tree/(other|source|x\.h), which no link covers"):
        Stage(tmp_path, flags=flags.format(ROOT=ROOT)).evaluate()


def test_what_a_link_covers_is_taken(tmp_path: Path) -> None:
    Stage(tmp_path, flags=f"-I{ROOT}/tree/src -I{ROOT}/tree/demo/data/src/deeper").evaluate()


@pytest.mark.parametrize(
    "answer", ["", "nothing", '{"modules": ', '{"modules": {"ops": {"ninja": "/home/of/somebody/build.ninja"}}}']
)
def test_a_package_that_wrote_no_ninja_file_here_is_told(tmp_path: Path, answer: str) -> None:
    with pytest.raises(BuildError, match="wrote no ninja file below") as caught:
        Stage(tmp_path, answer=answer).evaluate()

    assert "{work}" in caught.value.hint


def test_an_object_outside_of_the_root_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"writes /elsewhere/a\.o, outside of"):
        Stage(tmp_path, objects="/elsewhere").evaluate()


def test_a_link_over_what_the_tree_has_is_refused(tmp_path: Path) -> None:
    tree = tmp_path / "package"
    for name in ("src", "demo/data/src"):
        (tree / name).mkdir(parents=True)
    stage = tmp_path / "stage"
    stage.mkdir()

    with pytest.raises(RecipeError, match="`links` names demo/data/src, which the tree has"):
        stage_inputs(
            BuildRoot(stage, ()),
            tree=tree,
            kernels=load_demo(tmp_path / "recipe"),
            toolchain=toolchain(),
            python=Path(sys.executable),
        )


def test_an_option_is_given_to_nvcc_alone() -> None:
    units = (Unit("a.cu", "a.o", ("/cuda/bin/nvcc", "-c")), Unit("b.cpp", "b.o", ("c++", "-c")))

    module = with_option(Module("demo", units, "demo.so", ("c++",)), "--split-compile=0")

    assert [unit.command for unit in module.units] == [("/cuda/bin/nvcc", "--split-compile=0", "-c"), ("c++", "-c")]
