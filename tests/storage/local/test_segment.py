"""Segment files: footers, scans through a small window, and what is damaged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.faulty_disk import FaultyDisk, FaultyFile
from magnetar_storage.errors import Corrupt, NoSegment
from magnetar_storage.local import footer
from magnetar_storage.local import segment_file as segment
from magnetar_storage.local.checkpoint import Flush, flush
from magnetar_storage.local.record import encode_entries
from magnetar_storage.local.segment_file import Blocks, Index

RUNS = st.lists(
    st.lists(st.tuples(st.binary(max_size=60), st.integers(1, 5)), min_size=1, max_size=5),
    max_size=12,
)


def written(runs: list[list[tuple[bytes, int]]]) -> tuple[FaultyDisk, Index]:
    """A sealed segment 7 with a block for each run."""
    disk, index, records = FaultyDisk(), Index(), []
    for entries in runs:
        payloads, counts = [p for p, _ in entries], [c for _, c in entries]
        buffers, size = encode_entries(7, index.entries, payloads, counts)
        records.append(buffers)
        index.add(len(entries), counts, size)
    flush(disk, [Flush(7, 0, records, (index, index.sealed()))])
    return disk, index


def same(left: Index, right: Index) -> bool:
    return (left.firsts, left.offsets, left.messages) == (
        right.firsts, right.offsets, right.messages,
    )  # fmt: skip


class CountingFile(FaultyFile):
    """Counts what is read of a file."""

    def __init__(self, file: FaultyFile) -> None:
        vars(self).update(vars(file))
        self.bytes_read = 0

    def read(self, offset: int, size: int) -> bytes:
        data = super().read(offset, size)
        self.bytes_read += len(data)
        return data


@given(RUNS, st.integers(1, 20), st.booleans())
def test_a_footer_is_read_back(runs: list[list[tuple[bytes, int]]], piece: int, lone: bool) -> None:
    if lone:
        runs = [[(payload, 1) for payload, _ in run] for run in runs]
    usual, footer.PIECE = footer.PIECE, piece
    try:
        disk, index = written(runs)
        loaded, trouble = footer.load(disk, 7)
    finally:
        footer.PIECE = usual
    assert trouble is None
    assert same(loaded, index)


@given(RUNS, st.integers(1, 200))
def test_a_scan_finds_what_the_footer_records(
    runs: list[list[tuple[bytes, int]]], window: int
) -> None:
    disk, index = written(runs)
    sealed, usual = index.sealed(), (segment.SCAN_BYTES, segment.WALK_BYTES)
    segment.SCAN_BYTES = segment.WALK_BYTES = window
    try:
        found = segment.scan(
            disk.open(segment.file_name(7)), 7, index.offsets[-1], sealed.entries, sealed.messages
        )
    finally:
        segment.SCAN_BYTES, segment.WALK_BYTES = usual
    assert same(found, index)


def test_a_scan_of_what_is_intact_reads_headers_only() -> None:
    disk, index = written([[(bytes(100_000), 1)] * 3] * 20)
    file, sealed = CountingFile(disk.open(segment.file_name(7))), index.sealed()
    found = segment.scan(file, 7, index.offsets[-1], sealed.entries, sealed.messages)
    assert same(found, index)
    assert file.bytes_read <= 20 * segment.WALK_BYTES


@given(RUNS.filter(bool), st.data())
def test_a_scan_makes_a_hole_of_a_damaged_block(
    runs: list[list[tuple[bytes, int]]], data: st.DataObject
) -> None:
    disk, index = written(runs)
    name, sealed = segment.file_name(7), index.sealed()
    offset = data.draw(st.integers(index.offsets[0], index.offsets[-1] - 1))
    disk.flip_bit(name, offset, data.draw(st.integers(0, 7)))
    found = segment.scan(disk.open(name), 7, index.offsets[-1], sealed.entries, sealed.messages)
    assert (found.firsts, found.offsets) == (index.firsts, index.offsets)
    assert found.messages.all == sealed.messages
    damaged = sum(offset >= at for at in index.offsets) - 1
    for block in range(index.blocks):
        blocks = Blocks.of(7, found, block, block + 1)
        content = segment.read_blocks(disk, blocks)
        if block == damaged:
            with pytest.raises(Corrupt) as error:
                segment.take_run(content, blocks, index.firsts[block], 100, 1 << 20)
            assert error.value.offset == index.offsets[block]
        else:
            run = segment.take_run(content, blocks, index.firsts[block], 100, 1 << 20)
            assert run.payloads == [payload for payload, _ in runs[block]]


def test_one_half_of_a_damaged_footer_is_found_through_the_other() -> None:
    disk, index = written([[(b"a", 1), (b"b", 3)], [(b"c", 1)]])
    name = segment.file_name(7)
    size = len(disk.content(name))
    for offset in range(index.offsets[-1], size):
        twin = disk.copy()
        twin.flip_bit(name, offset)
        loaded, trouble = footer.load(twin, 7)
        assert same(loaded, index)
        assert trouble is not None and name in trouble
    disk.flip_bit(name, size - 1)
    disk.flip_bit(name, index.offsets[-1])
    with pytest.raises(Corrupt, match="its end is unknown"):
        footer.load(disk, 7)


def test_a_missing_file_is_a_missing_segment() -> None:
    with pytest.raises(NoSegment):
        footer.load(FaultyDisk(), 7)


def test_a_footer_ends_the_file_whatever_was_there() -> None:
    disk, index = written([[(b"a", 1)]])
    name = segment.file_name(7)
    disk.replace_content(name, disk.content(name) + bytes(1000))
    buffers, _ = encode_entries(7, 0, [b"a"], [1])
    flush(disk, [Flush(7, 0, [buffers], (index, index.sealed()))])
    loaded, trouble = footer.load(disk, 7)
    assert trouble is None and same(loaded, index)
