"""Run the real JIT of an unpacked FlashInfer without a GPU, a CUDA toolkit or torch.

``jit_cache_driver.py TREE paths`` prints where it keeps things, as JSON;
``jit_cache_driver.py TREE build NAME`` compiles one C++ source under the JIT's own locks.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock


def stub(name: str, **attributes: object) -> None:
    module = MagicMock(spec_set=None, **attributes)
    module.__spec__ = None
    sys.modules[name] = module


def folder_package(name: str, folder: Path) -> None:
    """Make a package of the tree importable without running its ``__init__``."""
    module = ModuleType(name)
    module.__path__ = [str(folder)]
    sys.modules[name] = module


def note_locking(event: str, _: object) -> None:
    """Leave the file ``locking`` when the JIT tries to take a lock."""
    if event == "fcntl.flock":
        (Path(os.environ["FAKE"]) / "locking").touch()


def main(tree: Path, command: str, *names: str) -> None:
    stub("torch")
    sys.modules["torch"].cuda.device_count.return_value = 0
    stub("tvm_ffi")
    for finder in ("find_include_path", "find_dlpack_include_path"):
        getattr(sys.modules["tvm_ffi"].libinfo, finder).return_value = "/usr/include"
    folder_package("flashinfer", tree / "flashinfer")
    folder_package("flashinfer.jit", tree / "flashinfer" / "jit")
    env = importlib.import_module("flashinfer.jit.env")
    if command == "paths":
        found = {
            "version": env.flashinfer_version,
            "workspace": str(env.FLASHINFER_WORKSPACE_DIR),
            "cached_ops": str(env.FLASHINFER_JIT_DIR),
            "generated": str(env.FLASHINFER_GEN_SRC_DIR),
            "cubins": str(env.FLASHINFER_CUBIN_DIR),
            "aot": str(env.FLASHINFER_AOT_DIR),
        }
        sys.stdout.write(json.dumps(found))
        return
    core = importlib.import_module("flashinfer.jit.core")
    sys.addaudithook(note_locking)
    specs = []
    for name in names:
        source = env.FLASHINFER_GEN_SRC_DIR / name / f"{name}.cpp"
        source.parent.mkdir(parents=True, exist_ok=True)
        core.write_if_different(source, "int one() { return 1; }\n")
        specs.append(core.gen_jit_spec(name, [source]))
    if command == "build":
        for spec in specs:
            spec.build_and_load()
    else:
        core.build_jit_specs(specs)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
