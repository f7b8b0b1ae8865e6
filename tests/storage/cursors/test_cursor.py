"""The cursor against a model that remembers every message of every entry."""

from struct import error as StructError

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from effort import examples
from magnetar_storage.cursors import cursor_record
from magnetar_storage.cursors.cursor import Cursor, TrackedCursor
from magnetar_storage.cursors.cursor_record import CursorEntryKind, Piece, State

ENTRIES = 12
BATCH = 5
FULL = (1 << BATCH) - 1

offsets = st.integers(0, ENTRIES - 1)
masks = st.integers(0, FULL)
step = st.one_of(
    st.tuples(st.just("ack"), st.lists(offsets, max_size=4), st.just(0)),
    st.tuples(st.just("batch"), offsets, masks),
    st.tuples(st.just("redeliver"), st.lists(offsets, max_size=4), st.just(0)),
    st.tuples(st.just("up_to"), st.integers(-1, ENTRIES - 1), st.just(0)),
    st.tuples(st.just("reset"), st.integers(-1, ENTRIES - 1), st.just(0)),
)
Step = tuple[str, object, int]


class Model:
    """Which messages of each entry are not acknowledged, as a mask, and its redeliveries."""

    def __init__(self, mark_delete: int) -> None:
        self.left = dict.fromkeys(range(ENTRIES), FULL)
        self.redelivered = dict.fromkeys(range(ENTRIES), 0)
        self.ack(range(mark_delete + 1))

    def ack(self, entries: object) -> None:
        for offset in entries:  # type: ignore[attr-defined]
            self.left[offset] = 0

    def mark_delete(self) -> int:
        return next((o for o in range(ENTRIES) if self.left[o]), ENTRIES) - 1


def take(cursor: Cursor, model: Model, step: Step) -> Model:
    what, value, mask = step
    if what == "ack":
        cursor.ack(value)  # type: ignore[arg-type]
        model.ack(value)
    elif what == "batch":
        assert isinstance(value, int)
        done = cursor.ack_batch(value, mask)
        model.left[value] &= mask
        assert done == (model.left[value] == 0)
    elif what == "redeliver":
        cursor.count_redelivery(value)  # type: ignore[arg-type]
        for offset in value:  # type: ignore[attr-defined]
            model.redelivered[offset] += 1
    elif what == "up_to":
        assert isinstance(value, int)
        cursor.ack_up_to(value)
        model.ack(range(value + 1))
    else:
        assert isinstance(value, int)
        cursor.reset(value)
        return Model(value)
    return model


def compare(cursor: Cursor, model: Model) -> None:
    assert cursor.mark_delete == model.mark_delete()
    for offset, left in model.left.items():
        assert cursor.is_acked(offset) == (left == 0)
        if left:  # an untouched mask and a full one mean the same
            assert cursor.partial.get(offset, FULL) == left
        else:
            model.redelivered[offset] = 0
        assert cursor.redelivered.get(offset, 0) == model.redelivered[offset]
        unacked = (o for o in range(offset, ENTRIES) if model.left[o])
        assert cursor.next_unacked(offset) == next(unacked, ENTRIES)
    assert all(o > cursor.mark_delete and not cursor.is_acked(o) for o in cursor.partial)
    assert all(o > cursor.mark_delete for o in cursor.redelivered)
    assert all(start > cursor.mark_delete + 1 for start, _ in cursor.acked)
    assert cursor.is_plain == (not cursor.acked and not cursor.partial)


@given(
    st.sampled_from([Cursor, TrackedCursor]),
    st.integers(-1, ENTRIES - 1),
    st.lists(step, max_size=25),
)
@settings(max_examples=examples(250))
def test_acknowledging_matches_the_model(kind: type[Cursor], start: int, steps: list[Step]) -> None:
    cursor, model = kind(start), Model(start)
    for one in steps:
        model = take(cursor, model, one)
        compare(cursor, model)


def replay(cursor: TrackedCursor, pieces: list[Piece]) -> None:
    for kind, body in pieces:
        cursor.apply(kind, body)


@given(st.lists(st.tuples(step, st.sampled_from(["", "delta", "snapshot"])), max_size=25))
# The last replay drops the only partly acknowledged entry before it comes to the redelivered one.
@example([(("redeliver", [3], 0), ""), (("batch", 1, 1), "delta"), (("ack", [1, 3], 0), "")])
@settings(max_examples=examples(200))
def test_written_in_any_pieces_it_is_replayed_the_same(
    steps: list[tuple[Step, str]],
) -> None:
    cursor, model = TrackedCursor(-1), Model(-1)
    twin = TrackedCursor(-1)
    for one, then in steps:
        model = take(cursor, model, one)
        if then == "snapshot":
            replay(twin, cursor.snapshot())
            assert cursor.take_delta() == []
        elif then:
            replay(twin, cursor.take_delta())
        compare(cursor, model)
        if then:
            compare(twin, model)
    replay(twin, cursor.take_delta())
    compare(twin, model)
    assert twin.take_delta() == [], "what was replayed is no change"


@given(st.lists(step, max_size=15), st.lists(step, max_size=15))
def test_a_delta_may_be_replayed_over_what_it_came_from(
    before: list[Step], after: list[Step]
) -> None:
    """A snapshot that was taken later than the delta behind it was written."""
    cursor, model = TrackedCursor(-1), Model(-1)
    for one in before:
        model = take(cursor, model, one)
        compare(cursor, model)
    delta = cursor.take_delta()
    for one in after:
        if one[0] != "reset":  # that is never a delta
            model = take(cursor, model, one)
            compare(cursor, model)
    twin = TrackedCursor(-1)
    replay(twin, cursor.snapshot())
    if all(kind is CursorEntryKind.DELTA for kind, _ in delta):
        replay(twin, delta)
    compare(twin, model)


def test_a_cursor_that_is_not_stored_keeps_no_history_of_changes() -> None:
    cursor = Cursor(-1)
    for offset in range(1, 2000, 2):
        cursor.ack([offset])
        cursor.ack_batch(offset + 1, FULL - 1)
    cursor.ack_up_to(2000)
    assert str(cursor.__reduce_ex__(2)) == str(Cursor(2000).__reduce_ex__(2))


def test_nothing_changed_is_no_delta() -> None:
    cursor = TrackedCursor(4)
    cursor.ack([1, 2])
    cursor.ack_up_to(3)
    assert cursor.ack_batch(2, FULL) is True
    cursor.count_redelivery([0, 4])
    assert cursor.take_delta() == []


def test_a_delta_is_handed_out_once() -> None:
    cursor = TrackedCursor(-1)
    cursor.ack([3])
    assert cursor.take_delta() != []
    assert cursor.take_delta() == []


def test_a_delta_holds_only_what_is_new() -> None:
    cursor = TrackedCursor(-1)
    cursor.ack(range(2, 1000, 2))
    cursor.take_delta()
    cursor.ack([2001])
    ((kind, body),) = cursor.take_delta()
    assert kind is CursorEntryKind.DELTA
    assert len(body) < 50


def test_a_reset_is_written_as_the_whole_state() -> None:
    cursor = TrackedCursor(9)
    cursor.reset(2)
    cursor.ack([5])
    ((kind, body),) = cursor.take_delta()
    assert kind is CursorEntryKind.WHOLE
    twin = TrackedCursor(9)
    twin.apply(kind, body)
    assert (twin.mark_delete, list(twin.acked)) == (2, [(5, 6)])


def test_masks_of_more_than_a_word_survive() -> None:
    cursor, twin = TrackedCursor(-1), TrackedCursor(-1)
    mask = (1 << 1000) - 2
    cursor.ack_batch(3, mask)
    replay(twin, cursor.snapshot())
    assert twin.partial == {3: mask}


def test_acks_beyond_the_hole_wait_for_it() -> None:
    cursor = Cursor(-1)
    cursor.ack([1, 2, 3])
    assert cursor.mark_delete == -1
    cursor.ack([0])
    assert cursor.mark_delete == 3
    assert cursor.is_plain


def test_acknowledging_an_empty_range_changes_nothing() -> None:
    cursor = TrackedCursor(-1)
    cursor.ack(range(20, 25))
    cursor.ack(range(25, 20))
    replayed = TrackedCursor(-1)
    replay(replayed, cursor.take_delta())
    assert list(replayed.acked) == list(cursor.acked) == [(20, 25)]


def test_a_count_goes_with_its_ack_and_only_changed_ones_are_written() -> None:
    cursor = TrackedCursor(-1)
    cursor.count_redelivery(range(1, 500))
    cursor.count_redelivery([7])
    cursor.take_delta()
    cursor.count_redelivery([7, 8])
    cursor.ack([8])
    ((_, body),) = cursor.take_delta()
    assert cursor_record.decode(body).counts == {7: 3}
    cursor.ack_up_to(498)
    assert cursor.redelivered == {499: 1}
    cursor.reset(-1)
    assert cursor.redelivered == {}


def test_a_large_state_is_cut_and_small_in_each_piece() -> None:
    cursor, twin = TrackedCursor(-1), TrackedCursor(-1)
    cursor.ack(range(1, 300_000, 2))
    for offset in range(0, 120_000, 2):
        cursor.ack_batch(offset, (1 << 64) - 1)
    cursor.count_redelivery(range(120_000, 300_000, 2))
    pieces = cursor.snapshot()
    assert [kind for kind, _ in pieces][:3] == [
        CursorEntryKind.WHOLE,
        CursorEntryKind.BITMAPS,
        CursorEntryKind.DELTA,
    ]
    assert max(len(body) for _, body in pieces) < (1 << 20) + 100
    replay(twin, pieces)
    assert (twin.acked, twin.partial) == (cursor.acked, cursor.partial)
    assert twin.redelivered == cursor.redelivered


def test_only_pieces_of_a_state_are_replayed() -> None:
    cursor = TrackedCursor(-1)
    with pytest.raises(ValueError, match="DELETE"):
        cursor.apply(CursorEntryKind.DELETE, cursor_record.encode(State(3)))
    assert cursor.mark_delete == -1


def test_a_million_holes_are_written_in_less_than_a_byte_each() -> None:
    cursor, twin = TrackedCursor(-1), TrackedCursor(-1)
    every_other = int("10" * 500, 2)
    for offset in range(0, 2_000_000, 1000):
        cursor.acked.add_bits(offset, every_other)
    pieces = cursor.snapshot()
    assert sum(len(body) for _, body in pieces) < 300_000
    replay(twin, pieces)
    assert twin.acked == cursor.acked


@given(st.sets(st.integers(0, 1500)), st.sets(st.integers(0, 1500)), st.integers(-1, 1500))
@settings(max_examples=examples(60))
def test_dense_states_are_replayed_over_anything(
    acked: set[int], known: set[int], mark_delete: int
) -> None:
    """A twin that had gone on, and knew of batches and redeliveries, forgets what is acked."""
    cursor, twin = TrackedCursor(-1), TrackedCursor(mark_delete)
    dense = {offset + more for offset in acked for more in (0, 2, 4)}
    cursor.ack(sorted(dense))
    for offset in known:
        twin.ack_batch(offset, 0b11)
    twin.count_redelivery(known)
    for kind, body in cursor.snapshot():
        twin.apply(CursorEntryKind.DELTA if kind is CursorEntryKind.WHOLE else kind, body)
    left = [o for o in range(1510) if o > mark_delete and o not in dense]
    assert [o for o in range(1510) if not twin.is_acked(o)] == left
    assert sorted(twin.partial) == sorted(twin.redelivered) == sorted(known & set(left))


@pytest.mark.parametrize("body", [b"\0" * 9, bytes(8) + b"\x05\0four", b"\xff" * 7 + b"\x7f\1\0\1"])
def test_no_bitmaps_are_refused(body: bytes) -> None:
    with pytest.raises((ValueError, StructError)):
        cursor_record.decode_bitmaps(body)
