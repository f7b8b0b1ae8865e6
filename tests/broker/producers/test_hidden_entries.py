"""What nobody gets of a topic, and how it is written."""

from struct import error as StructError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_broker.base.transaction_ids import Outcome, TxnId
from magnetar_broker.producers.hidden_entries import NEVER, HiddenEntries
from magnetar_storage.log.offset_set import OffsetSet

RANGES = st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 40)), max_size=8)
ENDS = st.lists(st.tuples(st.integers(0, (1 << 64) - 1), st.sampled_from(Outcome)), max_size=3)
STEPS = st.lists(st.tuples(RANGES, ENDS, st.booleans()), max_size=8)


def replayed(pieces: list[bytes]) -> HiddenEntries:
    other = HiddenEntries()
    for piece in pieces:
        other.apply(piece)
    assert other.take_delta() == []
    return other


def same(one: HiddenEntries, other: HiddenEntries) -> bool:
    return (one.covered, one.offsets, one.ended) == (other.covered, other.offsets, other.ended)


@given(STEPS)
def test_changes_and_snapshots_restore_it(
    steps: list[tuple[list[tuple[int, int]], list[tuple[int, Outcome]], bool]],
) -> None:
    hidden, written = HiddenEntries(), list[bytes]()
    for number, (ranges, ends, is_written) in enumerate(steps):
        some = OffsetSet()
        for start, length in ranges:
            some.add(start, start + length)
        hidden.hide(some)
        for least, outcome in ends:
            hidden.end(TxnId(1, least), outcome)
        hidden.cover(number)
        if is_written:
            written += hidden.take_delta()
    written += hidden.take_delta()
    assert same(replayed(written), hidden)
    assert same(replayed(hidden.snapshot()), hidden)
    assert hidden.take_delta() == []


def test_nothing_is_written_of_a_topic_without_transactions() -> None:
    hidden = HiddenEntries()
    assert (hidden.take_delta(), hidden.snapshot(), hidden.covered) == ([], [], NEVER)


def test_the_covered_offset_comes_last() -> None:
    hidden, many = HiddenEntries(), OffsetSet()
    for offset in range(0, 150_000, 2):
        many.add(offset, offset + 1)
    hidden.hide(many)
    hidden.cover(150_000)
    pieces = hidden.take_delta()
    assert len(pieces) == 4 and max(map(len, pieces)) < 1 << 20
    torn = replayed(pieces[:-1])
    assert torn.covered == NEVER  # its entries are read again
    assert same(replayed(pieces), hidden)
    assert sum(map(len, hidden.snapshot())) < 40_000  # as bitmaps


@given(st.binary(max_size=40))
def test_bytes_that_are_no_piece_are_recognized(data: bytes) -> None:
    try:
        HiddenEntries().apply(data)
    except (ValueError, StructError):
        return


def test_ranges_must_be_ranges() -> None:
    hidden, some = HiddenEntries(), OffsetSet()
    some.add(4, 6)
    hidden.hide(some)
    hidden.cover(9)
    piece = hidden.take_delta()[0]
    with pytest.raises(ValueError, match="ranges"):
        HiddenEntries().apply(piece[:1] + piece[9:] + piece[1:9])
