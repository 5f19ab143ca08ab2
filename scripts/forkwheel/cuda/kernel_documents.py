"""A kernel build in the manifest (inputs and hashes) and in what was observed (host, times)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forkwheel.cuda.kernel_config import FILENAME
from forkwheel.cuda.kernels import KernelBuild
from forkwheel.cuda.toolchain import toolchain_lock_file
from forkwheel.wheels.finish import Wheel

SCHEMA = 1
RECIPE_FILES = (FILENAME, toolchain_lock_file(Path()).name)
"""What of a recipe's folder decides how kernels are compiled and packed."""


def kernels_document(
    build: KernelBuild, *, wheel: Wheel | None = None, recipe_folder: Path | None = None
) -> dict[str, Any]:
    """Return what the manifest records; the same inputs and host compiler give the same document.

    With ``recipe_folder`` it also holds what it takes to compile the kernels again elsewhere,
    which the wheel itself does not carry.
    """
    texts = {} if recipe_folder is None else {name: (recipe_folder / name).read_text("utf-8") for name in RECIPE_FILES}
    return {
        **({"recipe": texts} if texts else {}),
        "schema": SCHEMA,
        "key": build.key,
        "parts": dict(build.parts),
        "targets": [target.name for target in build.targets],
        "needs_driver": build.toolchain.needs_driver,
        "fast": build.fast,
        "modules": [
            {
                "name": module.name,
                "sha256": module.sha256,
                "size": module.size,
                "device": list(module.device),
                "commands": {**dict(module.units), f"{module.name}.so": module.link},
            }
            for module in build.modules
        ],
        "wheel": None if wheel is None else {"filename": wheel.filename, "sha256": wheel.sha256, "size": wheel.size},
    }


def observed_document(build: KernelBuild) -> dict[str, Any]:
    """Return what differs from host to host and run to run."""
    use = build.cache_use
    return {
        "schema": SCHEMA,
        "host_compiler": build.toolchain.host.label,
        "cuda_home": str(build.toolchain.cuda_home),
        "reused": build.reused,
        "seconds": {name: round(seconds, 1) for name, seconds in build.seconds},
        "compile_cache": None if use is None else {"hits": use.hits, "misses": use.misses, "errors": use.errors},
    }
