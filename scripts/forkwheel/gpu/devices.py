"""The GPUs of this machine, asked through the driver's own library, before anything is installed."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from forkwheel.errors import NoGpuError

_MAJOR, _MINOR, _CLUSTER = 75, 76, 120
_PROCESSORS = 16


@dataclass(frozen=True)
class Device:
    """One GPU: its name, compute capability, multiprocessors and memory in bytes."""

    index: int
    name: str
    capability: tuple[int, int]
    multiprocessors: int
    memory: int
    clusters: bool

    @property
    def architecture(self) -> str:
        """The architecture as NVIDIA names it: SM90, SM120."""
        return f"SM{self.capability[0]}{self.capability[1]}"


@dataclass(frozen=True)
class Machine:
    """The GPUs, and the newest CUDA version that their driver serves, as (major, minor)."""

    devices: tuple[Device, ...]
    cuda: tuple[int, int]
    driver: str


def load_driver() -> Any:
    """Load the driver's library and initialise it; raise NoGpuError where there is none to use."""
    hint = "run this on a machine with an NVIDIA GPU and its driver"
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise NoGpuError(
            "there is no NVIDIA GPU here: the driver's library libcuda.so.1 is missing", hint=hint
        ) from None
    code = driver.cuInit(0)
    if code:
        raise NoGpuError(f"there is no usable NVIDIA GPU here: the driver answers {code} to cuInit", hint=hint)
    return driver


def find_machine() -> Machine:
    """Return this machine's GPUs; raise NoGpuError where there are none."""
    driver = load_driver()
    count, version = ctypes.c_int(), ctypes.c_int()
    driver.cuDeviceGetCount(ctypes.byref(count))
    driver.cuDriverGetVersion(ctypes.byref(version))
    if not count.value:
        raise NoGpuError("there is no NVIDIA GPU here: the driver lists none", hint="check CUDA_VISIBLE_DEVICES")
    devices = tuple(_device(driver, index) for index in range(count.value))
    return Machine(devices, (version.value // 1000, version.value % 1000 // 10), _driver_version())


def _device(driver: Any, index: int) -> Device:
    device, memory, name = ctypes.c_int(), ctypes.c_size_t(), ctypes.create_string_buffer(256)
    driver.cuDeviceGet(ctypes.byref(device), index)
    driver.cuDeviceGetName(name, len(name), device)
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device)

    def attribute(number: int) -> int:
        value = ctypes.c_int()
        driver.cuDeviceGetAttribute(ctypes.byref(value), number, device)
        return value.value

    return Device(
        index=index,
        name=name.value.decode(),
        capability=(attribute(_MAJOR), attribute(_MINOR)),
        multiprocessors=attribute(_PROCESSORS),
        memory=memory.value,
        clusters=bool(attribute(_CLUSTER)),
    )


def _driver_version() -> str:
    try:
        with open("/proc/driver/nvidia/version") as file:  # noqa: PTH123
            words = file.readline().split()
    except OSError:
        return "unknown"
    return next((word for word in words if word[0].isdigit() and "." in word), "unknown")
