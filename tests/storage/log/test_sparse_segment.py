"""Sparse segments: their map, and reading them by the offsets of the log."""

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.logs import LogWorld
from fakes.origins import MESSAGES
from magnetar_storage.errors import Corrupt
from magnetar_storage.interfaces import Run
from magnetar_storage.log import sparse_segment
from magnetar_storage.log.sparse_segment import (
    OffsetRun,
    SparseReader,
    decode_piece,
    encode_map,
    map_of,
)


def stored(kept: dict[int, tuple[bytes, int]], messages: list[int]) -> tuple[LogWorld, int]:
    """Create a sparse segment of these entries of a log with these numbers of messages."""
    before = list(accumulate(messages, initial=0))
    runs: list[OffsetRun] = []
    for offset in sorted(kept):
        if runs and runs[-1].first + runs[-1].entries == offset:
            runs[-1] = runs[-1]._replace(entries=runs[-1].entries + 1)
        else:
            runs.append(OffsetRun(offset, 1, before[offset]))
    world = LogWorld()
    writer = world.do(world.store.create(MESSAGES))
    pieces = encode_map(runs)
    payloads, counts = zip(*(kept[offset] for offset in sorted(kept)), strict=True)
    writer.append(pieces + list(payloads), [0] * len(pieces) + list(counts), lambda _: None)
    world.do(writer.seal())
    return world, writer.segment


@given(st.data(), st.integers(1, 3))
@settings(max_examples=examples(150))
def test_what_is_kept_is_read_as_it_was(data: st.DataObject, runs_per_piece: int) -> None:
    messages = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=30))
    offsets = data.draw(st.sets(st.integers(0, len(messages) - 1), min_size=1))
    kept = {offset: (b"%d" % offset, messages[offset]) for offset in offsets}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_segment, "RUNS_PER_PIECE", runs_per_piece)
        world, segment = stored(kept, messages)
    reader = world.do(SparseReader.open(world.store, segment))
    before = list(accumulate(messages, initial=0))
    for offset in range(len(messages) + 1):
        behind = min((o for o in offsets if o >= offset), default=None)
        if offset not in kept:
            with pytest.raises(Corrupt) as raised:
                world.do(reader.read(offset, 4, 1 << 20))
            lost = (raised.value.first_entry, raised.value.last_entry)
            assert lost == (offset, offset if behind is None else behind - 1)
            continue
        end = offset
        while end in kept and end < offset + 4:
            end += 1
        run = world.do(reader.read(offset, 4, 1 << 20))
        payloads = [kept[o][0] for o in range(offset, end)]
        assert (run.first, run.payloads) == (offset, payloads)
        assert list(run.counts) == list(messages[offset:end])
    for offset in range(len(messages) + 1):
        behind = min((o for o in offsets if o >= offset), default=None)
        expected = before[behind] if behind is not None else None
        if offset in kept or offset - 1 in kept:
            expected = before[offset]
        assert world.do(reader.messages_before(offset)) == expected
        assert reader.messages_in(offset) == (messages[offset] if offset in kept else None)
    start, stop = sorted(data.draw(st.tuples(st.integers(0, 30), st.integers(0, 30))))
    runs = [range(*run) for run in reader.map.runs(start, stop)]
    assert [o for run in runs for o in run] == sorted(o for o in offsets if start <= o < stop)
    reader.close()


def test_reading_keeps_to_its_limits() -> None:
    world, segment = stored(dict.fromkeys(range(10), (b"four", 1)), [1] * 10)
    reader = world.do(SparseReader.open(world.store, segment))
    assert len(world.do(reader.read(0, 100, 1)).payloads) == 1
    assert len(world.do(reader.read(0, 100, 12)).payloads) == 3
    assert len(world.do(reader.read(0, 100, 13)).payloads) == 3
    assert len(world.do(reader.read(3, 2, 100)).payloads) == 2
    assert len(world.do(reader.read(3, 200, 100)).payloads) == 7
    reads = world.store.reads
    assert world.do(reader.read(4, 1, 1)) == Run(4, [b"four"], [1])
    assert world.store.reads == reads, "neighbours were read together"


def test_damage_is_reported_in_offsets() -> None:
    world, segment = stored(dict.fromkeys((3, 7, 8, 20), (b"x", 1)), [1] * 30)
    reader = world.do(SparseReader.open(world.store, segment))
    world.store.read_failure = Corrupt("file", 5, "rot", segment, 2, 4)
    with pytest.raises(Corrupt) as raised:
        world.do(reader.read(7, 1, 1))
    assert (raised.value.first_entry, raised.value.last_entry) == (7, 20)
    assert (raised.value.file, raised.value.offset, raised.value.why) == ("file", 5, "rot")


def test_a_sparse_segment_that_ends_too_early_is_damaged() -> None:
    world = LogWorld()
    writer = world.do(world.store.create(MESSAGES))
    writer.append([*encode_map([OffsetRun(5, 2, 0)]), b"5"], [0, 1], lambda _: None)
    world.do(writer.seal())
    reader = world.do(SparseReader.open(world.store, writer.segment))
    assert world.do(reader.read(5, 9, 9)).payloads == [b"5"]
    with pytest.raises(Corrupt):
        world.do(reader.read(6, 1, 1))


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [b""],
        [b"x" * 16],
        [encode_map([OffsetRun(0, 1, 0)])[0][:-1]],
        [b"MKPR\x02" + encode_map([])[0][5:]],
        [b"MKPR\x01\0\0\0\x01" + encode_map([])[0][9:]],
    ],
)
def test_what_is_no_map_is_refused(entries: list[bytes]) -> None:
    with pytest.raises(ValueError):
        map_of(entries)
    world = LogWorld()
    writer = world.do(world.store.create(MESSAGES))
    writer.append(entries, [0] * len(entries), lambda _: None)
    world.do(writer.seal())
    with pytest.raises(Corrupt) as raised:
        world.do(SparseReader.open(world.store, writer.segment))
    assert raised.value.segment == writer.segment
    assert raised.value.first_entry is None, "which entries are lost is unknown"


def test_a_damaged_map_yields_no_entries() -> None:
    world, segment = stored({3: (b"x", 1)}, [1] * 4)
    world.store.read_failure = Corrupt("file", 5, "rot", segment, 0, 4)
    with pytest.raises(Corrupt) as raised:
        world.do(SparseReader.open(world.store, segment))
    assert raised.value.last_entry is None


def test_a_map_of_nothing_is_one_piece() -> None:
    assert [decode_piece(piece) for piece in encode_map([])] == [(0, [])]
    assert map_of(encode_map([])).entries == 1
