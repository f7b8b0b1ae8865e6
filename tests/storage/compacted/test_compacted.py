"""Compacted data: maps, reading by offset and position, and the last entry of a key."""

from array import array
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.logs import LogWorld
from magnetar_storage.compacted import compacted_part, compacted_writer, latest_keys
from magnetar_storage.compacted.compacted_log import CompactedLog
from magnetar_storage.compacted.compacted_part import PartMap, Stretch
from magnetar_storage.compacted.compacted_writer import CompactedWriter, Scratch
from magnetar_storage.compacted.latest_keys import Bits, LatestKeys, last
from magnetar_storage.errors import Corrupt, DiskFull
from magnetar_storage.interfaces import SegmentId, SegmentReader
from magnetar_storage.log.compacted_record import Compacted, CompactedPart
from magnetar_storage.log.log import Log
from magnetar_storage.log.log_record import LogRecord
from magnetar_storage.runtime.execution import yield_turn

positions = st.lists(
    st.tuples(st.integers(1, 5), st.integers(0, 30)), min_size=1, max_size=40, unique=True
).map(sorted)
LEDGER_ENTRIES = 100


def offset(ledger: int, entry: int) -> int:
    """Return the offset of a position; all ledgers have the same length."""
    return ledger * LEDGER_ENTRIES + entry


def stretches(chosen: list[tuple[int, int]]) -> list[Stretch]:
    """Return stretches of single entries, which contain their own position."""
    return [
        Stretch(ledger, ledger * LEDGER_ENTRIES, [offset(ledger, entry)],
                [b"%d:%d" % (ledger, entry)], [2])
        for ledger, entry in chosen
    ]  # fmt: skip


def written(world: LogWorld, log: Log, parts: list[Stretch], horizon: int) -> Compacted:
    async def write() -> Compacted:
        scratch = Scratch(log)
        writer = CompactedWriter(log, scratch)
        for part in parts:
            await writer.add(part)
        await writer.end(horizon)
        compacted = await writer.list()
        scratch.settled()
        await log.stored_record.empty_trash()
        return compacted

    return world.do(write())


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacted_writer, "PART_ENTRIES", 7)
    monkeypatch.setattr(compacted_writer, "APPEND_BYTES", 10)
    monkeypatch.setattr(compacted_part, "ENTRIES_PER_PIECE", 3)
    monkeypatch.setattr(latest_keys, "KEYS_IN_MEMORY", 4)
    monkeypatch.setattr(latest_keys, "SLICE", 3)


@given(positions)
def test_a_map_comes_back_from_its_pieces(chosen: list[tuple[int, int]]) -> None:
    map_ = PartMap()
    for part in stretches(chosen):
        map_.add(part.ledger, part.base, part.offsets)
    again = PartMap()
    for piece in map_.pieces():
        again.take(piece)
    assert (again.offsets, again.ledgers, again.bases) == (
        map_.offsets, map_.ledgers, map_.bases,
    )  # fmt: skip


@pytest.mark.parametrize("piece", [b"", b"MCPT", b"MKPR" + bytes(12), b"MCPT" + b"\1" * 12])
def test_what_is_no_piece_is_refused(piece: bytes) -> None:
    with pytest.raises(ValueError):
        PartMap().take(piece)


@given(positions, st.integers(0, 600), st.integers(1, 5))
def test_what_was_written_is_read_from_any_offset(
    chosen: list[tuple[int, int]], start: int, step: int
) -> None:
    world = LogWorld()
    log = world.open()
    written(world, log, stretches(chosen), 1000)
    assert world.store.ids() == log.record.listed
    view, at, found = CompactedLog(log), start, []
    while stretch := world.do(view.read(at, step, 1 << 20)):
        assert len(stretch.payloads) <= step
        found += [(stretch.ledger, entry) for entry in stretch.entries]
        assert stretch.payloads == [b"%d:%d" % (stretch.ledger, one) for one in stretch.entries]
        assert list(stretch.counts) == [2] * len(stretch.payloads)
        at = stretch.offsets[-1] + 1
    assert found == [one for one in chosen if offset(*one) >= start]
    final = world.do(view.last())
    assert final is not None
    assert (final.ledger, final.entries) == (chosen[-1][0], [chosen[-1][1]])
    view.close()


@given(positions, st.tuples(st.integers(0, 6), st.integers(0, 40)))
def test_a_position_has_the_offset_of_what_is_kept_from_there_on(
    chosen: list[tuple[int, int]], wanted: tuple[int, int]
) -> None:
    world = LogWorld()
    log = world.open()
    written(world, log, stretches(chosen), 1000)
    view = CompactedLog(log)
    stretch = world.do(view.read(world.do(view.offset_at(*wanted)), 1, 1))
    found = None if stretch is None else (stretch.ledger, stretch.entries[0])
    assert found == next((one for one in chosen if one >= wanted), None)


def test_nothing_is_there_before_the_first_compaction() -> None:
    world = LogWorld()
    view = CompactedLog(world.open())
    assert view.horizon == 0
    assert world.do(view.read(0, 1, 1)) is None
    assert world.do(view.last()) is None
    assert world.do(view.offset_at(3, 4)) == 0


def test_the_new_data_takes_the_place_of_the_old() -> None:
    world = LogWorld()
    log = world.open()
    old = written(world, log, stretches([(1, 1), (1, 2)]), 200)
    view = CompactedLog(log)
    assert world.do(view.read(0, 1, 1))
    new = written(world, log, stretches([(2, 5)]), 300)
    assert not old.segments & world.store.ids()
    assert world.store.ids() >= new.segments
    stretch = world.do(view.read(0, 9, 999))
    assert stretch is not None
    assert (stretch.ledger, stretch.entries) == (2, [5])
    assert (view.horizon, new.entries, new.messages, new.size) == (300, 1, 2, 3)


def test_the_last_entry_is_that_of_the_data_that_comes_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = LogWorld()
    log = world.open()
    written(world, log, stretches([(1, 1), (1, 2)]), 200)
    view, reader, gate = CompactedLog(log), world.store.reader, world.clock.promise()

    async def slow_reader(segment: SegmentId) -> SegmentReader:
        await gate
        return await reader(segment)

    monkeypatch.setattr(world.store, "reader", slow_reader)
    asked = world.begin(view.last())
    written(world, log, stretches([(2, 5)]), 300)
    gate.set_result(None)
    world.clock.pump()
    last_entry = asked.result()
    assert (last_entry.ledger, last_entry.entries) == (2, [5])


def test_what_could_not_be_written_is_deleted() -> None:
    world = LogWorld()
    log = world.open()

    async def write() -> None:
        scratch = Scratch(log)
        writer = CompactedWriter(log, scratch)
        for part in stretches([(1, n) for n in range(12)]):
            await writer.add(part)
        scratch.settled()
        raise DiskFull("no room")

    with pytest.raises(DiskFull):
        world.do(write())
    assert len(log.record.trash) == 2
    world.do(log.stored_record.empty_trash())
    assert world.store.ids() == log.record.listed
    assert log.record.compacted is None


def test_a_compacted_part_that_does_not_match_is_reported() -> None:
    world = LogWorld()
    log = world.open()
    world.append(log, b"1", b"2")
    (segment,) = log.record.stored
    for entries in (1, 2):
        compacted = Compacted(9, (CompactedPart(segment, 0, 1, 0, entries, 1, 1),))
        world.do(log.stored_record.commit(partial(LogRecord.with_compacted, compacted=compacted)))
        with pytest.raises(Corrupt):
            world.do(CompactedLog(log).read(0, 1, 1))


# The last of a key --------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=80))
def test_the_last_message_of_each_key_survives(messages: list[tuple[int, bool]]) -> None:
    world = LogWorld()
    log = world.open()
    wanted: dict[int, int] = {}
    found = []
    for number, (key, deletes) in enumerate(messages):
        wanted.pop(key, None)
        if not deletes:
            wanted[key] = number
        found.append(last(b"%016d" % key, number, deletes))
    scratch = Scratch(log)
    latest = LatestKeys(log, scratch, len(messages), partial(yield_turn, world.clock))

    async def work() -> None:
        for at in range(0, len(found), 3):
            await latest.add(found[at : at + 3])
        await latest.resolve()
        scratch.settled()
        await log.stored_record.empty_trash()

    world.do(work())
    bits = latest.survivors.get(0, len(messages))
    assert {n for n in range(len(messages)) if bits >> n & 1} == set(wanted.values())
    assert world.store.ids() == log.record.listed


@given(st.sets(st.integers(0, 99)), st.integers(0, 99), st.integers(1, 70))
def test_bits(chosen: set[int], first: int, n: int) -> None:
    bits = Bits()
    for number in chosen:
        bits.add(number)
    found = bits.get(first, n)
    assert {first + i for i in range(n) if found >> i & 1} == {
        number for number in chosen if first <= number < first + n
    }


def test_numbers_are_stored_with_the_lowest_byte_first() -> None:
    assert compacted_part._little(array("q", [1])) == b"\1" + bytes(7)
