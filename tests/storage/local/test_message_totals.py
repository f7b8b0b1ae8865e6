"""Running totals of messages: as a plain list has them, in less memory."""

from array import array
from itertools import accumulate, chain

from hypothesis import given
from hypothesis import strategies as st

from magnetar_storage.local.message_totals import MessageTotals

counts = st.lists(st.lists(st.just(1) | st.integers(0, 3), min_size=1, max_size=5), max_size=8)


def totals_of(runs: list[list[int]]) -> tuple[MessageTotals, list[int]]:
    """The same by the class and by a list."""
    totals = MessageTotals()
    for run in runs:
        totals.add(run)
    return totals, list(accumulate(chain.from_iterable(runs), initial=0))


def everything(totals: MessageTotals) -> list[int]:
    return [totals.before(entry) for entry in range(len(totals))]


@given(counts)
def test_totals_are_the_sums_of_the_counts(runs: list[list[int]]) -> None:
    totals, expected = totals_of(runs)
    assert everything(totals) == expected
    assert totals.all == expected[-1]
    assert totals == MessageTotals(expected) == MessageTotals(array("Q", expected))
    assert totals.is_plain or expected != list(range(len(expected)))


@given(counts, st.data())
def test_a_part_of_them_is_an_array(runs: list[list[int]], data: st.DataObject) -> None:
    totals, expected = totals_of(runs)
    start = data.draw(st.integers(0, len(expected)))
    stop = data.draw(st.integers(start, len(expected)))
    assert totals.cut(start, stop) == array("Q", expected[start:stop])


@given(counts, st.data())
def test_what_is_dropped_can_come_again(runs: list[list[int]], data: st.DataObject) -> None:
    totals, expected = totals_of(runs)
    kept = data.draw(st.integers(0, len(expected) - 1))
    totals.keep(kept)
    assert everything(totals) == expected[: kept + 1]
    totals.extend(expected[kept + 1 :])
    assert everything(totals) == expected


@given(counts, st.data())
def test_messages_of_a_lost_entry_count_after_it(
    runs: list[list[int]], data: st.DataObject
) -> None:
    totals, expected = totals_of(runs)
    entry = data.draw(st.integers(0, len(expected) - 1))
    totals.add_lost(entry, 7)
    assert everything(totals) == expected[: entry + 1] + [t + 7 for t in expected[entry + 1 :]]


def test_entries_of_one_message_each_take_no_memory() -> None:
    totals = MessageTotals()
    for _ in range(1000):
        totals.add([1] * 1000)
    assert totals.is_plain and totals.all == 1_000_000
    assert len(totals._later) == 0
