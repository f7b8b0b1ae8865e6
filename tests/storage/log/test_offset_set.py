"""Sets of offsets against a plain set of integers."""

import runpy
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import magnetar_storage
from effort import examples
from magnetar_storage.log.offset_set import FULL, SIZE, OffsetSet, next_in_neither

FAR = 1 << 40
edges = st.one_of(
    st.integers(-3, 3 * SIZE),
    st.builds(lambda chunk, off: chunk * SIZE + off, st.integers(0, 3), st.integers(-2, 2)),
)
"""Where things are tried: anywhere, and often where one chunk ends and the next begins."""
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), edges, edges),
        st.tuples(st.just("one"), edges, st.just(0)),
        st.tuples(st.just("bits"), edges, st.integers(0, 1 << 70) | st.just(FULL)),
        st.tuples(st.just("remove"), edges, edges),
        st.tuples(st.just("remove_below"), edges, st.just(0)),
    ),
    max_size=12,
)
Steps = list[tuple[str, int, int]]


def apply(steps: Steps) -> tuple[OffsetSet, set[int]]:
    offsets, model = OffsetSet(), set[int]()
    for step, value, other in steps:
        if step == "add":
            offsets.add(value, other)
            model |= set(range(value, other))
        elif step == "one":
            offsets.add(value, value + 1)
            model.add(value)
        elif step == "bits":
            offsets.add_bits(value, other)
            model |= {value + i for i in range(other.bit_length()) if other >> i & 1}
        elif step == "remove":
            offsets.remove(value, other)
            model -= set(range(value, other))
        else:
            offsets.remove_below(value)
            model = {one for one in model if one >= value}
    return offsets, model


def unfolded(ranges: Iterator[tuple[int, int]]) -> list[int]:
    """The offsets of ranges that are in order, not empty, and do not touch."""
    found = list(ranges)
    assert all(start < stop for start, stop in found)
    assert all(stop < start for (_, stop), (start, _) in pairwise(found))
    return [one for start, stop in found for one in range(start, stop)]


@given(steps)
@settings(max_examples=examples(150))
def test_the_same_offsets_are_in_it_as_in_a_set(steps: Steps) -> None:
    offsets, model = apply(steps)
    assert unfolded(iter(offsets)) == sorted(model)
    assert [one for one in range(-5, 4 * SIZE + 5) if one in offsets] == sorted(model)
    assert offsets.covered() == len(model)
    assert bool(offsets) == bool(model)
    if model:
        assert offsets.first == next(iter(offsets))


@given(steps, edges, edges)
@settings(max_examples=examples(250))
def test_what_is_between(steps: Steps, start: int, stop: int) -> None:
    offsets, model = apply(steps)
    between = range(start, stop)
    assert unfolded(offsets.present(start, stop)) == [one for one in between if one in model]
    assert unfolded(offsets.missing(start, stop)) == [one for one in between if one not in model]
    assert offsets.count(start, stop) == sum(one in model for one in between)
    assert offsets.next_present(start) == min((o for o in model if o >= start), default=None)
    missing = start
    while missing in model:
        missing += 1
    assert offsets.next_missing(start) == missing


@given(steps, steps)
def test_equal_when_the_offsets_are(one: Steps, other: Steps) -> None:
    (left, model), (right, other_model) = apply(one), apply(other)
    assert (left == right) == (model == other_model)
    rebuilt = OffsetSet()
    for start, stop in left:
        rebuilt.add(start, stop)
    assert rebuilt == left


@given(steps, st.integers(0, 3))
def test_parts_are_all_of_it(steps: Steps, most_runs: int) -> None:
    offsets, _ = apply(steps)
    rebuilt = OffsetSet()
    ranges, bitmaps = offsets.parts(most_runs)
    for start, stop in ranges:
        rebuilt.add(start, stop)
    for offset, bits in bitmaps:
        assert bits.bit_count() > most_runs
        rebuilt.add_bits(offset, bits)
    assert rebuilt == offsets


def test_far_stretches_cost_nothing() -> None:
    offsets = OffsetSet()
    offsets.add(5, FAR)
    offsets.add(FAR + 10, 2 * FAR)
    assert list(offsets) == [(5, FAR), (FAR + 10, 2 * FAR)]
    assert offsets.covered() == 2 * FAR - 15
    assert offsets.next_missing(6) == FAR
    assert offsets.next_present(FAR) == FAR + 10
    assert list(offsets.missing(0, 3 * FAR)) == [(0, 5), (FAR, FAR + 10), (2 * FAR, 3 * FAR)]
    offsets.remove(100, 2 * FAR - 1)
    assert list(offsets) == [(5, 100), (2 * FAR - 1, 2 * FAR)]


def test_an_empty_range_adds_and_removes_nothing() -> None:
    offsets = OffsetSet()
    offsets.add(5, 5)
    offsets.add(7, 3)
    assert not offsets
    offsets.add(0, 9)
    offsets.remove(7, 3)
    assert repr(offsets) == "OffsetSet([(0, 9)])"


def test_clear_empties() -> None:
    offsets = OffsetSet()
    offsets.add(1, 3 * SIZE)
    offsets.clear()
    assert not offsets
    assert list(offsets) == []
    assert offsets == OffsetSet()
    assert offsets.next_present(0) is None


@given(steps, steps, edges)
@settings(max_examples=examples(100))
def test_what_is_in_neither_of_two_sets(some: Steps, others: Steps, offset: int) -> None:
    (one, model), (other, other_model) = apply(some), apply(others)
    expected = offset
    while expected in model or expected in other_model:
        expected += 1
    assert next_in_neither(one, other, offset) == expected


def test_sets_that_alternate_are_looked_through_chunk_by_chunk() -> None:
    # From the source: what is compiled cannot be derived from.
    source = runpy.run_path(str(Path(magnetar_storage.__path__[0], "log", "offset_set.py")))
    Set: Any = source["OffsetSet"]

    class Counting(Set):
        asked = 0

        def next_missing(self, offset: int) -> int:
            self.asked += 1
            return int(super().next_missing(offset))

    even, odd, chunks = Counting(), Set(), 10
    bits = FULL // 3  # every second one
    for chunk in range(chunks):
        even.add_bits(chunk * SIZE, bits)
        odd.add_bits(chunk * SIZE, bits << 1 & FULL)
    assert source["next_in_neither"](even, odd, 0) == chunks * SIZE
    assert even.asked <= 2 * chunks + 1


@settings(max_examples=examples(500), deadline=None)
@given(steps)
def test_ranges_are_counted_without_iterating(steps: Steps) -> None:
    offsets, _ = apply(steps)
    assert offsets.runs() == len(list(offsets))


@given(steps, edges)
def test_the_last_offset_that_is_missing(steps: Steps, offset: int) -> None:
    offsets, model = apply(steps)
    expected = offset
    while expected in model:
        expected -= 1
    assert offsets.last_missing(offset) == expected


@given(steps, edges)
def test_a_copy_is_a_set_of_its_own(steps: Steps, offset: int) -> None:
    offsets, model = apply(steps)
    same = offsets.copy()
    assert same == offsets
    same.add(offset, offset + 2 * SIZE)
    same.remove_below(offset)
    assert set(unfolded(iter(offsets))) == model
