"""What names outside the trees mean: where an architecture enters a Python program.

Assumed throughout: one NVIDIA GPU of the architecture asked about, Linux, a recent CUDA toolkit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from packaging.version import InvalidVersion, Version

from forkwheel.gates.arch import CUDA_MAJOR, CUDA_MINOR, Arch
from forkwheel.gates.objects import DeviceProperties, External, Identity
from forkwheel.gates.values import Unknown, Value, holds_unknown

# A file that has none of these words, nor the name of something that was found to depend on the
# architecture, cannot hold a gate.
WORDS = frozenset(
    {
        "get_device_capability",
        "get_device_properties",
        "get_current_target",
        "ComputeCapability",
        "cudaDevAttrComputeCapabilityMajor",
        "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
        "nvmlDeviceGetCudaComputeCapability",
        "get_arch_list",
    }
)

_IDENTITIES = frozenset(
    {
        "functools.lru_cache",
        "functools.cache",
        "functools.wraps",
        "functools.cached_property",
        "torch.compile",
        "torch.no_grad",
        "torch.compiler.disable",
        "torch.jit.script",
        "contextlib.contextmanager",
    }
)

_CONSTANTS: dict[str, Any] = {
    "torch.version.cuda": f"{CUDA_MAJOR}.{CUDA_MINOR}",
    "torch.version.hip": None,
    "torch.version.xpu": None,
    "sys.platform": "linux",
    "typing.TYPE_CHECKING": False,
}


def attribute(name: str) -> Value:
    """Return the value of a dotted name outside the trees."""
    return _CONSTANTS.get(name, External(name)) if name not in _CONSTANTS else _CONSTANTS[name]


def call(name: str, arguments: list[Value], archs: tuple[Arch, ...], text: str) -> tuple[Value, ...] | Value:
    """Call a name outside the trees; a tuple of results is one for each architecture."""
    per_arch: Callable[[Arch], Value] | None = _per_arch(name)
    if per_arch is not None:
        return tuple(per_arch(arch) for arch in archs)
    if name == "torch.cuda.is_available":
        return True
    if name in _IDENTITIES:
        return Identity()
    if name.startswith("packaging.version.") or name.endswith((".Version", ".TorchVersion")):
        return _version(arguments, text)
    return Unknown(text)


def _per_arch(name: str) -> Callable[[Arch], Value] | None:
    last = name.rsplit(".", 1)[-1]
    if name.startswith("torch.") and last == "get_device_capability":
        return lambda arch: (arch.major, arch.minor)
    if name.startswith("torch.") and last == "get_device_properties":
        return lambda arch: DeviceProperties(arch.major, arch.minor)
    if last == "nvmlDeviceGetCudaComputeCapability":
        return lambda arch: (arch.major, arch.minor)
    return None


def _version(arguments: list[Value], text: str) -> Value:
    if len(arguments) == 1 and isinstance(arguments[0], str) and not holds_unknown(arguments):
        try:
            return Version(arguments[0])
        except InvalidVersion:
            return Unknown(text)
    return Unknown(text)
