"""Compression: what was compressed comes back, and nothing else inflates."""

import tracemalloc
import zlib
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.compression import compress, decompress
from magnetar_proto.errors import BadCompression, LocalError

ALL = [pb.NONE, pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY]
REAL = ALL[1:]
MIB = 1 << 20


def peak_of(work: Callable[[], object]) -> int:
    """The most memory that `work` held at once, in bytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refused(kind: int, data: bytes, size: int, limit: int) -> None:
    with pytest.raises(BadCompression):
        decompress(kind, data, size, limit)


@given(st.sampled_from(ALL), st.binary(max_size=500), st.integers(1, 20))
def test_data_comes_back(kind: int, data: bytes, times: int) -> None:
    data *= times
    assert decompress(kind, compress(kind, data), len(data), len(data)) == data


@pytest.mark.parametrize("kind", REAL)
@pytest.mark.parametrize("wrong", [-1, 1, -1000, 1000])
def test_a_declared_size_that_lies_is_refused(kind: int, wrong: int) -> None:
    data = bytes(1000)
    refused(kind, compress(kind, data), len(data) + wrong, 10_000)


@pytest.mark.parametrize("kind", REAL)
def test_a_size_above_the_limit_is_refused(kind: int) -> None:
    refused(kind, compress(kind, bytes(1001)), 1001, 1000)


@pytest.mark.parametrize("kind", REAL)
def test_a_bomb_is_refused_in_bounded_memory(kind: int) -> None:
    bomb = compress(kind, bytes(64 * MIB))
    assert peak_of(lambda: refused(kind, bomb, 64 * MIB, MIB)) < 2 * MIB
    assert peak_of(lambda: refused(kind, bomb, MIB, MIB)) < 4 * MIB


def test_a_zstd_frame_that_does_not_announce_its_size_is_bounded_too() -> None:
    streamed = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(64 * MIB))
    assert zstandard.frame_content_size(streamed) == -1
    assert peak_of(lambda: refused(pb.ZSTD, streamed, MIB, MIB)) < 4 * MIB
    small = zstandard.ZstdCompressor(write_content_size=False).compress(b"small")
    assert decompress(pb.ZSTD, small, 5, 5) == b"small"


def test_an_empty_zstd_stream_is_empty() -> None:
    compressor = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    streamed = compressor.flush()
    assert zstandard.frame_content_size(streamed) == -1
    assert decompress(pb.ZSTD, streamed, 0, 5) == b""


def test_a_snappy_preamble_that_lies_is_refused_in_bounded_memory() -> None:
    block = b"\xff\xff\xff\xff\x0f" + compress(pb.SNAPPY, b"abc")[1:]
    assert peak_of(lambda: refused(pb.SNAPPY, block, 3, MIB)) < MIB
    refused(pb.SNAPPY, b"", 0, MIB)


@pytest.mark.parametrize("kind", REAL)
def test_data_cut_short_is_refused(kind: int) -> None:
    whole = compress(kind, bytes(range(256)) * 4)
    for size in (len(whole) - 1, len(whole) // 2, 1, 0):
        refused(kind, whole[:size], 1024, 1024)


def test_bytes_behind_a_zlib_stream_are_refused() -> None:
    refused(pb.ZLIB, zlib.compress(b"abc") + b"x", 3, 10)


def test_uncompressed_data_needs_no_declared_size() -> None:
    assert decompress(pb.NONE, b"abc", 0, 10) == b"abc"


def test_unknown_types_are_refused_in_both_directions() -> None:
    with pytest.raises(LocalError):
        compress(9, b"")
    refused(9, b"", 0, 10)


@given(st.sampled_from(REAL), st.binary(max_size=60), st.integers(-1, 200), st.integers(0, 200))
def test_noise_is_inflated_within_bounds_or_refused(
    kind: int, noise: bytes, size: int, limit: int
) -> None:
    try:
        inflated = decompress(kind, noise, size, limit)
    except BadCompression:
        return
    assert len(inflated) == size <= limit


@given(st.sampled_from(REAL), st.binary(min_size=1, max_size=60), st.data())
def test_damage_is_inflated_within_bounds_or_refused(
    kind: int, data: bytes, draw: st.DataObject
) -> None:
    damaged = bytearray(compress(kind, data * 5))
    place = draw.draw(st.integers(0, len(damaged) - 1))
    damaged[place] = draw.draw(st.integers(0, 255))
    try:
        inflated = decompress(kind, bytes(damaged), len(data) * 5, 1000)
    except BadCompression:
        return
    assert len(inflated) == len(data) * 5
