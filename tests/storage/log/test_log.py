"""Logs: appending, reading, positions, rolling, trimming, taking over, failing."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.logs import BY_THREE, KEY, LogWorld, numbered
from fakes.runs import append
from magnetar_storage.errors import DiskFull, Fenced, Unavailable, WriterFailed
from magnetar_storage.log.log import Log
from magnetar_storage.log.log_record import LogRecord
from magnetar_storage.log.positions import NOWHERE
from magnetar_storage.log.roll_limits import RollLimits


def at_least(wanted: int, payload: bytes) -> bool:
    return int(payload) >= wanted


def rolled(world: LogWorld, entries: int) -> Log:
    """A log of so many entries in segments of three, appended one by one."""
    log = world.open()
    for payload in numbered(0, entries):
        world.append(log, payload)
    return log


# Broker metadata ------------------------------------------------------------------------


def test_messages_are_counted_ahead_only_where_entries_may_have_broker_metadata() -> None:
    world = LogWorld(BY_THREE)
    log = world.open()
    world.append(log, b"0", counts=[3])
    assert (log.next_message, log.record.has_broker_metadata) == (-1, False)
    world.do(log.close())
    world.engine = replace(world.engine, adds_broker_metadata=True)
    log = world.open(writing=False)
    assert LogRecord.decode(KEY, world.metadata._values[KEY].value).has_broker_metadata
    assert log.next_message == 3
    world.do(log.rollover.start_writing())
    seen: list[tuple[int, list[bytes]]] = []
    log.before_append = lambda run: seen.append((log.next_message, run.payloads))
    world.append(log, b"1", b"2", counts=[2, 4])
    world.append(log, b"3")
    assert seen == [(3, [b"1", b"2"]), (9, [b"3"])]
    assert log.next_message == log.messages_end == 10
    world.do(log.close())
    world.engine = replace(world.engine, adds_broker_metadata=False)
    assert world.open().next_message == 10


# Appending and reading ------------------------------------------------------------------


def test_a_log_that_does_not_exist_is_none() -> None:
    world = LogWorld()
    assert world.do(Log.open(KEY, world.engine, create=False)) is None
    world.open(writing=False)
    assert world.do(Log.open(KEY, world.engine, create=False)) is not None


def test_an_entry_is_readable_once_it_is_reported_and_not_before() -> None:
    world = LogWorld()
    log = world.open()
    seen: list[tuple[int, int]] = []
    append(log, [b"a", b"b"], [1, 5], lambda _: seen.append((log.end, log.messages_end)))
    assert (log.end, log.tail.get(0, 9, 99), seen) == (0, None, [])
    assert world.read_all(log) == []
    world.clock.pump()
    assert seen == [(2, 6)]
    assert log.tail.get(0, 9, 99) == (0, [b"a", b"b"], [1, 5])
    assert world.read_all(log) == [b"a", b"b"]


def test_reports_come_in_the_order_of_the_appends_over_a_roll() -> None:
    world = LogWorld(BY_THREE)
    log = world.open()
    order: list[int] = []
    for number in range(20):
        append(log, [b"%d" % number], [1], lambda _, number=number: order.append(number))  # type: ignore[misc]
        if number % 4 == 3:
            world.clock.step()
    world.clock.pump()
    assert order == list(range(20))
    assert len(log.segments) > 2
    assert world.read_all(log) == numbered(0, 20)


def test_appending_needs_a_writer() -> None:
    world = LogWorld()
    log = world.open(writing=False)
    with pytest.raises(WriterFailed):
        append(log, [b"a"], [1], lambda _: None)


def test_an_append_that_the_writer_rejects_leaves_no_hole() -> None:
    """A run that cannot be encoded raises; the next one gets the offset."""
    world = LogWorld()
    log = world.open()
    writer = log.writer
    assert writer is not None

    def reject(*_: object) -> int:
        raise OverflowError("no such count")

    working, writer.append = writer.append, reject  # type: ignore[assignment,method-assign]
    with pytest.raises(OverflowError):
        append(log, [b"a"], [-1], lambda _: None)
    writer.append = working  # type: ignore[method-assign]
    world.append(log, b"b")
    assert (log.end, world.read_all(log)) == (1, [b"b"])


def test_two_concurrent_starts_of_writing_share_a_segment() -> None:
    world = LogWorld()
    log = world.open(writing=False)
    world.store.create_gate = world.clock.promise()
    both = [world.begin(log.rollover.start_writing()), world.begin(log.rollover.start_writing())]
    world.store.create_gate.set_result(None)
    world.clock.pump()
    for one in both:
        one.result()
    assert len(log.segments) == 1
    assert len(world.store.created) == 1


def test_start_writing_fails_and_works_later() -> None:
    world = LogWorld()
    log = world.open(writing=False)
    world.store.create_failure = DiskFull("no room")
    with pytest.raises(DiskFull):
        world.do(log.rollover.start_writing())
    world.store.create_failure = None
    world.do(log.rollover.start_writing())
    world.append(log, b"a")
    assert world.read_all(log) == [b"a"]


def test_the_cache_and_the_segments_return_equal_entries() -> None:
    world = LogWorld(BY_THREE, cache_bytes=0)
    log = rolled(world, 8)
    assert log.tail.get(7, 1, 1) is None
    assert world.read_all(log, step=2) == numbered(0, 8)


# Positions ------------------------------------------------------------------------------


def test_an_empty_log_has_no_positions() -> None:
    world = LogWorld()
    log = world.open(writing=False)
    assert log.position(-1) == log.position(0) == NOWHERE
    assert log.offset_of(1, 0) is None
    assert log.seek(-1, -1) == log.seek(1 << 62, 0) == 0
    assert world.do(log.entries.messages_before(0)) == 0


def test_before_the_first_entry_is_minus_one_of_its_ledger() -> None:
    world = LogWorld()
    log = world.open()
    world.append(log, b"a")
    assert log.position(-1) == (log.segments[0].id, -1)


def test_seek_finds_the_entry_or_the_next_one() -> None:
    world = LogWorld(BY_THREE)
    log = rolled(world, 8)
    first, second, third = (segment.id for segment in log.segments)
    assert log.seek(first, 1) == 1
    assert log.seek(first, -1) == 0
    assert log.seek(first, 3) == log.seek(first, 99) == 3
    assert log.seek(second, 0) == 3
    assert log.seek(third, 1) == 7
    assert log.seek(third, 99) == 8
    assert log.seek(-1, -1) == 0
    assert log.seek(third + 1, 0) == log.seek((1 << 63) - 1, (1 << 63) - 1) == 8


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=8),
    st.integers(0, 40),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=examples(150))
def test_offsets_positions_and_counts_agree(
    runs: list[int], trim_before: int, reopen: bool, crash: bool
) -> None:
    """Over rolls, a trim, a clean or an unclean end, and on."""
    world = LogWorld(BY_THREE)
    log = world.open()
    counts: list[int] = []
    for run in runs:
        fresh = [len(counts) % 3 + i for i in range(run)]
        world.append(log, *numbered(len(counts), len(counts) + run), counts=fresh)
        counts += fresh
    before = {offset: log.position(offset) for offset in range(len(counts))}
    world.do(log.trim(trim_before))
    assert log.first_offset <= max(trim_before, 0)
    if reopen:
        if not crash:
            world.do(log.close())
        log = world.open()
    world.append(log, b"%d" % len(counts), counts=[7])
    counts.append(7)
    assert log.end == len(counts)
    assert log.messages_end == sum(counts)
    assert world.read_all(log) == numbered(log.first_offset, log.end)
    for offset, position in before.items():
        kept = offset >= log.first_offset
        assert log.offset_of(*position) == (offset if kept else None)
        ledger, entry = position
        around = [log.offset_of(ledger, one) for one in range(entry - 1, entry + 4)]
        there = log.offsets_of(ledger, entry - 1, entry + 4)
        assert list(there) == [one for one in around if one is not None]
        assert log.seek(*position) == max(offset, log.first_offset)
        if kept:
            assert log.position(offset) == position
            assert offset < log.segment_end(offset) <= log.end
            assert log.position(log.segment_end(offset) - 1)[0] == position[0]
    for offset in range(log.first_offset, log.end + 1):
        assert world.do(log.entries.messages_before(offset)) == sum(counts[:offset])
    assert world.do(log.entries.messages_before(0)) == sum(counts[: log.first_offset])


def test_entries_not_yet_durable_have_no_offset() -> None:
    world = LogWorld()
    log = world.open()
    ledger, entry = append(log, [b"a"], [1], lambda _: None)
    assert log.offset_of(ledger, entry) is None
    world.clock.pump()
    assert log.offset_of(ledger, entry) == 0
    assert log.offset_of(ledger, -1) is None
    assert log.offset_of(ledger + 1, 0) is None


def test_messages_are_counted_across_a_segment_that_is_not_settled_yet() -> None:
    world = LogWorld(BY_THREE)
    log = world.open()
    world.store.create_gate = world.clock.promise()
    append(log, numbered(0, 3), [2, 2, 2], lambda _: None)
    world.clock.pump()  # the roll waits for its segment
    append(log, [b"3"], [10], lambda _: None)
    settling = log.rollover.settle
    held = world.clock.promise()

    async def settle_later(writer: object) -> None:
        await held
        await settling(writer)  # type: ignore[arg-type]

    log.rollover.settle = settle_later  # type: ignore[method-assign]
    world.store.create_gate.set_result(None)
    append(log, [b"4"], [100], lambda _: None)
    world.clock.pump()
    assert [segment.entries for segment in log.segments] == [None, None]
    assert [world.do(log.entries.messages_before(o)) for o in range(6)] == [0, 2, 4, 6, 16, 116]
    held.set_result(None)
    world.clock.pump()
    assert [segment.entries for segment in log.segments] == [4, None]
    assert [world.do(log.entries.messages_before(o)) for o in range(6)] == [0, 2, 4, 6, 16, 116]


def test_first_where_halves() -> None:
    world = LogWorld(BY_THREE)
    log = rolled(world, 20)
    for wanted in range(22):
        found = world.do(log.entries.first_where(partial(at_least, wanted)))
        assert found == min(wanted, 20)


@pytest.mark.parametrize("rotten", [{0}, {2}, {2, 3}, {6}, set(range(7))])
def test_first_where_takes_what_is_damaged_for_what_is_behind_it(rotten: set[int]) -> None:
    world = LogWorld(BY_THREE, cache_bytes=0)
    log = rolled(world, 20)
    world.store.rotten |= {log.segments[number].id for number in rotten}
    for wanted in range(22):
        found = world.do(log.entries.first_where(partial(at_least, wanted)))
        expected = min(wanted, 20)
        while expected > 0 and (expected - 1) // 3 in rotten:
            expected -= 1
        assert found == expected


# Rolling --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "reached"),
    [
        (RollLimits(max_entries=5, min_age_ms=0), True),
        (RollLimits(max_bytes=100, min_age_ms=0), True),
        (RollLimits(max_entries=5, max_bytes=100, min_age_ms=1001), False),
        (RollLimits(max_entries=6, max_bytes=101, min_age_ms=0), False),
        (RollLimits(max_entries=6, max_bytes=101, max_age_ms=1000), True),
    ],
)
def test_when_a_segment_ends(limits: RollLimits, reached: bool) -> None:
    assert limits.reached(entries=5, size=100, age_ms=1000) is reached
    assert not limits.reached(entries=0, size=0, age_ms=1 << 40)


def test_an_old_segment_is_rolled_when_asked() -> None:
    world = LogWorld(RollLimits(max_age_ms=1000))
    log = world.open()
    world.append(log, b"a")
    log.rollover.roll_if_due()
    world.clock.pump()
    assert len(log.segments) == 1
    world.clock.advance(1)
    log.rollover.roll_if_due()
    world.clock.pump()
    assert [segment.entries for segment in log.segments] == [1, None]
    assert log.segments[0].sealed_ms == world.clock.now_ms()


def test_a_roll_that_fails_ends_the_log() -> None:
    world = LogWorld(BY_THREE)
    log = world.open()
    reported: list[BaseException] = []
    log.on_failure = reported.append
    world.store.create_failure = DiskFull("no room")
    world.append(log, *numbered(0, 3))
    assert reported == [world.store.create_failure]
    assert log.failed is world.store.create_failure
    with pytest.raises(DiskFull):
        append(log, [b"x"], [1], lambda _: None)
    world.store.create_failure = None
    assert world.read_all(world.open()) == numbered(0, 3)


def test_closing_waits_for_a_roll() -> None:
    world = LogWorld(BY_THREE)
    log = world.open()
    world.store.create_gate = world.clock.promise()
    world.append(log, *numbered(0, 3))
    closing = world.begin(log.close())
    world.clock.pump()
    assert not closing.done()
    world.store.create_gate.set_result(None)
    world.clock.pump()
    closing.result()
    assert all(segment.entries is not None for segment in log.segments)


# Trimming -------------------------------------------------------------------------------


def test_trim_takes_settled_segments_below_the_offset_and_deletes_them() -> None:
    world = LogWorld(BY_THREE)
    log = rolled(world, 8)
    ids = [segment.id for segment in log.segments]
    assert world.do(log.trim(2)) == 0
    assert world.do(log.trim(5)) == 1
    assert (log.first_offset, world.store.ids()) == (3, set(ids[1:]))
    assert world.do(log.trim(100)) == 1, "the open one stays"
    assert log.first_offset == 6
    assert world.read_all(log) == numbered(6, 8)
    assert world.do(log.entries.read(0, 1, 1)).first == 6
    assert log.position(5) == (ids[2], -1)


def test_two_trims_at_once_take_nothing_twice() -> None:
    world = LogWorld(BY_THREE)
    log = rolled(world, 14)
    putting, gate = world.metadata.put, world.clock.promise()

    async def slow_put(*args: Any) -> int:
        await gate
        return await putting(*args)

    world.metadata.put = slow_put  # type: ignore[assignment,method-assign]
    both = [world.begin(log.trim(6)), world.begin(log.trim(6))]
    gate.set_result(None)
    world.clock.pump()
    for one in both:
        one.result()
    assert log.first_offset == 6
    assert world.read_all(log) == numbered(6, 14)
    assert world.do(log.entries.messages_before(9)) == 9


def test_trash_that_could_not_be_deleted_is_deleted_at_the_next_opening() -> None:
    world = LogWorld(BY_THREE)
    log = rolled(world, 8)
    doomed = log.segments[0].id
    deleting, failure = world.store.delete, Unavailable("not now")

    async def fail(_: int) -> None:
        raise failure

    world.store.delete = fail  # type: ignore[assignment,method-assign]
    with pytest.raises(Unavailable):
        world.do(log.trim(3))
    assert log.first_offset == 3
    assert world.read_all(log) == numbered(3, 8)
    world.store.delete = deleting  # type: ignore[method-assign]
    assert doomed in world.store.ids()
    log = world.open()
    assert doomed not in world.store.ids()
    assert world.read_all(log) == numbered(3, 8)


def test_a_trim_while_messages_are_counted_does_not_confuse_them() -> None:
    world = LogWorld(BY_THREE)
    log = rolled(world, 11)
    opening = world.store.reader
    gate = world.clock.promise()

    async def slow_reader(segment: int) -> object:
        await gate
        return await opening(segment)

    log.entries.close()
    world.store.reader = slow_reader  # type: ignore[assignment,method-assign]
    counting = world.begin(log.entries.messages_before(7))
    world.do(log.trim(6))
    gate.set_result(None)
    world.clock.pump()
    assert counting.result() == 7


def test_messages_are_counted_by_readers_that_have_to_wait() -> None:
    world = LogWorld(BY_THREE)
    world.do(rolled(world, 11).close())
    log = world.open()  # without entries in the cache
    assert log.entries.messages_at(4) is None
    world.do(log.entries.messages_before(4))  # opens the reader
    assert log.entries.messages_at(4) == 1
    world.store.count_gate = world.clock.promise()
    assert log.entries.messages_at(4) is None
    counting = world.begin(log.entries.messages_before(7))
    assert not counting.done()
    world.do(log.trim(6))
    world.store.count_gate.set_result(None)
    world.clock.pump()
    assert counting.result() == 7


# The end --------------------------------------------------------------------------------


def test_a_failed_append_ends_the_log_and_is_reported_once() -> None:
    world = LogWorld()
    log = world.open()
    world.append(log, b"kept")
    reported: list[BaseException] = []
    outcomes: list[BaseException | None] = []
    log.on_failure = reported.append
    append(log, [b"lost"], [1], outcomes.append)
    append(log, [b"lost too"], [1], outcomes.append)
    error = DiskFull("no room")
    world.store.break_writers(error)
    world.clock.pump()
    assert outcomes == [error, error]
    assert reported == [error]
    assert (log.end, log.failed) == (1, error)
    with pytest.raises(DiskFull):
        append(log, [b"never"], [1], outcomes.append)
    log = world.open()
    assert world.read_all(log) == [b"kept"]
    world.append(log, b"on")
    assert world.read_all(log) == [b"kept", b"on"]


def test_a_log_that_failed_keeps_no_stacks_of_those_it_refuses() -> None:
    world = LogWorld()
    log = world.open()
    log.fail(DiskFull("no room"))
    refusals: list[DiskFull] = []
    for _ in range(3):
        with pytest.raises(DiskFull, match="no room") as appending:
            append(log, [b"x"], [1], lambda _: None)
        with pytest.raises(DiskFull, match="no room") as opening:
            world.do(log.rollover.start_writing())
        refusals += [appending.value, opening.value]
    assert len({id(refusal) for refusal in refusals}) == 6
    assert {id(refusal.__cause__) for refusal in refusals} == {id(log.failed)}
    assert log.failed is not None and log.failed.__traceback__ is None


def test_a_second_owner_fences_the_first() -> None:
    world = LogWorld()
    first = world.open()
    world.append(first, b"a")
    outcomes: list[BaseException | None] = []
    append(first, [b"in flight"], [1], outcomes.append)
    second = world.open()
    world.clock.pump()
    assert world.read_all(second)[0] == b"a"
    assert outcomes[0] is None or b"in flight" not in world.read_all(second)
    late: list[BaseException | None] = []
    append(first, [b"b"], [1], late.append)
    world.clock.pump()
    assert isinstance(late[0], Fenced)
    assert isinstance(first.failed, Fenced)
    world.append(second, b"c")
    assert world.read_all(second)[-1] == b"c"
    assert b"b" not in world.read_all(second)


def test_an_owner_that_lost_the_record_may_not_change_it() -> None:
    world = LogWorld(BY_THREE)
    first = rolled(world, 5)
    reported: list[BaseException] = []
    first.on_failure = reported.append
    second = world.open()
    with pytest.raises(Fenced):
        world.do(first.stored_record.change_properties(lambda _: {"mine": "still"}))
    assert [type(error) for error in reported] == [Fenced]
    assert second.record.properties == {}
    assert world.read_all(second) == numbered(0, 5)


def test_closing_seals_and_reports_no_failure() -> None:
    world = LogWorld()
    log = world.open()
    reported: list[BaseException] = []
    log.on_failure = reported.append
    world.append(log, b"a")
    world.do(log.close())
    assert log.segments[0].entries == 1
    assert reported == []
    with pytest.raises(WriterFailed):
        append(log, [b"b"], [1], lambda _: None)
    with pytest.raises(WriterFailed):
        world.do(log.rollover.start_writing())


def test_empty_segments_do_not_pile_up() -> None:
    world = LogWorld()
    for _ in range(4):
        log = world.open()
        world.do(log.close())
    log = world.open()
    assert len(log.segments) == 1
    assert world.store.ids() == {log.segments[0].id}


@pytest.mark.parametrize("lands", [False, True])
def test_while_metadata_fails_one_segment_is_created_however_often_it_is_tried(
    lands: bool,
) -> None:
    world = LogWorld()
    log = world.open(writing=False)
    with world.failing_metadata(lands):
        for _ in range(5):
            with pytest.raises((Unavailable, Fenced)):
                world.do(log.rollover.start_writing())
    assert len(world.store.created) == 1
    if lands:
        with pytest.raises(Fenced):
            world.do(log.rollover.start_writing())
        log = world.open()
    world.do(log.rollover.start_writing())
    world.append(log, b"a")
    assert world.store.ids() == {log.segments[0].id}
    assert world.read_all(world.open()) == [b"a"]


@pytest.mark.parametrize("lands", [False, True])
def test_a_log_that_is_closed_before_it_could_list_its_segment_leaves_none_over(
    lands: bool,
) -> None:
    world = LogWorld()
    log = world.open(writing=False)
    with world.failing_metadata(lands), pytest.raises(Unavailable):
        world.do(log.rollover.start_writing())
    world.do(log.close())
    assert len(world.store.ids()) == int(lands)
    assert world.open(writing=False).end == 0
    assert world.store.ids() == set()


def test_an_owner_that_lost_the_record_deletes_the_segment_it_could_not_list() -> None:
    world = LogWorld()
    first = world.open(writing=False)
    second = world.open()
    with pytest.raises(Fenced):
        world.do(first.rollover.start_writing())
    assert world.store.ids() == {second.segments[0].id}


@pytest.mark.parametrize("lands", [False, True])
def test_a_roll_that_cannot_list_its_segment_leaves_none_over_when_it_is_opened(
    lands: bool,
) -> None:
    world = LogWorld(BY_THREE)
    log = world.open()
    with world.failing_metadata(lands):
        world.append(log, *numbered(0, 3))
    assert isinstance(log.failed, Unavailable)
    assert len(world.store.ids()) == 2  # it is listed, or may still be
    again = world.open(writing=False)
    assert world.read_all(again) == numbered(0, 3)
    assert world.store.ids() == {again.segments[0].id}
    assert world.engine.undeleted == {}


def test_a_segment_of_which_nothing_is_known_is_left_for_the_next_start() -> None:
    world = LogWorld()
    log = world.open(writing=False)
    get = world.metadata.get

    async def fail(key: str) -> None:
        raise Unavailable("metadata cannot be read")

    with world.failing_metadata(), pytest.raises(Unavailable):
        world.do(log.rollover.start_writing())
    world.metadata.get = fail  # type: ignore[method-assign]
    world.do(log.close())
    world.metadata.get = get  # type: ignore[method-assign]
    assert world.store.ids() == set(world.store.created)


def test_deleting_removes_every_segment_and_the_record() -> None:
    world = LogWorld(BY_THREE)
    log = rolled(world, 8)
    outcomes: list[BaseException | None] = []
    append(log, [b"late"], [1], outcomes.append)
    world.do(log.delete())
    world.clock.pump()
    assert world.store.ids() == set()
    assert world.do(world.metadata.get(KEY)) is None
    assert log.position(3) == NOWHERE
    assert world.do(Log.open(KEY, world.engine, create=False)) is None


@pytest.mark.parametrize("steps", range(8))
def test_deletion_continues_when_the_record_changes_at_the_last_moment(steps: int) -> None:
    world = LogWorld(BY_THREE)
    log = rolled(world, 4)
    put = world.metadata.put

    async def slowly(*asked: Any) -> Any:
        version = await put(*asked)
        turn = world.clock.promise()
        world.clock.soon(lambda: turn.set_result(None))
        await turn
        return version

    world.metadata.put = slowly  # type: ignore[assignment]
    deleting = world.begin(log.delete())
    for _ in range(steps):
        world.clock.step()
    changing = world.begin(log.stored_record.change_properties(lambda old: {**old, "a": "1"}))
    world.clock.pump()
    deleting.result()
    assert changing.done()
    assert world.store.ids() == set()
    assert world.do(world.metadata.get(KEY)) is None


def test_properties_survive() -> None:
    world = LogWorld()
    log = world.open()
    both = [
        world.begin(log.stored_record.change_properties(lambda old: {**old, "a": "1"})),
        world.begin(log.stored_record.change_properties(lambda old: {**old, "b": "2"})),
    ]
    world.clock.pump()
    for one in both:
        one.result()
    assert log.record.properties == {"a": "1", "b": "2"}
    assert world.open().record.properties == {"a": "1", "b": "2"}


def test_a_log_that_is_not_open_is_removed_whatever_state_it_is_in() -> None:
    world = LogWorld()
    log = world.open()
    world.append(log, b"a", b"b")
    record = log.record
    world.do(world.store.delete(record.segments[0].id))  # it could not be opened now
    world.do(Log.remove(KEY, world.engine))
    world.do(Log.remove(KEY, world.engine))
    assert world.do(world.metadata.get(KEY)) is None
    assert world.open().end == 0
