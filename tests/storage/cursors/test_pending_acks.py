"""What transactions have acknowledged, how it is written, and the view of a cursor with it."""

from struct import error as StructError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.cursors.delivery_cursor import DeliveryCursor
from magnetar_storage.cursors.pending_acks import PendingAcks, Txn

MASK_BITS = 5
NUMBERS, OFFSETS = st.integers(0, 2), st.integers(0, 40)
TXNS = st.tuples(st.integers(0, 1), st.sampled_from((0, 1, (1 << 64) - 1)))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), NUMBERS, TXNS, st.sets(OFFSETS, max_size=6).map(sorted)),
        st.tuples(st.just("mask"), NUMBERS, TXNS, st.tuples(OFFSETS, st.integers(0, 31))),
        st.tuples(st.just("up_to"), NUMBERS, TXNS, st.tuples(OFFSETS, st.integers(0, 31))),
        st.tuples(st.just("end"), NUMBERS, TXNS, st.none()),
        st.tuples(st.just("forget"), NUMBERS, TXNS, st.none()),
        st.tuples(st.just("write"), NUMBERS, TXNS, st.none()),
    ),
    max_size=20,
)
Shown = dict[tuple[int, Txn], tuple[Any, ...]]


def shown(pending: PendingAcks) -> Shown:
    return {
        (number, txn): (list(one.entries), one.masks, one.up_to)
        for number in range(3)
        for txn, one in pending.of(number).items()
    }


def is_free(pending: PendingAcks, txn: Txn, offset: int) -> bool:
    """Whether no other transaction has acknowledged anything of an entry, or cumulatively."""
    return not any(
        other != txn and (one.up_to is not None or offset in {*one.each()})
        for other, one in pending.of(0).items()
    )


def held(cursor: Cursor) -> tuple[set[int], dict[int, int]]:
    """The entries that are not delivered, and the masks of those that are in part."""
    return {offset for offset in range(50) if cursor.is_acked(offset)}, cursor.partial


def replayed(pieces: list[bytes]) -> PendingAcks:
    other = PendingAcks()
    for piece in pieces:
        other.apply(piece)
    assert other.take_delta() == []
    return other


@given(STEPS)
def test_changes_and_snapshots_restore_it(steps: list[tuple[str, int, Txn, Any]]) -> None:
    pending, written = PendingAcks(), list[bytes]()
    for step, number, txn, what in steps:
        if step == "add":
            pending.add(number, txn, what)
        elif step == "mask":
            pending.add_mask(number, txn, *what)
        elif step == "up_to":
            pending.set_up_to(number, txn, *what)
        elif step == "end":
            pending.end(number, txn)
        elif step == "forget":
            pending.forget(number)
        else:
            written += pending.take_delta()
    written += pending.take_delta()
    assert shown(replayed(written)) == shown(pending)
    assert shown(replayed(pending.snapshot())) == shown(pending)
    assert pending.take_delta() == []


@given(st.binary(max_size=60))
def test_bytes_that_are_no_piece_are_recognized(data: bytes) -> None:
    try:
        PendingAcks().apply(data)
    except (ValueError, StructError):
        return


def test_ranges_must_be_ranges() -> None:
    pending = PendingAcks()
    pending.add(1, (0, 1), [4])
    (piece,) = pending.take_delta()
    with pytest.raises(ValueError, match="ranges"):
        PendingAcks().apply(piece[:-16] + piece[-8:] + piece[-16:-8])


def test_many_entries_are_written_in_several_pieces() -> None:
    pending = PendingAcks()
    pending.add(0, (0, 1), range(0, 140_000, 2))
    pieces = pending.take_delta()
    assert len(pieces) == 3 and max(map(len, pieces)) < 1 << 20
    assert shown(replayed(pieces)) == shown(pending)


@given(
    st.lists(OFFSETS, max_size=10),
    st.lists(st.tuples(OFFSETS, st.integers(1, 31)), max_size=5),
    STEPS,
)
def test_a_view_has_what_is_acknowledged_and_what_is_pending(
    acked: list[int], parts: list[tuple[int, int]], steps: list[tuple[str, int, Txn, Any]]
) -> None:
    cursor, pending = Cursor(-1), PendingAcks()
    cursor.ack(acked)
    for offset, mask in parts:
        cursor.ack_batch(offset, mask)
    for step, _, txn, what in steps:
        if step == "add":
            pending.add(0, txn, [one for one in what if is_free(pending, txn, one)])
        elif step == "mask" and is_free(pending, txn, what[0]):
            pending.add_mask(0, txn, *what)
        elif step == "up_to" and all(is_free(pending, txn, one) for one in range(what[0] + 1)):
            pending.set_up_to(0, txn, *what)
    view = DeliveryCursor(cursor, pending.of(0).values())
    both = Cursor(-1)
    both.ack(acked)
    for offset, mask in parts:
        both.ack_batch(offset, mask)
    before = cursor.mark_delete, list(cursor.acked), dict(cursor.partial)
    for one in pending.of(0).values():
        one.apply_to(both)
    assert held(view) == held(both)
    assert (cursor.mark_delete, list(cursor.acked), cursor.partial) == before
    for txn in list(pending.of(0)):
        ended = pending.end(0, txn)
        assert ended is not None
        if not view.take_back(ended):
            view.refresh(pending.of(0).values())
        expected = DeliveryCursor(cursor, pending.of(0).values())
        assert held(view) == held(expected)
    assert held(view) == held(cursor)


def test_redelivery_counts_are_those_of_the_cursor() -> None:
    cursor, pending = Cursor(-1), PendingAcks()
    pending.add(0, (0, 1), [2])
    view = DeliveryCursor(cursor, pending.of(0).values())
    view.count_redelivery([1, 2])
    assert cursor.redelivered.get(1) == 1
    view.ack([1])
    assert cursor.redelivered.get(1) == 1  # it may be taken back
