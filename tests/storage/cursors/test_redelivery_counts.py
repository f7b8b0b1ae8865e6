"""Redelivery counts against a dictionary, and how little they take."""

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from effort import examples, part_of
from magnetar_storage.cursors.redelivery_counts import FEW, MOST, SIZE, RedeliveryCounts

MANY = 1_000_000
SCATTERED = part_of(300_000)
PAGES = 4
places = st.one_of(
    st.integers(0, PAGES * SIZE),
    st.builds(
        lambda page, near: max(0, page * SIZE + near), st.integers(0, PAGES), st.integers(-3, 3)
    ),
)
lengths = st.sampled_from([0, 1, 2, 100, FEW // 2, FEW, FEW + 1, SIZE - 1, SIZE, 2 * SIZE])


class Counting(RuleBasedStateMachine):
    """Everything that a cursor does with them."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = RedeliveryCounts()
        self.model: dict[int, int] = {}

    @initialize(near=st.sampled_from([0, 1, MOST - 2, MOST - 1, MOST, 70_000]), length=lengths)
    def begin(self, near: int, length: int) -> None:
        for offset in range(SIZE - 2, SIZE - 2 + length) if near else ():
            self.counts.raise_to(offset, near)
            self.model[offset] = near

    @rule(start=places, length=lengths)
    def raise_range(self, start: int, length: int) -> None:
        self.counts.raise_by_one(start, start + length)
        for offset in range(start, start + length):
            self.model[offset] = self.model.get(offset, 0) + 1

    @rule(start=places, step=st.integers(2, 50), number=st.integers(1, 300))
    def raise_scattered(self, start: int, step: int, number: int) -> None:
        for offset in range(start, start + step * number, step):
            self.counts.raise_by_one(offset, offset + 1)
            self.model[offset] = self.model.get(offset, 0) + 1

    @rule(offset=places, count=st.sampled_from([1, 2, MOST - 1, MOST, MOST + 1, 1 << 31]))
    def raise_to(self, offset: int, count: int) -> None:
        self.counts.raise_to(offset, count)
        self.model[offset] = max(self.model.get(offset, 0), count)

    @rule(start=places, length=lengths)
    def drop(self, start: int, length: int) -> None:
        self.counts.drop(start, start + length)
        self.model = {o: n for o, n in self.model.items() if not start <= o < start + length}

    @rule(start=places, step=st.integers(2, 50), number=st.integers(1, 300))
    def drop_scattered(self, start: int, step: int, number: int) -> None:
        for offset in range(start, start + step * number, step):
            self.counts.drop(offset, offset + 1)
            self.model.pop(offset, None)

    @rule(start=places, length=lengths)
    def ask(self, start: int, length: int) -> None:
        stop = start + length
        found = [(o, self.model[o]) for o in range(start, stop) if o in self.model]
        assert list(self.counts.items_in(start, stop)) == found
        assert self.counts.any_in(start, stop) == bool(found)
        for offset in (start, stop):
            assert self.counts.get(offset) == self.model.get(offset, 0)
            assert (offset in self.counts) == (offset in self.model)

    @rule()
    def clear(self) -> None:
        self.counts.clear()
        self.model.clear()

    @invariant()
    def same(self) -> None:
        assert list(self.counts.items()) == sorted(self.model.items())
        assert (len(self.counts), bool(self.counts)) == (len(self.model), bool(self.model))
        large = {offset: count for offset, count in self.model.items() if count >= MOST}
        assert self.counts._large == large
        assert all(page.size for page in self.counts._pages.values())


Counting.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=20)
TestCounting = Counting.TestCase


def test_they_compare_as_a_dictionary() -> None:
    counts = RedeliveryCounts()
    counts.raise_by_one(3, 5)
    counts.raise_by_one(4, 5)
    assert counts == {3: 1, 4: 2} and list(counts) == [3, 4]
    assert (counts.get(4), counts.get(5), counts.get(5, 7)) == (2, 0, 7)


def test_an_empty_range_has_no_counts() -> None:
    counts = RedeliveryCounts()
    counts.raise_by_one(0, 1 << 17)
    assert counts.any_in(65537, 65538) and not counts.any_in(65537, 65537)


def test_nothing_is_dropped_of_an_empty_range() -> None:
    counts = RedeliveryCounts()
    counts.raise_by_one(0, FEW + 1)
    counts.drop(100, 100)
    assert counts.get(100) == 1 and len(counts) == FEW + 1


def bytes_of(fill: Callable[[RedeliveryCounts], None]) -> int:
    tracemalloc.start()
    counts = RedeliveryCounts()
    fill(counts)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return taken


@pytest.mark.parametrize(("apart", "each"), [(2, 3), (3, 4), (10, 11), (100, 9), (1000, 19)])
def test_scattered_ones_take_some_bytes_each(apart: int, each: int) -> None:
    def fill(counts: RedeliveryCounts) -> None:
        for offset in range(0, SCATTERED * apart, apart):
            counts.raise_by_one(offset, offset + 1)

    assert bytes_of(fill) < SCATTERED * each


def test_a_million_redelivered_together_take_almost_nothing() -> None:
    def fill(counts: RedeliveryCounts) -> None:
        for start in range(0, MANY, 5000):
            counts.raise_by_one(start, start + 5000)
        counts.raise_by_one(0, MANY)

    assert bytes_of(fill) < 50_000


def test_bytes_are_given_back_when_most_are_acknowledged() -> None:
    def fill(counts: RedeliveryCounts) -> None:
        counts.raise_by_one(0, MANY)
        for start in range(0, MANY, 1000):
            counts.drop(start + 1, start + 1000)

    assert bytes_of(fill) < MANY // 1000 * 40
