"""Delays in columns: sorted, merged in blocks of one size, stored."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_storage.delays.delay_block import (
    MAX_TIME,
    block_of,
    decode_block,
    encode_block,
    merged,
    sorted_block,
)

times = st.lists(st.integers(0, MAX_TIME) | st.integers(0, 3), max_size=30)


@given(times)
def test_a_block_is_sorted_by_time_and_comes_back(some: list[int]) -> None:
    block = sorted_block(some, range(len(some)))
    assert list(zip(*block, strict=True)) == sorted((at, i) for i, at in enumerate(some))
    assert decode_block(b"head" + encode_block(block), 4) == block


@given(st.lists(times, max_size=9), st.integers(1, 12))
def test_blocks_become_full_ones_in_order(parts: list[list[int]], size: int) -> None:
    blocks = [sorted_block(part, range(at, at + len(part))) for at, part in enumerate(parts)]
    found = list(merged(blocks, size))
    assert all(len(block.times) == size for block in found[:-1])
    assert all(0 < len(block.times) == len(block.offsets) <= size for block in found)
    all_times = [at for block in found for at in block.times]
    assert all_times == sorted(at for part in parts for at in part)
    delays = [delay for block in blocks for delay in zip(*block, strict=True)]
    assert sorted(delay for block in found for delay in zip(*block, strict=True)) == sorted(delays)


def test_only_some_of_a_block() -> None:
    block = block_of([1, 2, 3], [10, 20, 30])
    assert block.only(lambda offset: offset != 20) == block_of([1, 3], [10, 30])
    assert block.only(lambda offset: True) is block


@pytest.mark.parametrize("data", [b"x", bytes(8), bytes(24)])
def test_what_is_no_block_is_refused(data: bytes) -> None:
    with pytest.raises(struct.error):
        decode_block(data)
