"""An invented package with one small CUDA module and a specification of it, for the tests of kernels."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from forkwheel.console import Console
from forkwheel.cuda.kernel_config import Kernels, load_kernels
from forkwheel.cuda.kernels import KernelShop
from forkwheel.cuda.toolchain import load_toolchain_lock, locked_toolchain
from forkwheel.store import Store

REPOSITORY = Path(__file__).resolve().parents[1]
RECIPE = REPOSITORY / "recipes" / "sm120"

KERNELS = '''\
format = 1
package = "demo"

[modules]
demo_ops = "demo.jit:generate"

[links]
"demo/data/src" = "src"

[evaluation]
package = "demo"
first = ["tvm_ffi"]
stand_ins = ["torch"]

[evaluation.environment]
DEMO_TARGETS = "{targets}"
DEMO_WORK = "{work}"

[compile]
memory = 500
longest_first = ["norm.cu", "other.cu"]

[[compile.split]]
unit = "norm.cu"
header = "norm.cuh"
namespace = "demo"
functions = ["int run<{type}, {blocks}>({type}*)"]
types = ["half"]

[compile.split.arguments]
blocks = ["1", "2"]

[[compile.prelude]]
units = ["norm.half.cu"]
text = '#define DEMO_SAY(text) static_assert(sizeof(T) == 0, "this unit says nothing")'

[wheel]
distribution = "demo-kernels"
summary = "Kernels of an invented package"
tag = "cp39-abi3"
objects = "demo_kernels/objects"
requires = ["demo=={version}"]
license = "MIT"
license_files = ["LICENSE"]

[wheel.files]
"demo_kernels/__init__.py" = """
__version__ = "{version}"
"""

[census]
target = "sm_120a"
empty = 16
may_be_empty = ["demo::fill"]

[[census.rule]]
families = ["demo::norm"]
kernels = 2
grid_dependency = true
no_local = true
patch = "guards.patch"
'''

SPECIFICATION = """\
import os
import sysconfig
from pathlib import Path

import torch
from torch.nn import Module

SOURCES = Path(__file__).resolve().parent / "data" / "src"


class Specification:
    name = "demo_ops"
    folder = Path(os.environ["DEMO_WORK"]) / "built" / "demo_ops"
    ninja_path = folder / "build.ninja"

    def write_ninja(self):
        self.folder.mkdir(parents=True)
        gencode = [
            f"-gencode=arch=compute_{n.replace('.', '')},code=sm_{n.replace('.', '')}"
            for n in os.environ["DEMO_TARGETS"].split(" ")
        ]
        includes = f"-isystem {sysconfig.get_path('include')} -isystem {SOURCES.resolve()}"
        flags = f"{includes} -O3 --compiler-options=-fPIC {' '.join(gencode)}"
        units = {"norm": SOURCES / "norm.cu", "other": SOURCES / "other.cu"}
        lines = [
            f"cuda_home = {os.environ['CUDA_HOME']}",
            "rule cuda_compile",
            f"  command = $cuda_home/bin/nvcc -MMD -MF $out.d {flags} -c $in -o $out",
            "rule link",
            "  command = c++ $in -shared -L$cuda_home/lib64 -L$cuda_home/lib64/stubs -lcudart -lcuda -o $out",
        ]
        lines += [f"build {self.folder}/{name}.o: cuda_compile {source.resolve()}" for name, source in units.items()]
        objects = " ".join(f"{self.folder}/{name}.o" for name in units)
        lines += [f"build {self.folder}/demo_ops.so: link {objects}", ""]
        self.ninja_path.write_text("\\n".join(lines))


def generate():
    return Specification()
"""

HEADER = """\
#include <cuda_fp16.h>
#include "guard.h"

#ifndef DEMO_SAY
#include <cstdio>
#define DEMO_SAY(text) std::puts(text)
#endif

namespace demo {
// A static symbol, whose name carries what is unique of its unit into the object.
template <typename T>
static __device__ constexpr float scale[2] = {3.0f, sizeof(T)};

template <typename T>
__global__ void norm(T* data) {
#if DEMO_GUARD
  cudaGridDependencySynchronize();
  data[threadIdx.x] = T(float(data[threadIdx.x]) * scale<T>[threadIdx.x & 1]);
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// Neither inline nor a template: every part of a split has it.
int block() { return 32; }

template <typename T, int Blocks>
int run(T* data) {
  norm<<<Blocks, block()>>>(data);
  return cudaGetLastError();
}

template <typename T>
int choose(T* data, bool twice) {
  DEMO_SAY("chosen");
  return twice ? run<T, 2>(data) : run<T, 1>(data);
}
}  // namespace demo
"""

NORM = """\
#include "norm.cuh"

extern "C" const char* demo_norm(float* x, half* y) {
  demo::choose(x, false);
  demo::choose(y, true);
  return __FILE__;
}
"""

OTHER = """\
namespace demo {
static __global__ void fill(int* data) { data[threadIdx.x] = threadIdx.x; }
}

extern "C" int demo_fill(int* x) {
  demo::fill<<<1, 32>>>(x);
  return cudaGetLastError();
}
"""


def make_tree(folder: Path, *, guard: str = "__CUDA_ARCH__ >= 900") -> Path:
    """Write the package's patched tree; ``guard`` is the condition that its kernels' bodies stand under."""
    files = {
        "LICENSE": "MIT\n",
        "demo/__init__.py": "raise RuntimeError('imports everything')\n",
        "demo/jit.py": SPECIFICATION,
        "src/norm.cu": NORM,
        "src/norm.cuh": HEADER,
        "src/guard.h": f"#define DEMO_GUARD ({guard})\n",
        "src/other.cu": OTHER,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def load_demo(folder: Path) -> Kernels:
    """Return the description of the package's kernels."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernels.toml").write_text(KERNELS)
    return load_kernels(folder / "kernels.toml")


def open_shop(
    store: Store, kernels: Kernels, *, environment: Mapping[str, str] = os.environ, output: io.StringIO | None = None
) -> KernelShop:
    """Return a shop with the project's locked toolchain."""
    log = Console(stream=output or io.StringIO()).bind("demo")
    lock = load_toolchain_lock(RECIPE)
    toolchain = locked_toolchain(lock, store=store, log=log, environment=environment)
    return KernelShop(kernels, toolchain, lock, store, log, environment)


def with_store(shop: KernelShop, store: Store, *, toolchains: Store) -> KernelShop:
    """Return the shop of another builder, with an empty cache but for the toolchains of ``toolchains``."""
    for name in ("envs", "toolkits"):
        if not (store.root / name).exists():
            (store.root / name).symlink_to(toolchains.root / name)
    return replace(shop, store=store)
