"""The launch arithmetic of the fusion kernels: a cluster's threads are exactly a token's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any

import pytest
from series_cpp import compile_host_code, run_host_code

HEADER = "include/flashinfer/comm/trtllm_allreduce_fusion.cuh"
FIRST, LAST = "int threads_per_token = params.hidden_dim / VEC_SIZE;", "int grid_size ="
HIDDEN_SIZES = range(1024, 8193, 64)
TOKENS = (1, 2, 8, 16, 17, 24, 64, 128, 2048)
# H200, B200, RTX PRO 6000, RTX 5090
MULTIPROCESSORS = (132, 148, 188, 170)


@pytest.fixture(scope="module")
def stock(stock_trees: dict[str, Path]) -> CodeType:
    return host_code(stock_trees)


@pytest.fixture(scope="module")
def patched(patched_trees: dict[str, Path]) -> CodeType:
    return host_code(patched_trees)


def host_code(trees: dict[str, Path]) -> CodeType:
    text = (trees["flashinfer-python"] / HEADER).read_text(encoding="utf-8")
    start = text.index(FIRST)
    return compile_host_code(text[start : text.index(LAST, start)])


def check(condition: bool, message: str) -> None:
    assert condition, message


def launch(code: CodeType, *, hidden: int, tokens: int, fp4: bool, multiprocessors: int = 188) -> tuple[int, int]:
    """Return threads a block and blocks a cluster for a one-shot launch of 16-bit values."""
    names: dict[str, Any] = run_host_code(
        code,
        params=SimpleNamespace(hidden_dim=hidden, nranks=2, trigger_completion_at_end=True),
        VEC_SIZE=8,
        SM=120,
        oneshot=True,
        fp4=fp4,
        cluster_num=tokens,
        get_sm_count=lambda: multiprocessors,
        get_registers_per_thread_oneshot=lambda: 64,
        get_registers_per_thread_twoshot=lambda: 64,
        getSMRegisters=lambda: 65536,
        check=check,
    )
    return names["block_size"], names["cluster_size"]


def cases() -> Iterator[dict[str, int]]:
    for hidden in HIDDEN_SIZES:
        for tokens in TOKENS:
            for multiprocessors in MULTIPROCESSORS:
                yield {"hidden": hidden, "tokens": tokens, "multiprocessors": multiprocessors}


def test_stock_gives_hidden_7168_a_cluster_of_seven_blocks_for_fp4(stock: CodeType) -> None:
    assert launch(stock, hidden=7168, tokens=1, fp4=True) == (128, 7)


def test_stock_loses_threads_where_seven_blocks_are_halved(stock: CodeType) -> None:
    block, cluster = launch(stock, hidden=7168, tokens=64, fp4=True)

    assert (block, cluster) == (512, 1)
    assert block * cluster < 7168 // 8


@pytest.mark.parametrize("tokens", TOKENS)
def test_patched_covers_hidden_7168_with_whole_warps(patched: CodeType, tokens: int) -> None:
    block, cluster = launch(patched, hidden=7168, tokens=tokens, fp4=True)

    assert block * cluster == 7168 // 8
    assert block % 32 == 0
    assert cluster in (1, 2, 4, 8)


@pytest.mark.parametrize("fp4", [True, False])
def test_patched_covers_every_token_exactly(patched: CodeType, fp4: bool) -> None:
    for case in cases():
        block, cluster = launch(patched, fp4=fp4, **case)
        assert block * cluster == case["hidden"] // 8, case
        assert cluster in (1, 2, 4, 8), case
        assert block <= 1024, case


def test_patched_keeps_pairs_of_threads_in_one_block_for_fp4(patched: CodeType) -> None:
    assert all(launch(patched, fp4=True, **case)[0] % 2 == 0 for case in cases())


def test_stock_fails_the_same_check_for_many_hidden_sizes(stock: CodeType) -> None:
    lost = set()
    for case in cases():
        block, cluster = launch(stock, fp4=True, **case)
        if block * cluster != case["hidden"] // 8:
            lost.add(case["hidden"])

    assert {3840, 6400, 7168, 7680} <= lost


def test_launches_without_fp4_are_unchanged(stock: CodeType, patched: CodeType) -> None:
    for case in cases():
        assert launch(patched, fp4=False, **case) == launch(stock, fp4=False, **case), case


def test_fp4_keeps_the_launches_that_were_right(stock: CodeType, patched: CodeType) -> None:
    for hidden in (2560, 4096, 5120):
        assert launch(patched, hidden=hidden, tokens=1, fp4=True) == launch(stock, hidden=hidden, tokens=1, fp4=True)
