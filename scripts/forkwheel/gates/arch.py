"""GPU architectures, and what a source can ask about one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from forkwheel.errors import UsageError

# The toolkit that conditions are evaluated for: recent enough for every architecture below.
CUDA_MAJOR = 13
CUDA_MINOR = 0


@dataclass(frozen=True, order=True)
class Arch:
    """A compute capability, such as 12.0."""

    major: int
    minor: int

    @property
    def number(self) -> int:
        """The capability as one number of two or three digits: 120 for 12.0."""
        return self.major * 10 + self.minor

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


# Shown in every gate's list of what it admits, beside the target and the references.
SHOWN = (Arch(8, 0), Arch(8, 9), Arch(9, 0), Arch(10, 0), Arch(10, 3), Arch(11, 0), Arch(12, 0), Arch(12, 1))

# What a list of architectures may hold; numbers such as 90 alone mean nothing.
KNOWN_NUMBERS = frozenset(
    {50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 107, 110, 120, 121}
)
_OLDEST = 5  # the oldest major version that a toolkit of today knows
KNOWN_MAJORS = frozenset(number // 10 for number in KNOWN_NUMBERS)


@lru_cache(maxsize=64)
def parse_arch(text: str) -> Arch:
    """Read ``12.0``, ``120`` or ``sm_120a``; raise UsageError for anything else, such as ``12``."""
    match = re.fullmatch(r"(?:sm_?|compute_)?(\d{1,2})\.?(\d)[af]?", text.strip())
    if match is None or int(match[1]) < _OLDEST:
        raise UsageError(f"{text!r} is not a compute capability", hint="write it as MAJOR.MINOR, such as 12.0")
    return Arch(int(match[1]), int(match[2]))


def universe(target: Arch, references: tuple[Arch, ...]) -> tuple[Arch, ...]:
    """Return every architecture that conditions are evaluated for, in order."""
    return tuple(sorted({*SHOWN, target, *references}))


def macros(arch: Arch) -> dict[str, int]:
    """Return what the device pass of the compiler predefines for the target ``sm_XYa``."""
    code = arch.number * 10
    known = {
        "__CUDA_ARCH__": code,
        "__CUDACC__": 1,
        "__NVCC__": 1,
        "__cplusplus": 201703,
        "__CUDACC_VER_MAJOR__": CUDA_MAJOR,
        "__CUDACC_VER_MINOR__": CUDA_MINOR,
        "CUDA_VERSION": CUDA_MAJOR * 1000 + CUDA_MINOR * 10,
        "CUDART_VERSION": CUDA_MAJOR * 1000 + CUDA_MINOR * 10,
    }
    if arch.major >= 9:
        known[f"__CUDA_ARCH_FEAT_SM{arch.number}_ALL"] = 1
        known["__CUDA_ARCH_SPECIFIC__"] = code
        known["__CUDA_ARCH_FAMILY_SPECIFIC__"] = code
    return known
