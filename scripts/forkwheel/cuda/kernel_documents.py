"""A kernel build in the manifest (inputs and hashes) and in what was observed (host, times)."""

from __future__ import annotations

from typing import Any

from forkwheel.cuda.kernels import KernelBuild
from forkwheel.wheels.finish import Wheel

SCHEMA = 1


def kernels_document(build: KernelBuild, *, wheel: Wheel | None = None) -> dict[str, Any]:
    """Return what the manifest records; the same inputs and host compiler give the same document."""
    return {
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
        "host_compiler": build.toolchain.host.label,
        "cuda_home": str(build.toolchain.cuda_home),
        "reused": build.reused,
        "seconds": {name: round(seconds, 1) for name, seconds in build.seconds},
        "compile_cache": None if use is None else {"hits": use.hits, "misses": use.misses, "errors": use.errors},
    }
