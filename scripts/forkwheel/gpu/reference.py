"""What a fused all-reduce must compute, in fp64, and how far a result is from it.

Written with operators that torch tensors and numpy arrays share, so that the arithmetic that
judges the GPU is itself tested on the CPU. Shapes are [tokens, hidden] unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: Largest ‖out - ref‖ / ‖ref‖ over all rows. Rounding to the type at each of the two or three
#: steps (and once for each rank, where sums are kept in the type) stays below a third of it.
BOUNDS: Mapping[str, float] = {"float16": 2e-3, "bfloat16": 1.2e-2, "float32": 1e-5, "fp8": 4e-2, "fp4": 0.15}

#: How much more than that a single row may be off: one wrong row in 2048 hides in the whole.
ROW_FACTOR = 2.0

SWIZZLED_128X4, LINEAR = "swizzled-128x4", "linear"
FP4_BLOCK = 16


def expected(inputs: Sequence[Any], residual: Any, gamma: Any, epsilon: float) -> dict[str, Any]:
    """Return the sum of all ranks' inputs, that sum plus the residual, and its RMSNorm.

    ``gamma`` is [hidden]; everything must be fp64 already.
    """
    total = inputs[0]
    for part in inputs[1:]:
        total = total + part
    shifted = total + residual
    scale = ((shifted * shifted).mean(axis=-1, keepdims=True) + epsilon) ** -0.5
    return {"sum": total, "residual": shifted, "norm": shifted * scale * gamma}


def errors(out: Any, reference: Any) -> tuple[float, float]:
    """Return ‖out - ref‖ / ‖ref‖ over everything, and the largest of any one row; NaN never passes."""
    difference = ((out - reference) ** 2).sum(axis=-1)
    size = (reference**2).sum(axis=-1)
    tiny = 1e-300
    whole = float(difference.sum()) / max(float(size.sum()), tiny)
    worst = float((difference / (size + tiny)).max())
    return whole**0.5, worst**0.5


def larger(first: float, second: float) -> float:
    """Return the larger error; NaN is larger than any, so that none is lost among good ones."""
    return first if first >= second or first != first else second


def within(bound: float, whole: float, worst_row: float) -> bool:
    """Tell whether both errors are within the bound; a NaN is not."""
    return whole <= bound and worst_row <= ROW_FACTOR * bound


def e4m3_table() -> list[float]:
    """List the values of the 256 codes of fp8 e4m3 (sign, 4 exponent bits, 3 of mantissa; no infinities)."""
    values = []
    for code in range(256):
        sign, exponent, mantissa = -1.0 if code & 128 else 1.0, code >> 3 & 15, code & 7
        if exponent == 15 and mantissa == 7:
            values.append(float("nan"))
        elif exponent == 0:
            values.append(sign * mantissa * 2.0**-9)
        else:
            values.append(sign * (8 + mantissa) * 2.0 ** (exponent - 10))
    return values


def e2m1_table() -> list[float]:
    """List the values of the 16 codes of fp4 e2m1."""
    half = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    return half + [-value for value in half]


def scale_count(tokens: int, hidden: int, layout: str) -> int:
    """Count the bytes that the block scales of an FP4 result take; the swizzled layout is padded."""
    columns = hidden // FP4_BLOCK
    if layout == LINEAR:
        return tokens * columns
    return (tokens + 127) // 128 * 128 * ((columns + 3) // 4 * 4)


def scale_offsets(row: Any, column: Any, hidden: int, layout: str) -> Any:
    """Return where the scale of block ``column`` of token ``row`` lies, in bytes.

    In the swizzled layout tiles of 128 rows and 4 columns take 512 bytes each: 32 groups of 16
    bytes, in which row r of the tile has group r % 32 and, in it, four bytes from 4 · (r // 32) on.
    """
    columns = hidden // FP4_BLOCK
    if layout == LINEAR:
        return row * columns + column
    tiles = (columns + 3) // 4
    tile = row // 128 * tiles + column // 4
    return tile * 512 + row % 32 * 16 + row % 128 // 32 * 4 + column % 4


def fp4_values(codes: Any, scales: Any, *, table: Any, scale_table: Any, global_scale: float) -> Any:
    """Decode FP4: ``codes`` [tokens, hidden / 2] hold two values a byte, the first in the low bits.

    ``scales`` [tokens, hidden / 16] are e4m3 codes, in the order of the blocks; ``table`` and
    ``scale_table`` are the two tables as fp64 arrays of the codes' own kind.
    """
    low, high = table[codes & 15], table[codes >> 4]
    tokens, pairs = codes.shape
    blocks = scale_table[scales].reshape(tokens, pairs // 8, 1) / global_scale
    wide_low = (low.reshape(tokens, pairs // 8, 8) * blocks).reshape(tokens, pairs)
    wide_high = (high.reshape(tokens, pairs // 8, 8) * blocks).reshape(tokens, pairs)
    return wide_low, wide_high
