import math

import numpy as np
import pytest

from forkwheel.gpu import reference


def make(seed=0, tokens=5, hidden=64, ranks=4):
    random = np.random.default_rng(seed)
    inputs = [random.standard_normal((tokens, hidden)) for _ in range(ranks)]
    return inputs, random.standard_normal((tokens, hidden)), random.standard_normal(hidden)


def test_the_reference_is_the_sum_the_residual_and_its_norm():
    inputs, residual, gamma = make()

    found = reference.expected(inputs, residual, gamma, 1e-6)

    row = [sum(part[2][j] for part in inputs) + residual[2][j] for j in range(64)]
    scale = 1 / math.sqrt(sum(value * value for value in row) / 64 + 1e-6)
    assert found["sum"][2][7] == pytest.approx(sum(part[2][7] for part in inputs))
    assert found["residual"][2] == pytest.approx(row)
    assert found["norm"][2] == pytest.approx([value * scale * gamma[j] for j, value in enumerate(row)])


def test_one_wrong_row_in_many_is_seen():
    wanted = np.ones((2048, 64))
    out = wanted.copy()
    out[1234] = 0.98

    whole, worst = reference.errors(out, wanted)

    assert whole < 1e-3
    assert worst == pytest.approx(0.02)
    assert not reference.within(2e-3, whole, worst)


def test_nan_never_passes():
    wanted = np.ones((4, 8))
    out = wanted.copy()
    out[3, 3] = math.nan

    assert not reference.within(1.0, *reference.errors(out, wanted))


@pytest.mark.parametrize(("first", "second"), [(math.nan, 0.001), (0.001, math.nan), (math.nan, math.nan)])
def test_the_larger_error_is_the_one_that_is_no_number(first, second):
    assert math.isnan(reference.larger(first, second))
    assert reference.larger(1.0, 2.0) == reference.larger(2.0, 1.0) == 2.0


def test_the_bounds_hold_for_sums_that_are_rounded_at_each_step():
    inputs, residual, gamma = make(tokens=16, hidden=1024, ranks=8)
    inputs = [part.astype(np.float16) for part in inputs]
    residual, gamma = residual.astype(np.float16), gamma.astype(np.float16)
    exact = reference.expected([p.astype(float) for p in inputs], residual.astype(float), gamma.astype(float), 1e-6)
    total = inputs[0]
    for part in inputs[1:]:
        total = (total + part).astype(np.float16)

    whole, _ = reference.errors((total + residual).astype(float), exact["residual"])

    assert 1e-4 < whole < reference.BOUNDS["float16"]


def test_the_fp8_table_is_e4m3():
    table = reference.e4m3_table()

    assert table[0x7E] == 448.0
    assert table[0x01] == 2.0**-9
    assert table[0x38] == 1.0
    assert table[0xB8] == -1.0
    assert math.isnan(table[0x7F])
    assert sum(math.isnan(value) for value in table) == 2


def quantise(values, scale, layout):
    """A plain FP4 quantiser: 16 values share an e4m3 scale, two values share a byte."""
    tokens, hidden = values.shape
    scales = np.array(reference.e4m3_table())
    codes = np.array(reference.e2m1_table())
    packed = np.zeros((tokens, hidden // 2), dtype=np.int64)
    stored = np.full(reference.scale_count(tokens, hidden, layout), 0x7F)
    for row in range(tokens):
        for block in range(hidden // 16):
            part = values[row, block * 16 : block * 16 + 16]
            byte = int(np.nanargmin(np.abs(scales[:127] - scale * np.abs(part).max() / 6)))
            stored[reference.scale_offsets(row, block, hidden, layout)] = byte
            nearest = [int(np.argmin(np.abs(codes - value * scale / scales[byte]))) for value in part]
            for pair in range(8):
                packed[row, block * 8 + pair] = nearest[2 * pair] | nearest[2 * pair + 1] << 4
    return packed, stored


@pytest.mark.parametrize("layout", [reference.SWIZZLED_128X4, reference.LINEAR])
def test_fp4_is_decoded_from_its_layout(layout):
    values = np.random.default_rng(3).standard_normal((130, 96))
    packed, stored = quantise(values, 64.0, layout)
    rows, columns = np.arange(130)[:, None], np.arange(6)[None, :]

    low, high = reference.fp4_values(
        packed,
        stored[reference.scale_offsets(rows, columns, 96, layout)],
        table=np.array(reference.e2m1_table()),
        scale_table=np.array(reference.e4m3_table()),
        global_scale=64.0,
    )
    whole, worst = reference.errors(np.stack([low, high], axis=-1).reshape(130, 96), values)

    assert reference.within(reference.BOUNDS["fp4"], whole, worst)


def test_the_swizzled_layout_gives_every_block_a_place_of_its_own():
    rows, columns = np.arange(256)[:, None], np.arange(12)[None, :]

    offsets = reference.scale_offsets(rows, columns, 192, reference.SWIZZLED_128X4)

    assert len(np.unique(offsets)) == 256 * 12 == reference.scale_count(256, 192, reference.SWIZZLED_128X4)
    assert offsets[33, 0] == 33 % 32 * 16 + 4  # row 33: group 1, second four bytes
    assert offsets[0, 5] == 512 + 1
