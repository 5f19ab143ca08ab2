"""A little of the CUDA driver API, for probes that need neither torch nor a compiler.

Used inside ranks. A failing call raises with the driver's own name of the error.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

#: Stores one number after the other from ``value`` on, with each thread writing its own; the
#: second kernel does nothing. PTX for an old architecture: the driver compiles it for the GPU.
PTX = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry fill(.param .u64 target, .param .u32 value, .param .u32 count)
{
  .reg .pred %p;
  .reg .b32 %r<7>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [target];
  ld.param.u32 %r1, [value];
  ld.param.u32 %r2, [count];
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %tid.x;
  mad.lo.s32 %r6, %r3, %r4, %r5;
  setp.ge.u32 %p, %r6, %r2;
  @%p bra done;
  mul.wide.u32 %d2, %r6, 4;
  cvta.to.global.u64 %d1, %d1;
  add.s64 %d3, %d1, %d2;
  add.u32 %r1, %r1, %r6;
  st.global.u32 [%d3], %r1;
  membar.sys;
done:
  ret;
}
.visible .entry nothing()
{
  ret;
}
"""


class IpcHandle(ctypes.Structure):
    """CUipcMemHandle."""

    _fields_ = (("reserved", ctypes.c_char * 64),)


class _LaunchAttribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_uint), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint * 16))


class _LaunchConfig(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_LaunchAttribute)),
        ("count", ctypes.c_uint),
    )


_CLUSTER_DIMENSION = 4
_PEER_ACCESS = 1


class Context:
    """A context on one GPU, with the two kernels loaded."""

    def __init__(self, device: int) -> None:
        self._driver: Any = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)
        self._device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(self._device), device)
        self._context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), self._device)
        self._call("cuCtxSetCurrent", self._context)
        module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), PTX)
        self._functions = {}
        for name in (b"fill", b"nothing"):
            function = ctypes.c_void_p()
            self._call("cuModuleGetFunction", ctypes.byref(function), module, name)
            self._functions[name.decode()] = function

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._driver, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'?').decode()} ({code})")

    def allocate(self, size: int) -> int:
        """Allocate device memory, set to zero; ``size`` in bytes."""
        pointer = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        self._call("cuMemsetD8_v2", pointer, ctypes.c_ubyte(0), ctypes.c_size_t(size))
        self.synchronize()
        return pointer.value

    def export(self, pointer: int) -> bytes:
        """Return the handle by which another process opens this memory."""
        handle = IpcHandle()
        self._call("cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(pointer))
        return bytes(handle)

    def open(self, handle: bytes) -> int:
        """Map another process's memory."""
        pointer = ctypes.c_uint64()
        opened = IpcHandle.from_buffer_copy(handle)
        self._call("cuIpcOpenMemHandle_v2", ctypes.byref(pointer), opened, _PEER_ACCESS)
        return pointer.value

    def close(self, pointer: int) -> None:
        """Unmap another process's memory."""
        self._call("cuIpcCloseMemHandle", ctypes.c_uint64(pointer))

    def fill(self, pointer: int, value: int, count: int) -> None:
        """Let a kernel store ``value``, ``value + 1``, … into ``count`` 32-bit words."""
        values = (ctypes.c_uint64(pointer), ctypes.c_uint32(value), ctypes.c_uint32(count))
        arguments = (ctypes.c_void_p * 3)(*(ctypes.cast(ctypes.pointer(v), ctypes.c_void_p) for v in values))
        grid = ((count + 255) // 256, 1, 1)
        self._call("cuLaunchKernel", self._functions["fill"], *grid, 256, 1, 1, 0, None, arguments, None)
        self.synchronize()

    def read(self, pointer: int, count: int) -> Sequence[int]:
        """Copy ``count`` 32-bit words to the host."""
        words = (ctypes.c_uint32 * count)()
        self._call("cuMemcpyDtoH_v2", words, ctypes.c_uint64(pointer), ctypes.c_size_t(4 * count))
        return list(words)

    def launches_cluster(self, size: int) -> bool:
        """Tell whether a kernel can be launched as one cluster of ``size`` blocks."""
        attribute = _LaunchAttribute(id=_CLUSTER_DIMENSION)
        attribute.value[0], attribute.value[1], attribute.value[2] = size, 1, 1
        config = _LaunchConfig(shared=0, stream=None, attributes=ctypes.pointer(attribute), count=1)
        config.grid[:], config.block[:] = (size, 1, 1), (128, 1, 1)
        try:
            self._call("cuLaunchKernelEx", ctypes.byref(config), self._functions["nothing"], None, None)
            self.synchronize()
        except RuntimeError:
            return False
        return True

    def reaches(self, peer: int) -> bool:
        """Tell whether the driver offers access to another GPU's memory."""
        answer, other = ctypes.c_int(), ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(other), peer)
        self._call("cuDeviceCanAccessPeer", ctypes.byref(answer), self._device, other)
        return bool(answer.value)

    def synchronize(self) -> None:
        """Wait for all that was launched."""
        self._call("cuCtxSynchronize")
