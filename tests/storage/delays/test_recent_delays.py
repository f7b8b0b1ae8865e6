"""Delays that are in no run: in memory, and written to the cursor segment."""

import struct
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_storage.delays.delay_block import MAX_TIME
from magnetar_storage.delays.recent_delays import PIECE, RecentDelays

delays = st.lists(
    st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**62)), unique_by=lambda d: d[1]
)


SMALL = 3
"""So few delays in a part, and so few parts, that all of it happens with some dozen delays."""


def few() -> RecentDelays:
    return RecentDelays(SMALL, SMALL)


def put(recent: RecentDelays, delays: Iterable[tuple[int, int]]) -> None:
    """Add (time, offset), if there are any."""
    some = sorted(delays, key=lambda delay: delay[1])
    if some:
        recent.add([offset for _, offset in some], [at_ms for at_ms, _ in some])


def replayed(*records: bytes, size: int = SMALL) -> RecentDelays:
    recent = RecentDelays(size, SMALL)
    for record in records:
        recent.apply(record)
    return recent


def all_of(recent: RecentDelays) -> list[int]:
    return sorted(recent.take(MAX_TIME, 1 << 30))


@given(delays, delays)
def test_what_was_taken_as_changes_is_there_again(
    some: list[tuple[int, int]], more: list[tuple[int, int]]
) -> None:
    recent = few()
    put(recent, some)
    records = recent.take_delta()
    put(recent, more)
    records += recent.take_delta()
    assert recent.take_delta() == []
    expected = sorted(offset for _, offset in (*some, *more))
    assert all_of(replayed(*records)) == expected
    assert all_of(recent) == expected


@given(delays, delays)
def test_a_snapshot_holds_what_is_being_moved(
    old: list[tuple[int, int]], new: list[tuple[int, int]]
) -> None:
    recent = few()
    put(recent, old)
    moving = recent.move()
    assert sorted(delay for block in moving for delay in zip(*block, strict=True)) == sorted(old)
    assert all(list(block.times) == sorted(block.times) for block in moving)
    put(recent, new)
    again = replayed(*recent.snapshot())
    assert sorted(again.offsets()) == sorted(offset for _, offset in (*old, *new))
    assert recent.take_delta() == []


def test_what_was_moved_is_gone_after_the_next_record() -> None:
    recent = few()
    recent.add([1, 2], [10, 20])
    records = recent.take_delta()
    recent.move()
    assert recent.next_at == 10
    recent.add([3], [30])
    recent.moved()
    records += recent.take_delta()
    assert list(replayed(*records).offsets()) == [3]
    assert recent.next_at == 30


def test_what_is_known_is_recorded() -> None:
    recent = few()
    recent.known_to = lambda: 77
    assert recent.snapshot() == []
    recent.note()
    assert replayed(*recent.take_delta()).recorded_to == 77
    assert recent.recorded_to == 77
    assert replayed(*recent.snapshot()).recorded_to == 77


def test_a_large_state_comes_in_pieces() -> None:
    recent = RecentDelays()
    recent.add(range(3 * PIECE), [offset % 7 for offset in range(3 * PIECE)])
    pieces = recent.take_delta()
    assert len(pieces) == 3
    assert max(map(len, pieces)) <= 1 << 20
    pieces = recent.snapshot()
    assert max(map(len, pieces)) <= 1 << 20
    assert sorted(replayed(*pieces, size=PIECE).offsets()) == list(range(3 * PIECE))


def test_what_is_taken_is_due_and_no_more_than_asked_for() -> None:
    recent = few()
    put(recent, [(at_ms, 100 - at_ms) for at_ms in (5, 3, 9, 4)])
    taken = recent.take(5, 2)
    assert len(taken) == 2
    assert sorted(taken + recent.take(5, 2)) == [95, 96, 97]
    assert recent.take(5, 2) == []
    assert [list(block.offsets) for block in recent.move()] == [[91]]


def test_parts_of_which_little_is_left_are_joined() -> None:
    recent, turns = few(), 30
    for turn in range(turns):
        put(recent, [(0, 2 * turn), (100, 2 * turn + 1)])
        assert recent.take(0, 9) == [2 * turn]
    assert len(recent) == turns
    assert len(recent._parts) <= 2 * turns / SMALL


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x01" + bytes(8) + b"x", b"\x09" + bytes(8)])
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises((struct.error, ValueError)):
        RecentDelays().apply(data)


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 60), max_size=7), st.integers(0, 60), st.integers(1, 9)),
        max_size=20,
    ),
    st.integers(0, 40),
)
def test_nothing_is_taken_early_or_left(
    turns: list[tuple[list[int], int, int]], trimmed: int
) -> None:
    recent, left, offset, most = few(), dict[int, int](), 0, 0
    for times, until_ms, limit in turns:
        put(recent, [(at_ms, offset + at) for at, at_ms in enumerate(times)])
        left |= {offset + at: at_ms for at, at_ms in enumerate(times)}
        offset += len(times)
        most = max(most, len(left))
        due = {one for one, at_ms in left.items() if at_ms <= until_ms}
        taken = recent.take(until_ms, limit)
        assert len(taken) == len(set(taken)) == min(len(due), limit) and due.issuperset(taken)
        left = {one: at_ms for one, at_ms in left.items() if one not in taken}
        assert len(recent) == len(left)
        assert recent.next_at == min(left.values(), default=None)
        # More parts than a few are joined unless two of them together exceed the size of one.
        assert len(recent._parts) <= max(SMALL, 2 * most / SMALL)
    recent.trim(trimmed)
    kept = sorted(one for one in left if one >= trimmed)
    assert sorted(recent.offsets()) == kept
    assert sorted(all_of(replayed(*recent.snapshot()))) == kept
    recent.keep(lambda one: one % 2 == 0)
    assert recent.next_at == min((left[one] for one in kept if one % 2 == 0), default=None)
    assert all_of(recent) == [one for one in kept if one % 2 == 0]
