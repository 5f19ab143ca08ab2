"""The Lamport pointers' stride and the architecture guards of the all-reduce kernels, read in the sources."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HEADER = "include/flashinfer/comm/trtllm_allreduce.cuh"
HOST = "csrc/trtllm_allreduce.cu"
PATH = (
    HEADER,
    HOST,
    "include/flashinfer/comm/trtllm_allreduce_fusion.cuh",
    "include/flashinfer/comm/trtllm_moe_allreduce_fusion.cuh",
    "csrc/trtllm_allreduce_fusion.cu",
    "csrc/trtllm_moe_allreduce_fusion.cu",
)
WORLD_SIZES = (2, 4, 6, 8, 16)
INDEX = re.compile(r"lamport_peer_comm_buffer_ptrs\s*\[([^\]]+)\]")


def read(trees: dict[str, Path], name: str) -> str:
    return (trees["flashinfer-python"] / name).read_text(encoding="utf-8")


def max_ranks(trees: dict[str, Path]) -> int:
    found = re.search(r"constexpr size_t MAX_RANKS_PER_NODE = (\d+);", read(trees, HEADER))
    assert found
    return int(found[1])


def written_slots(trees: dict[str, Path], world_size: int) -> dict[tuple[int, int], int]:
    """Return the slot that the host writes for each set of buffers (0 to 2) and rank."""
    expressions = INDEX.findall(read(trees, HOST))
    assert len(expressions) == 3
    names = {"MAX_RANKS_PER_NODE": max_ranks(trees), "tp_size": world_size}
    return {
        (number, rank): eval(expression, {}, {**names, "i": rank})
        for number, expression in enumerate(expressions)
        for rank in range(world_size)
    }


def read_slots(trees: dict[str, Path], world_size: int) -> dict[tuple[int, int], set[int]]:
    """Return the slots that the kernels read for each set of buffers (0 to 2) and rank."""
    declaration, *expressions = INDEX.findall(read(trees, HEADER))
    assert declaration == "MAX_RANKS_PER_NODE * 3"
    assert len(expressions) == 6
    slots: dict[tuple[int, int], set[int]] = {}
    for expression in expressions:
        plain = expression.replace("params.local_rank", "rank").replace("ping", "number").replace("pong", "number")
        for number in range(3):
            for rank in range(world_size):
                names = {"MAX_RANKS_PER_NODE": max_ranks(trees), "rank": rank, "number": number}
                slots.setdefault((number, rank), set()).add(eval(plain, {}, names))
    return slots


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_patched_host_writes_each_slot_that_the_kernels_read(patched_trees: dict[str, Path], world_size: int) -> None:
    written = written_slots(patched_trees, world_size)

    assert {key: {slot} for key, slot in written.items()} == read_slots(patched_trees, world_size)
    assert len(set(written.values())) == 3 * world_size
    assert max(written.values()) < 3 * max_ranks(patched_trees)


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_stock_host_agrees_with_the_kernels_at_sixteen_ranks_only(
    stock_trees: dict[str, Path], world_size: int
) -> None:
    written = {key: {slot} for key, slot in written_slots(stock_trees, world_size).items()}

    assert (written == read_slots(stock_trees, world_size)) == (world_size == 16)


def test_nothing_else_touches_the_packed_pointers(patched_trees: dict[str, Path]) -> None:
    root = patched_trees["flashinfer-python"]
    sources = [file for folder in ("csrc", "include") for file in (root / folder).rglob("*.cu*")]

    users = {file.relative_to(root).as_posix() for file in sources if INDEX.search(file.read_text(encoding="utf-8"))}

    assert users == {HEADER, HOST}


def test_stock_closes_thirteen_guards_to_sm120(stock_trees: dict[str, Path]) -> None:
    assert len(re.findall(r"<\s*1200\b", read(stock_trees, HEADER))) == 13


@pytest.mark.parametrize("name", PATH)
def test_patched_has_no_ceiling_on_the_path(patched_trees: dict[str, Path], name: str) -> None:
    text = read(patched_trees, name)

    assert not re.search(r"<=?\s*1[12]\d\d\b", text)


def test_patched_keeps_the_floor_of_every_guard(stock_trees: dict[str, Path], patched_trees: dict[str, Path]) -> None:
    floor = "__CUDA_ARCH__ >= 900"

    assert read(patched_trees, HEADER).count(floor) == read(stock_trees, HEADER).count(floor) == 13


def test_fusion_kernels_sum_a_partial_last_warp_apart(patched_trees: dict[str, Path]) -> None:
    text = read(patched_trees, "include/flashinfer/comm/trtllm_allreduce_fusion.cuh")
    body = text[text.index("T blockReduceSumV2(T* val)") : text.index("inline int getSMVersion()")]

    assert body.count("tailWarpReduceSum<T, NUM>(val, tail_lanes);") == 2
    assert re.search(r"__shfl_down_sync\(members, ", text)


@pytest.mark.parametrize(
    ("name", "launches"),
    [
        (HEADER, ("warps_per_token / cluster_size * details::kWarpSize", "/ details::kWarpSize * details::kWarpSize")),
        ("include/flashinfer/comm/trtllm_moe_allreduce_fusion.cuh", ("warps_per_token / cluster_size * 32",)),
    ],
)
def test_the_sums_left_alone_are_launched_with_whole_warps(
    patched_trees: dict[str, Path], name: str, launches: tuple[str, ...]
) -> None:
    text = read(patched_trees, name)
    sizes = re.findall(r"^\s*(?:int )?(?:cta_size|block_size) = ([^;]+);", text, re.MULTILINE)

    reduced = [size for size in sizes if size not in ("details::kMaxCtaSize", "1024", "0")]
    assert reduced
    assert all(any(launch in size for launch in launches) for size in reduced), reduced
