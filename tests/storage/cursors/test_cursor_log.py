"""Durable cursors: creating, changing, rolling, replaying, failing."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.attached_states import Numbers
from fakes.cursors import Cursors, Outcomes
from fakes.logs import KEY
from magnetar_storage.cursors.cursor_log import (
    GATHER_SECONDS,
    WRITE_BYTES,
    CursorLog,
    DurableCursor,
)
from magnetar_storage.cursors.cursor_record import CursorEntryKind
from magnetar_storage.errors import Corrupt, DiskFull, NoSegment, Unavailable
from magnetar_storage.interfaces import SegmentWriter
from magnetar_storage.runtime.execution import Done


def state(cursor: DurableCursor) -> tuple[object, ...]:
    return (
        cursor.name, cursor.properties, cursor.mark_delete, list(cursor.acked), cursor.partial,
        cursor.redelivered,
    )  # fmt: skip


def states(cursors: CursorLog) -> dict[str, tuple[object, ...]]:
    return {name: state(cursor) for name, cursor in cursors.cursors.items()}


def test_what_was_created_is_there_again() -> None:
    cursors = Cursors()
    cursors.create("eins", 4, color="blue")
    cursors.create("zwei é")
    before = states(cursors.all)
    assert states(cursors.reopen()) == before
    assert set(before) == {"eins", "zwei é"}


def test_an_ack_is_reported_when_it_is_durable_and_not_before() -> None:
    cursors = Cursors()
    cursor = cursors.create("a")
    outcomes = cursors.ack(cursor, 0, 1, 5)
    assert outcomes == []
    cursors.pump()
    assert outcomes == [None]
    again = cursors.reopen().cursors["a"]
    assert (again.mark_delete, list(again.acked)) == (1, [(5, 6)])


def test_a_redelivery_is_as_durable_as_an_ack_without_a_waiter() -> None:
    cursors = Cursors()
    cursor = cursors.create("a")
    cursor.count_redelivery([3, 4])
    cursors.all.cursor_changed(cursor)
    cursors.world.clock.advance(2 * GATHER_SECONDS)
    cursor.count_redelivery([4])
    cursors.all.cursor_changed(cursor)
    cursors.world.clock.advance(2 * GATHER_SECONDS)
    assert cursors.reopen().cursors["a"].redelivered == {3: 1, 4: 2}
    cursors.ack(cursors.all.cursors["a"], 4)
    cursors.pump()
    assert cursors.reopen().cursors["a"].redelivered == {3: 1}


def test_an_attached_state_is_written_and_read_like_a_cursor() -> None:
    cursors = Cursors()
    outcomes = [cursors.put(1, 5, 50), cursors.put(2, 6, 60), cursors.put(1, 5, 51)]
    assert outcomes == [[], [], []]
    cursors.pump()
    assert outcomes == [[None]] * 3
    cursors.reopen()
    assert cursors.numbers() == [{5: 51}, {6: 60}]


def test_an_attached_state_that_no_caller_waits_for_gathers_and_goes_along() -> None:
    cursors = Cursors()
    cursor = cursors.create("a")
    before = entries_written(cursors)
    cursors.attached[2].put(1, 1)
    cursors.all.state_changed(2)
    cursors.pump()
    assert entries_written(cursors) == before
    cursors.ack(cursor, 0)
    cursors.pump()
    assert entries_written(cursors) == before + 2
    cursors.attached[2].put(2, 2)
    cursors.all.state_changed(2)
    cursors.world.clock.advance(2 * GATHER_SECONDS)
    assert entries_written(cursors) == before + 3
    cursors.reopen()
    assert cursors.numbers() == [{}, {1: 1, 2: 2}]


def test_an_attached_state_that_did_not_change_writes_nothing() -> None:
    cursors = Cursors()
    cursors.create("a")
    before = entries_written(cursors)
    outcomes: Outcomes = []
    cursors.all.state_changed(1, outcomes.append)
    cursors.pump()
    assert (outcomes, entries_written(cursors)) == ([None], before)


def test_a_change_of_an_attached_state_during_a_write_is_not_forgotten() -> None:
    cursors = Cursors()
    cursor = cursors.create("a")
    cursors.ack(cursor, 0)
    assert cursors.world.clock.step()
    cursors.attached[1].put(3, 4)
    cursors.all.state_changed(1)
    cursors.pump()
    cursors.world.clock.advance(2 * GATHER_SECONDS)
    cursors.reopen()
    assert cursors.numbers() == [{3: 4}, {}]


class Large(Numbers):
    """Numbers that take a MiB each."""

    def take_delta(self) -> list[bytes]:
        return [piece + b" " * (1 << 20) for piece in super().take_delta()]


def test_a_large_state_does_not_hold_the_journal_up() -> None:
    """It is written in several rounds; changes meanwhile come behind it."""
    cursors = Cursors()
    state = Large()
    cursors.all = cursors.world.do(CursorLog.open(cursors.log, {1: state}))
    for key in range(9):
        state.put(key, key)
    sizes: list[int] = []
    append = cursors.all._append

    def noted(writer: SegmentWriter, payloads: list[bytes], done: Done) -> None:
        sizes.append(sum(map(len, payloads)))
        append(writer, payloads, done)

    cursors.all._append = noted  # type: ignore[method-assign]
    creating = cursors.world.begin(cursors.all.create("a", -1, {}))
    while not sizes:
        assert cursors.world.clock.step()
    state.put(3, 30)
    cursors.all.state_changed(1)
    cursors.pump()
    creating.result()
    cursors.world.do(cursors.all.durable())
    assert len(sizes) == 4 and max(sizes) < WRITE_BYTES + (2 << 20)
    cursors.reopen()
    assert cursors.numbers()[0] == {key: 30 if key == 3 else key for key in range(9)}


def test_an_attached_state_that_is_not_known_is_kept_as_it_was() -> None:
    cursors = Cursors(known=(1, 2, 9))
    cursors.create("a")
    for key in range(3):
        cursors.put(9, key, 10 * key)
        cursors.pump()
    cursors.known = (1,)
    for _ in range(2):
        cursor = cursors.reopen().cursors["a"]
        cursors.ack(cursor, cursor.mark_delete + 1)
        cursors.put(1, 1, 1)
        cursors.pump()
    cursors.known = (1, 2, 9)
    cursors.reopen()
    assert cursors.numbers() == [{1: 1}, {}, {0: 0, 1: 10, 2: 20}]


def test_many_changes_of_a_turn_are_one_write() -> None:
    cursors = Cursors()
    first, second = cursors.create("a"), cursors.create("b")
    outcomes = [cursors.ack(cursor, n) for n in range(50) for cursor in (first, second)]
    before = entries_written(cursors)
    cursors.pump()
    assert all(one == [None] for one in outcomes)
    assert entries_written(cursors) == before + 2


def entries_written(cursors: Cursors) -> int:
    segment = cursors.log.record.cursor_segment
    assert segment is not None
    return len(cursors.world.store._segments[segment].payloads)


def test_a_change_during_a_write_goes_along_in_the_next() -> None:
    cursors = Cursors()
    cursor = cursors.create("a")
    before = entries_written(cursors)
    first = cursors.ack(cursor, 0)
    assert cursors.world.clock.step(), "the write is under way now"
    second = cursors.ack(cursor, 1)
    third = cursors.ack(cursor, 2)
    assert first == second == []
    assert entries_written(cursors) == before + 1
    cursors.pump()
    assert first == second == third == [None]
    assert entries_written(cursors) == before + 2
    assert cursors.reopen().cursors["a"].mark_delete == 2


def test_changes_without_a_waiter_are_gathered_into_one_write() -> None:
    cursors = Cursors()
    cursor = cursors.create("a")
    before = entries_written(cursors)
    for offset in range(3):
        cursor.ack([offset])
        cursors.all.cursor_changed(cursor)
        cursors.pump()
    assert entries_written(cursors) == before
    cursors.world.clock.advance(2 * GATHER_SECONDS)
    assert entries_written(cursors) == before + 1
    assert cursors.reopen().cursors["a"].mark_delete == 2


def test_what_has_gathered_for_a_while_goes_along_with_entries() -> None:
    cursors = Cursors()
    cursor = cursors.create("a")
    before = entries_written(cursors)
    cursor.ack([0])
    cursors.all.cursor_changed(cursor)
    assert cursors.log.with_next_append is None, "others may come"
    cursors.world.clock.advance(GATHER_SECONDS)
    cursor.ack([1])
    cursors.all.cursor_changed(cursor)
    assert entries_written(cursors) == before
    assert cursors.log.with_next_append is not None
    cursors.log.with_next_append()
    assert entries_written(cursors) == before + 1
    assert cursors.log.with_next_append is None
    cursors.world.clock.advance(2 * GATHER_SECONDS)
    assert entries_written(cursors) == before + 1
    assert cursors.reopen().cursors["a"].mark_delete == 1


def test_a_change_without_a_waiter_during_a_write_is_written_too() -> None:
    cursors = Cursors()
    cursor = cursors.create("a")
    before = entries_written(cursors)
    cursors.ack(cursor, 0)
    assert cursors.world.clock.step()
    cursor.ack([1])
    cursors.all.cursor_changed(cursor)
    cursors.pump()
    assert entries_written(cursors) == before + 1
    cursors.world.clock.advance(2 * GATHER_SECONDS)
    assert entries_written(cursors) == before + 2
    assert cursors.reopen().cursors["a"].mark_delete == 1


def test_a_change_with_a_waiter_writes_the_gathered_ones_too() -> None:
    cursors = Cursors()
    first, second = cursors.create("a"), cursors.create("b")
    before = entries_written(cursors)
    first.ack([0])
    cursors.all.cursor_changed(first)
    outcome = cursors.ack(second, 0)
    cursors.pump()
    assert outcome == [None]
    assert entries_written(cursors) == before + 2
    cursors.world.clock.advance(2 * GATHER_SECONDS)
    assert entries_written(cursors) == before + 2
    assert {c.mark_delete for c in cursors.reopen().cursors.values()} == {0}


def test_waiting_until_all_is_durable_takes_along_what_gathered() -> None:
    cursors = Cursors()
    cursor = cursors.create("a")
    cursor.ack([0])
    cursors.all.cursor_changed(cursor)
    cursors.world.do(cursors.all.durable())
    assert cursors.reopen().cursors["a"].mark_delete == 0


def test_a_change_while_a_segment_is_begun_is_not_lost() -> None:
    cursors = Cursors()
    cursors.create("a")
    cursor = cursors.reopen().cursors["a"]
    cursors.world.store.create_gate = cursors.world.clock.promise()
    first = cursors.ack(cursor, 0)
    cursors.pump()  # waits for the new segment
    second = cursors.ack(cursor, 1)
    cursors.world.store.create_gate.set_result(None)
    third = cursors.ack(cursor, 2)
    cursors.pump()
    assert first == second == third == [None]
    assert cursors.reopen().cursors["a"].mark_delete == 2


def test_an_ack_that_changes_nothing_is_answered() -> None:
    cursors = Cursors()
    cursor = cursors.create("a", 5)
    outcomes = cursors.ack(cursor, 3)
    cursors.pump()
    assert outcomes == [None]


def test_deleting_is_durable_and_the_name_is_free_again() -> None:
    cursors = Cursors()
    cursors.create("a", 7)
    cursors.create("b")
    cursors.world.do(cursors.all.delete("a"))
    assert set(cursors.reopen().cursors) == {"b"}
    cursors.create("a", 2)
    assert cursors.reopen().cursors["a"].mark_delete == 2


def test_acks_of_a_deleted_cursor_leave_nothing_behind() -> None:
    """A consumer may acknowledge while its subscription is being deleted, and after."""
    cursors = Cursors()
    cursors.create("kept")
    cursor = cursors.create("gone")
    during = cursors.ack(cursor, 0)
    deleting = cursors.world.begin(cursors.all.delete("gone"))
    after = cursors.ack(cursor, 1)
    cursors.world.begin(cursors.all.set_properties(cursor, {"too": "late"})).result()
    cursors.pump()
    deleting.result()
    later = cursors.ack(cursor, 2)
    cursors.pump()
    assert during == after == later == [None]
    assert set(cursors.reopen().cursors) == {"kept"}


def test_a_cursor_of_the_same_name_is_not_changed_by_the_old_one() -> None:
    cursors = Cursors()
    old = cursors.create("a")
    cursors.world.do(cursors.all.delete("a"))
    cursors.create("a")
    assert cursors.ack(old, 0, 1, 2) == [None]
    cursors.pump()
    assert cursors.reopen().cursors["a"].mark_delete == -1


def test_properties_are_replaced() -> None:
    cursors = Cursors()
    cursor = cursors.create("a", a="1")
    cursors.world.do(cursors.all.set_properties(cursor, {"b": "2"}))
    assert cursors.reopen().cursors["a"].properties == {"b": "2"}


def test_a_grown_segment_is_replaced_and_deleted() -> None:
    cursors = Cursors(roll_bytes=500)
    cursor = cursors.create("a")
    seen = {cursors.log.record.cursor_segment}
    for offset in range(200):
        outcomes = cursors.ack(cursor, 2 * offset + 1)
        cursors.pump()
        assert outcomes == [None]
        seen.add(cursors.log.record.cursor_segment)
    assert len(seen) > 3
    assert cursors.world.store.ids() == {cursors.log.record.cursor_segment}
    assert cursors.reopen().cursors["a"].acked.covered() == 200


def test_a_segment_of_many_small_changes_is_replaced_and_deleted() -> None:
    limit = 50
    cursors = Cursors(roll_entries=limit)
    cursor = cursors.create("a")
    seen = {cursors.log.record.cursor_segment}
    for offset in range(10 * limit):
        assert not cursors.ack(cursor, offset)
        cursors.pump()
        seen.add(cursors.log.record.cursor_segment)
        assert cursors.all._writer is not None
        assert cursors.all._writer.confirmed <= limit
    assert 8 <= len(seen) <= 12
    assert cursors.world.store.ids() == {cursors.log.record.cursor_segment}
    assert cursors.reopen().cursors["a"].mark_delete == 10 * limit - 1


def test_a_large_state_is_not_copied_for_each_few_entries() -> None:
    cursors = Cursors(roll_entries=5)
    cursor = cursors.create("a", large="x" * 10_000)
    before = cursors.log.record.cursor_segment
    for offset in range(100):
        cursors.ack(cursor, offset)
        cursors.pump()
    assert cursors.log.record.cursor_segment == before


def test_the_first_change_after_opening_begins_a_segment() -> None:
    cursors = Cursors()
    cursors.create("a")
    before = cursors.log.record.cursor_segment
    cursor = cursors.reopen().cursors["a"]
    assert cursors.log.record.cursor_segment == before
    cursors.ack(cursor, 0)
    cursors.pump()
    assert cursors.log.record.cursor_segment != before
    assert before not in cursors.world.store.ids()


def test_a_failed_write_fails_the_log_and_all_that_wait() -> None:
    cursors = Cursors()
    cursor = cursors.create("a")
    reported: list[BaseException] = []
    cursors.log.on_failure = reported.append
    outcomes = cursors.ack(cursor, 0)
    assert cursors.world.clock.step()
    meanwhile = cursors.ack(cursor, 1)
    error = DiskFull("no room")
    cursors.world.store.break_writers(error)
    cursors.pump()
    assert outcomes == [error]
    assert [refused.__cause__ for refused in meanwhile if refused is not None] == [error]
    assert (cursors.log.failed, reported) == (error, [error])
    later = cursors.ack(cursor, 2)
    cursors.pump()
    assert repr(later) == repr([error])
    with pytest.raises(DiskFull):
        cursors.world.do(cursors.all.durable())
    assert cursors.reopen().cursors["a"].mark_delete == -1


def test_a_segment_that_cannot_be_begun_fails_the_log() -> None:
    cursors = Cursors()
    error = cursors.world.store.create_failure = DiskFull("no room")
    with pytest.raises(DiskFull):
        cursors.create("a")
    assert cursors.log.failed is error
    cursors.world.store.create_failure = None
    assert cursors.reopen().cursors == {}


@pytest.mark.parametrize("lands", [False, True])
def test_a_segment_that_cannot_be_listed_is_left_over_until_the_log_is_opened(lands: bool) -> None:
    cursors = Cursors()
    cursors.create("a", 4)
    for number in range(5):
        cursors.reopen()
        with cursors.world.failing_metadata(lands), pytest.raises(Unavailable):
            cursors.create(f"b{number}")
        assert len(cursors.world.store.ids()) == 2
    assert cursors.reopen().cursors["a"].mark_delete == 4
    assert cursors.world.store.ids() == {cursors.log.record.cursor_segment}


def test_a_segment_that_cannot_be_written_is_not_left_over() -> None:
    cursors = Cursors()
    cursors.create("a", 4)
    cursors.reopen()
    making = cursors.world.begin(cursors.all.create("b", 0, {}))
    assert cursors.world.clock.step(), "the state is being written now"
    cursors.world.store.break_writers(DiskFull("no room"))
    cursors.pump()
    with pytest.raises(DiskFull):
        making.result()
    assert cursors.world.store.ids() == {cursors.log.record.cursor_segment}


def test_a_waiter_that_gave_up_does_not_affect_others() -> None:
    cursors = Cursors()
    cursor = cursors.create("a")
    outcomes = cursors.ack(cursor, 0)
    waiting = cursors.world.begin(cursors.all.durable())
    given_up = cursors.world.clock.promise()
    given_up.set_result(None)
    made = cursors.world.clock.promise
    cursors.world.clock.promise = lambda: given_up  # type: ignore[method-assign]
    cursors.world.begin(cursors.all.durable()).result()
    cursors.world.clock.promise = made  # type: ignore[method-assign]
    cursors.pump()
    waiting.result()
    assert outcomes == [None]


def test_closing_writes_what_is_left() -> None:
    cursors = Cursors()
    cursor = cursors.create("a")
    outcomes = cursors.ack(cursor, 0)
    cursors.world.do(cursors.all.close())
    assert outcomes == [None]
    assert cursors.reopen().cursors["a"].mark_delete == 0
    cursors.world.do(cursors.all.close())


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x09\0\0\0\0",
        bytes([CursorEntryKind.SIDE]) + b"\x01\0\0\0no number",
        bytes([CursorEntryKind.WHOLE]) + b"\0\0\0\0" + bytes(17),
        bytes([CursorEntryKind.DELTA]) + b"\0\0\0\0" + bytes(16) + b"\x01\0\0\0\x01",
        bytes([CursorEntryKind.DELETE]) + b"\x07\0\0\0",
        bytes([CursorEntryKind.DELTA]) + b"\0\0\0\0short",
        bytes([CursorEntryKind.PROPERTIES]) + b"\0\0\0\0{",
        bytes([CursorEntryKind.CREATE]) + b"\x01\0\0\0\x02\0\0\0\xff\xff",
    ],
)
def test_a_record_that_is_none_is_corrupt(payload: bytes) -> None:
    cursors = Cursors()
    cursors.create("a")
    writer = cursors.all._writer
    assert writer is not None
    writer.append([payload], [0], lambda _: None)
    cursors.pump()
    with pytest.raises(Corrupt) as caught:
        cursors.reopen()
    assert (caught.value.segment, caught.value.first_entry) == (
        cursors.log.record.cursor_segment,
        1,
    )


def test_a_missing_cursor_segment_is_loss_and_not_emptiness() -> None:
    cursors = Cursors()
    cursors.create("a")
    assert cursors.log.record.cursor_segment is not None
    cursors.world.do(cursors.world.store.delete(cursors.log.record.cursor_segment))
    with pytest.raises(NoSegment):
        cursors.reopen()


NAMES = ["a", "b", "c"]
step = st.one_of(
    st.tuples(st.just("create"), st.sampled_from(NAMES), st.integers(-1, 5)),
    st.tuples(st.just("delete"), st.sampled_from(NAMES), st.just(0)),
    st.tuples(st.just("ack"), st.sampled_from(NAMES), st.integers(0, 15)),
    st.tuples(st.just("batch"), st.sampled_from(NAMES), st.integers(0, 15)),
    st.tuples(st.just("up_to"), st.sampled_from(NAMES), st.integers(0, 15)),
    st.tuples(st.just("redeliver"), st.sampled_from(NAMES), st.integers(0, 15)),
    st.tuples(st.just("attached"), st.just(""), st.integers(0, 15)),
    st.tuples(st.just("reset"), st.sampled_from(NAMES), st.integers(-1, 10)),
    st.tuples(st.just("pump"), st.just(""), st.integers(1, 3)),
    st.tuples(st.just("reopen"), st.just(""), st.just(0)),
)


@given(st.lists(step, max_size=40), st.sampled_from([1, 200, 4 << 20]))
@settings(max_examples=examples(200))
def test_after_any_history_the_durable_state_is_the_requested_one(
    steps: list[tuple[str, str, int]], roll_bytes: int
) -> None:
    cursors = Cursors(roll_bytes)
    for what, name, value in steps:
        present = cursors.all.cursors.get(name)
        if what == "pump":
            for _ in range(value):
                cursors.world.clock.step()
        elif what == "reopen":
            compare_with_reopened(cursors)
        elif what == "attached":
            cursors.attached[1 + value % 2].put(value, len(steps))
            cursors.all.state_changed(1 + value % 2)
        elif what == "create" and present is None:
            cursors.world.begin(cursors.all.create(name, value, {"n": name}))
        elif what == "delete" and present is not None:
            cursors.world.begin(cursors.all.delete(name))
        elif present is not None and what in CHANGES:
            CHANGES[what](present, value)
            cursors.all.cursor_changed(present)
    compare_with_reopened(cursors)
    assert len(cursors.world.store.ids()) <= 1
    assert cursors.world.do(cursors.world.metadata.list(KEY)) == [KEY]


def compare_with_reopened(cursors: Cursors) -> None:
    cursors.world.do(cursors.all.durable())
    before, numbers = states(cursors.all), cursors.numbers()
    assert states(cursors.reopen()) == before
    assert cursors.numbers() == numbers


CHANGES: dict[str, Callable[[DurableCursor, int], object]] = {
    "ack": lambda cursor, value: cursor.ack([value]),
    "batch": lambda cursor, value: cursor.ack_batch(value, value),
    "up_to": DurableCursor.ack_up_to,
    "redeliver": lambda cursor, value: cursor.count_redelivery([value, value // 2]),
    "reset": DurableCursor.reset,
}
