"""When entries are due, by a clock that the test moves; and which pauses a back-off makes."""

import pytest

from magnetar.consuming.due_entries import DueEntries, RedeliveryBackoff


def test_pauses_grow_up_to_the_limit() -> None:
    backoff = RedeliveryBackoff(first_s=1, max_s=60, multiplier=2)
    assert [backoff.pause_s(count) for count in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert backoff.pause_s(10**6) == 60
    assert RedeliveryBackoff(0.5, 10, 3).pause_s(2) == 4.5


@pytest.mark.parametrize("wrong", [(0, 1, 2), (2, 1, 2), (1, 2, 0.5)])
def test_impossible_pauses_are_refused(wrong: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="multiplier"):
        RedeliveryBackoff(*wrong)


def test_entries_are_due_at_the_tick_after_their_time() -> None:
    due = DueEntries(1.0)
    due.add((1, 2), 10.2)
    due.add((1, 1), 10.9)
    due.add((1, 3), 11.5)
    assert (due.next_s(), len(due)) == (11.0, 3)
    assert due.take(10.99) == []
    assert due.take(11.0) == [(1, 1), (1, 2)]
    assert (due.next_s(), len(due)) == (12.0, 1)
    due.clear()
    assert due.next_s() is None


def test_a_later_time_replaces_the_former() -> None:
    due = DueEntries(1.0)
    due.add((1, 1), 5)
    due.add((1, 1), 9)
    assert due.take(5) == []
    assert due.take(9) == [(1, 1)]


def test_what_is_acknowledged_is_not_due() -> None:
    due = DueEntries(1.0)
    for entry in range(5):
        due.add((1, entry), 5)
    due.discard_all([(1, 0), (7, 7)])
    due.discard_up_to((1, 2))
    due.discard((1, 4))
    assert due.take(5) == [(1, 3)]
