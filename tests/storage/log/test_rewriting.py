"""Rewriting: needed entries and positions stay, and the room of all others is freed."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.logs import KEY, numbered
from fakes.origins import MESSAGES
from fakes.rewritten import EVER, RewrittenLog
from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.cursors.needed import needed_by
from magnetar_storage.errors import Corrupt, DiskFull, Fenced, Unavailable, WriterFailed
from magnetar_storage.log import rewritable, rewriting
from magnetar_storage.log.log import Log
from magnetar_storage.log.log_record import LogRecord
from magnetar_storage.log.offset_set import OffsetSet


def kept(log: Log) -> list[tuple[int | None, int | None]]:
    return [(segment.entries, segment.kept) for segment in log.segments]


# The entries that are rewritten --------------------------------------------------------------


def test_a_message_that_waits_holds_nothing_but_itself() -> None:
    world = RewrittenLog(35)
    positions = [world.log.position(offset) for offset in range(35)]
    world.ack_all_but(3, 34)
    size = world.log.size
    assert world.reclaim() == size - world.log.size == sum(map(len, numbered(0, 30))) - 1
    assert world.there() == {3: b"3"} | {offset: b"%d" % offset for offset in range(30, 35)}
    assert kept(world.log) == [(10, 1), (20, 0), (None, None)]
    assert len(world.stored()) == 2
    assert all(world.store._segments[one].sealed for one in world.stored() - {4})
    assert [world.log.position(offset) for offset in (3, 30, 34)] == [
        positions[offset] for offset in (3, 30, 34)
    ]
    assert list(world.log.holes) == [(0, 3), (4, 30)]
    for _ in range(2):  # cleanly and not
        world.opened()
        assert list(world.log.holes) == [(0, 3), (4, 30)]
        assert world.there() == {3: b"3"} | {offset: b"%d" % offset for offset in range(30, 35)}
        world.do(world.log.close())


def test_few_entries_are_needed_or_nothing_happens() -> None:
    world = RewrittenLog(25)
    world.ack_all_but(4, 5, 24)
    assert world.reclaim() > 0
    assert kept(world.log) == [(10, None), (10, 0), (None, None)], "two of ten are too many"
    assert world.reclaim() == 0


def test_several_entries_of_one_segment_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "NEEDED_OF_WHOLE", 2)
    world = RewrittenLog(25)
    world.ack_all_but(3, 5, 6, 9, 17, 24)
    world.reclaim()
    assert kept(world.log) == [(10, 4), (10, 1), (None, None)]
    assert world.there().items() >= world.needed.items()
    assert sorted(world.there()) == [3, 5, 6, 9, 17, 20, 21, 22, 23, 24]


def test_the_last_entry_stays_and_so_does_its_segment() -> None:
    world = RewrittenLog(20)
    world.do(world.log.close())
    world.log = world.open(writing=False)
    world.cursors["one"].ack(range(20))
    world.reclaim()
    assert kept(world.log) == [(10, 0), (10, None)]
    assert world.there()[19] == b"19"


def test_what_retention_holds_is_not_rewritten() -> None:
    world = RewrittenLog(40)
    world.ack_all_but(0, 39)
    world.reclaim(before=25)
    assert kept(world.log) == [(10, 1), (10, 0), (10, None), (10, None), (None, None)]


def test_every_cursor_counts() -> None:
    world = RewrittenLog(40)
    world.ack_all_but(12, 39)
    world.cursors["two"] = Cursor(14)
    world.cursors["two"].ack(range(20, 25))
    world.reclaim()
    assert kept(world.log)[:2] == [(10, 0), (10, None)]
    world.cursors["two"].ack(range(20))
    world.reclaim()
    assert kept(world.log)[:3] == [(10, 0), (10, 1), (10, None)]
    assert world.needed.items() <= world.there().items()


def test_neighbours_share_a_sparse_segment_and_a_small_one_is_replaced_with_its_neighbour() -> None:
    world = RewrittenLog(51)
    world.ack_all_but(3, 13, 23, *range(30, 40), 50)
    world.reclaim()
    sparse = {segment.kept_in for segment in world.log.segments if segment.kept}
    assert len(sparse) == 1
    world.cursors["one"].ack(range(31, 40))
    world.reclaim()
    again = {segment.kept_in for segment in world.log.segments if segment.kept}
    assert len(again) == 1 and not again & sparse
    assert world.needed.items() <= world.there().items()
    assert len(world.stored()) == 2


def test_a_large_sparse_segment_waits_until_half_of_it_is_not_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rewritable, "SMALL_BYTES", 0)
    monkeypatch.setattr(rewritable, "GROUP_BYTES", 0)
    monkeypatch.setattr(rewriting, "NEEDED_OF_WHOLE", 2)
    world = RewrittenLog(31)
    world.ack_all_but(0, 1, 2, 13, 23, 30)
    world.reclaim()
    first, second, third = (segment.kept_in for segment in world.log.segments[:3])
    assert len({first, second, third}) == 3, "each is as much as a sparse segment is to hold"
    world.cursors["one"].ack([1])
    assert world.reclaim() == 0
    world.cursors["one"].ack([2, 13])
    assert world.reclaim() > 0
    assert kept(world.log) == [(10, 1), (10, 0), (10, 1), (None, None)]
    assert world.log.segments[0].kept_in not in (first, None)
    assert world.log.segments[2].kept_in == third
    assert world.there() == {0: b"0", 23: b"23", 30: b"30"}


def test_the_work_of_one_call_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "LOOKED_AT", 2)
    monkeypatch.setattr(rewritable, "GROUP_BYTES", 0)
    world = RewrittenLog(101)
    world.ack_all_but(*range(3, 101, 10), 100)
    rounds = 0
    while world.reclaim(max_bytes=1):
        rounds += 1
    assert rounds == 10
    assert [segment.kept for segment in world.log.segments] == [1] * 10 + [None]
    assert world.needed == world.there()


def test_after_the_last_is_acknowledged_it_is_trimmed_with_its_sparse_segment() -> None:
    world = RewrittenLog(30)
    world.ack_all_but(3, 29)
    world.reclaim()
    world.cursors["one"].ack([3])
    assert world.cursors["one"].mark_delete == 28
    world.do(world.log.trim(29))
    assert world.log.first_offset == 20
    assert list(world.log.holes) == []
    assert world.stored() == {segment.id for segment in world.log.segments}


def test_a_sparse_segment_of_several_is_trimmed_with_the_last_of_them() -> None:
    world = RewrittenLog(25)
    world.ack_all_but(3, 13, 24)
    world.reclaim()
    world.do(world.log.trim(10))
    assert world.log.first_offset == 10
    assert world.there() == {13: b"13"} | {offset: b"%d" % offset for offset in range(20, 25)}
    assert len(world.stored()) == 2
    world.do(world.log.trim(20))
    assert len(world.stored()) == 1


def test_deleting_a_rewritten_log_leaves_nothing() -> None:
    world = RewrittenLog(30)
    world.ack_all_but(3, 29)
    world.reclaim()
    world.do(world.log.delete())
    assert world.store.ids() == set()


def test_many_segments_of_which_nothing_is_left_are_one_line() -> None:
    world = RewrittenLog(201)
    world.ack_all_but(3, 200)
    world.reclaim()
    assert kept(world.log) == [(10, 1), (190, 0), (None, None)]
    world.opened()
    assert world.log.offset_of(world.log.segments[2].id, 0) == 200
    assert world.do(world.log.entries.messages_before(200)) == 200


# Reading around holes ---------------------------------------------------------------------


def test_reading_at_a_hole_gives_what_is_behind_it() -> None:
    world = RewrittenLog(30)
    world.ack_all_but(3, 29)
    world.reclaim()
    assert world.do(world.log.entries.read(0, 9, 99)) == (3, [b"3"], [1])
    assert world.do(world.log.entries.read(4, 1, 99)) == (20, [b"20"], [1])
    assert world.log.entries.messages_at(3) == 1
    assert world.log.entries.messages_at(4) is None


def test_first_where_passes_over_holes() -> None:
    world = RewrittenLog(40)
    world.ack_all_but(3, 17, 39)
    world.reclaim()
    there = sorted(world.there())
    for wanted in range(42):
        found = world.do(
            world.log.entries.first_where(lambda payload, wanted=wanted: int(payload) >= wanted)  # type: ignore[misc]
        )
        assert found == min((offset for offset in there if offset >= wanted), default=40)


def test_cursors_pass_over_holes_wherever_they_are_put() -> None:
    world = RewrittenLog(30)
    world.ack_all_but(3, 29)
    world.reclaim()
    for mark_delete in range(-1, 30):
        cursor = Cursor(mark_delete)
        cursor.skip_reclaimed(world.log.first_offset, world.log.holes)
        offset = cursor.next_unacked(0)
        assert offset == 30 or offset in world.there()
        assert offset == min((o for o in world.there() if o > mark_delete), default=30)


def test_cursors_that_hold_nothing_are_notified_at_once() -> None:
    world = RewrittenLog(30)
    world.ack_all_but(3, 29)
    reader = Cursor(0)
    nexts = []

    def reclaimed() -> None:
        reader.skip_reclaimed(world.log.first_offset, world.log.holes)
        nexts.append(world.log.holes)

    world.log.on_reclaimed = reclaimed
    world.reclaim()
    assert nexts, "the log reports its holes"
    assert (reader.next_unacked(1), reader.next_unacked(4)) == (3, 20)


@given(
    st.integers(-1, 40),
    st.sets(st.integers(0, 3000)),
    st.sets(st.integers(0, 3000)),
    st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 1500)), max_size=4),
)
@settings(max_examples=examples(100))
def test_a_cursor_that_skips_has_acknowledged_what_is_gone(
    mark_delete: int, partial: set[int], redelivered: set[int], gone: list[tuple[int, int]]
) -> None:
    holes = OffsetSet()
    skipping, other = Cursor(mark_delete), Cursor(mark_delete)
    for cursor in (skipping, other):
        cursor.count_redelivery(redelivered)
        for offset in partial:
            cursor.ack_batch(offset, 5)
    for start, size in gone:
        holes.add(start, start + size)
        other.ack(range(start, start + size))
    skipping.skip_reclaimed(0, holes)
    assert (skipping.mark_delete, skipping.acked) == (other.mark_delete, other.acked)
    assert (skipping.partial, skipping.redelivered) == (other.partial, other.redelivered)


def test_a_reader_continues_while_it_is_rewritten() -> None:
    world = RewrittenLog(30)
    world.ack_all_but(3, 29)
    world.store.read_gate = gate = world.clock.promise()
    reading = world.begin(world.log.entries.read(2, 5, 100))
    world.store.read_gate = None
    world.reclaim()
    gate.set_result(None)
    world.clock.pump()
    first, payloads, _ = reading.result()
    assert (first, payloads[:2]) in [(2, [b"2", b"3"]), (3, [b"3"])]


# Meanwhile --------------------------------------------------------------------------------


class Copying(RewrittenLog):
    """A log whose rewriting is stopped while a sparse segment is being filled."""

    def __init__(self) -> None:
        super().__init__(30)
        self.ack_all_but(3, 29)
        self.gate = self.store.read_gate = self.clock.promise()
        self.reclaiming = self.begin_reclaim()
        assert not self.reclaiming.done()

    def go_on(self) -> int:
        self.store.read_gate = None
        self.gate.set_result(None)
        self.clock.pump()
        freed: int = self.reclaiming.result()
        return freed


def test_two_at_once_are_one() -> None:
    world = Copying()
    assert world.do(world.log.reclaim(needed_by([]), EVER)) == 0
    assert world.go_on() > 0


@pytest.mark.parametrize("moved", [True, False])
def test_a_cursor_that_comes_or_goes_back_meanwhile_loses_nothing(moved: bool) -> None:
    world = Copying()
    if moved:
        world.cursors["one"].reset(-1)
    else:
        world.cursors["new"] = Cursor(-1)
    assert world.go_on() == 0
    assert world.there() == {offset: b"%d" % offset for offset in range(30)}
    assert world.stored() == {segment.id for segment in world.log.segments}
    world.ack_all_but(29)
    if not moved:
        world.cursors["new"].ack(range(29))
    assert world.reclaim() > 0, "another time it works"


def test_what_is_acknowledged_meanwhile_is_copied_all_the_same() -> None:
    world = Copying()
    world.cursors["one"].ack([3])
    assert world.go_on() > 0
    assert 3 in world.there()


def test_trimmed_meanwhile() -> None:
    world = Copying()
    world.cursors["one"].ack([3])
    world.do(world.log.trim(10))
    assert world.go_on() == 0
    assert world.log.first_offset == 10
    assert world.stored() == {segment.id for segment in world.log.segments}
    assert sorted(world.there()) == list(range(10, 30))


def test_the_cursor_segment_is_replaced_meanwhile() -> None:
    """This empties the trash, which contains the sparse segment."""
    world = Copying()
    for _ in range(2):
        writer = world.do(world.store.create(MESSAGES))
        world.do(world.log.stored_record.replace_cursor_segment(writer.segment))
    assert world.go_on() > 0
    assert world.needed.items() <= world.there().items()
    assert world.store.ids() == world.log.record.listed


@pytest.mark.parametrize("deleting", [True, False])
def test_closed_or_deleted_meanwhile(deleting: bool) -> None:
    world = Copying()
    ending = world.begin(world.log.delete() if deleting else world.log.close())
    assert not ending.done()
    with pytest.raises(WriterFailed):
        world.go_on()
    ending.result()
    if deleting:
        assert world.store.ids() == set()
    else:
        world.opened()
        assert sorted(world.there()) == list(range(30))
        assert world.store.ids() == world.log.record.listed


def test_taken_over_meanwhile() -> None:
    world = Copying()
    world.store.read_gate = None
    old, world.log = world.log, world.open()
    world.gate.set_result(None)
    world.clock.pump()
    with pytest.raises(Fenced):
        world.reclaiming.result()
    assert isinstance(old.failed, Fenced)
    assert sorted(world.there()) == list(range(30))
    assert world.store.ids() == world.log.record.listed


# Trouble ----------------------------------------------------------------------------------


def test_no_room_for_a_sparse_segment() -> None:
    world = RewrittenLog(30)
    world.ack_all_but(3, 29)
    world.store.create_failure = DiskFull("no room")
    with pytest.raises(DiskFull):
        world.reclaim()
    world.store.create_failure = None
    assert sorted(world.there()) == list(range(30))
    assert world.reclaim() > 0
    assert world.needed.items() <= world.there().items()
    world.stored()


def test_without_room_for_a_sparse_segment_goes_what_needs_none() -> None:
    world = RewrittenLog(35)
    world.ack_all_but(3, *range(10, 20), 34)
    world.store.create_failure = DiskFull("no room")
    with pytest.raises(DiskFull):
        world.reclaim()
    assert kept(world.log) == [(10, None), (10, None), (10, 0), (None, None)]


def test_a_sparse_segment_that_cannot_be_written_is_deleted() -> None:
    world = Copying()
    world.store.break_writers(DiskFull("no room"))
    with pytest.raises(DiskFull):
        world.go_on()
    assert sorted(world.there()) == list(range(30))
    world.opened()
    assert world.store.ids() == world.log.record.listed
    assert world.reclaim() > 0
    assert world.needed.items() <= world.there().items()


def test_damaged_entries_are_left_as_they_are() -> None:
    world = RewrittenLog(40)
    world.ack_all_but(3, 39)
    world.store.read_failure = Corrupt("file", 0, "rot", world.log.segments[0].id, 3, 3)
    world.reclaim()
    world.store.read_failure = None
    assert kept(world.log)[0] == (10, None)
    reads = world.store.reads
    world.reclaim()
    assert kept(world.log)[:2] == [(10, None), (20, 0)], "the others do not suffer"
    assert world.store.reads == reads, "what is damaged is not tried again and again"


@pytest.mark.parametrize("lands", [True, False])
@pytest.mark.parametrize("change", [0, 1])
def test_a_change_of_the_record_that_fails(change: int, lands: bool) -> None:
    """The first change lists the sparse segment as trash, the second puts it in use."""
    world = RewrittenLog(30)
    world.ack_all_but(3, 29)
    put, changes = world.metadata.put, 0

    async def fail(*asked: Any) -> int:
        nonlocal changes
        changes += 1
        if changes != change + 1:
            return await put(*asked)
        if lands:
            await put(*asked)
        raise Unavailable("metadata cannot be written")

    world.metadata.put = fail  # type: ignore[assignment]
    with pytest.raises(Unavailable):
        world.reclaim()
    world.metadata.put = put  # type: ignore[method-assign]
    there = sorted(world.there())
    assert there == list(range(30))
    world.do(world.log.stored_record.empty_trash())  # must not delete segments that may be in use
    writer = world.do(world.store.create(MESSAGES))
    if lands:
        with pytest.raises(Fenced):
            world.do(world.log.stored_record.replace_cursor_segment(writer.segment))
    else:
        world.do(world.log.stored_record.replace_cursor_segment(writer.segment))
    world.opened()
    assert world.needed.items() <= world.there().items()
    found = world.do(world.metadata.get(KEY))
    assert found is not None
    assert world.store.ids() - {writer.segment} <= LogRecord.decode(KEY, found.value).listed
    world.reclaim()
    assert kept(world.log)[0] == (10, 1)


def test_a_damaged_sparse_segment_fails_its_readers_and_delays_no_other() -> None:
    world = RewrittenLog(30)
    world.ack_all_but(3, 29)
    world.reclaim()
    sparse = world.log.segments[0].kept_in
    assert sparse is not None
    world.store._segments[sparse].payloads[0] = b"rot"
    world.opened()
    assert list(world.log.holes) == [(10, 20)]
    assert world.cursors["one"].next_unacked(0) == 3
    with pytest.raises(Corrupt):
        world.do(world.log.entries.read(3, 1, 1))
    assert world.do(world.log.entries.read(10, 1, 1)).first == 20
    del world.store._segments[sparse]
    world.opened()
    assert world.cursors["one"].next_unacked(0) == 3
