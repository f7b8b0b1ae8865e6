"""A consumer's own counters: what is pending, and whether it is blocked."""

import pytest

from fakes.connection import RecordingConnection
from fakes.topics import SHARED, TopicWorld
from magnetar_broker.dispatch.consumer import Consumer


def consumer(limit: int = 0) -> Consumer:
    found = TopicWorld().subscribe(RecordingConnection(), 100, sub_type=SHARED)
    found.keep_pending(limit)
    return found


def test_what_is_released_is_not_pending_and_repeats_count_for_nothing() -> None:
    one = consumer()
    one.hold(range(3, 6), [1, 2, 4], 7)
    assert one.release([3, 5]) == 5
    assert one.release([3, 5, 9]) == 0
    assert (one.pending, one.unacked) == ({4: 2}, 2)


def test_a_part_is_released_at_most_once() -> None:
    one = consumer()
    one.hold((7,), (5,), 5)
    assert (one.release_part(7, 3), one.release_part(7, 4)) == (2, 0)
    assert (one.pending, one.unacked) == ({7: 3}, 3)
    assert one.release_part(7, 0) == 3
    assert (one.pending, one.unacked) == ({}, 0)


def test_returned_messages_are_not_acknowledged() -> None:
    one = consumer()
    one.messages_out = 6
    one.hold(range(3), [2, 2, 2], 6)
    assert (one.take_back([0, 2]), one.release([1])) == (4, 2)
    _, _, _, acked, _ = one.totals()
    assert (acked, one.unacked) == (2, 0)


def test_only_pending_entries_are_taken_back() -> None:
    with pytest.raises(KeyError):
        consumer().take_back([0])


def test_it_is_blocked_at_its_limit_until_half_of_it_is_left() -> None:
    one = consumer(limit=4)
    one.hold(range(3), [1, 1, 1], 3)
    assert one.can_take()
    one.hold((3,), (2,), 2)
    assert one.blocked and not one.can_take()
    one.release([3])
    assert not one.unblock() and one.blocked
    one.release([2])
    assert one.unblock() and one.can_take()


def test_another_limit_applies_at_once() -> None:
    one = consumer(limit=9)
    one.hold(range(3), [1, 1, 1], 3)
    one.keep_pending(2)
    assert one.blocked
    one.keep_pending(0)
    assert not one.blocked
