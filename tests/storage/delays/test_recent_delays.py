"""Delays that are in no run: a heap that the cursor segment carries."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_storage.delays.delay_run import key, offset_of
from magnetar_storage.delays.recent_delays import PIECE, RecentDelays

delays = st.lists(
    st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**62)), unique_by=lambda d: d[1]
)


def replayed(*records: bytes) -> RecentDelays:
    recent = RecentDelays()
    for record in records:
        recent.apply(record)
    recent.keep(lambda offset: True)
    return recent


def all_of(recent: RecentDelays) -> list[int]:
    return recent.take(2**63 - 1, 1 << 30)


@given(delays, delays)
def test_what_was_taken_as_changes_is_there_again(
    some: list[tuple[int, int]], more: list[tuple[int, int]]
) -> None:
    recent = RecentDelays()
    recent.add([key(*one) for one in some])
    records = recent.take_delta()
    recent.add([key(*one) for one in more])
    records += recent.take_delta()
    assert recent.take_delta() == []
    expected = sorted((*some, *more))
    assert all_of(replayed(*records)) == [offset for _, offset in expected]
    assert all_of(recent) == [offset for _, offset in expected]


@given(delays, delays)
def test_a_snapshot_holds_what_is_being_moved(
    old: list[tuple[int, int]], new: list[tuple[int, int]]
) -> None:
    recent = RecentDelays()
    recent.add([key(*one) for one in old])
    assert recent.move() == sorted(key(*one) for one in old)
    recent.add([key(*one) for one in new])
    again = replayed(*recent.snapshot())
    assert sorted(again.offsets()) == sorted(offset for _, offset in (*old, *new))
    assert recent.take_delta() == []


def test_what_was_moved_is_gone_after_the_next_record() -> None:
    recent = RecentDelays()
    recent.add([key(10, 1), key(20, 2)])
    records = recent.take_delta()
    recent.move()
    assert recent.next_at == 10
    recent.add([key(30, 3)])
    recent.moved()
    records += recent.take_delta()
    assert list(replayed(*records).offsets()) == [3]
    assert recent.next_at == 30


def test_what_is_known_is_recorded() -> None:
    recent = RecentDelays()
    recent.known_to = lambda: 77
    assert recent.snapshot() == []
    recent.note()
    assert replayed(*recent.take_delta()).recorded_to == 77
    assert recent.recorded_to == 77
    assert replayed(*recent.snapshot()).recorded_to == 77


def test_a_large_state_comes_in_pieces() -> None:
    recent = RecentDelays()
    recent.add([key(offset % 7, offset) for offset in range(3 * PIECE)])
    pieces = recent.snapshot()
    assert len(pieces) == 3
    assert max(map(len, pieces)) <= 1 << 20
    assert sorted(replayed(*pieces).offsets()) == list(range(3 * PIECE))


def test_what_is_taken_is_due_and_no_more_than_asked_for() -> None:
    recent = RecentDelays()
    recent.add([key(at_ms, 100 - at_ms) for at_ms in (5, 3, 9, 4)])
    assert recent.take(5, 2) == [97, 96]
    assert recent.take(5, 2) == [95]
    assert recent.take(5, 2) == []
    assert [offset_of(one) for one in recent.move()] == [91]


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x01" + bytes(8) + b"x", b"\x09" + bytes(8)])
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises((struct.error, ValueError)):
        RecentDelays().apply(data)
