"""Ranges against a plain set of integers."""

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from magnetar_storage.log.ranges import RangeSet

small = st.integers(-3, 40)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), small, small),
        st.tuples(st.just("remove"), small, small),
        st.tuples(st.just("remove_below"), small, st.just(0)),
    ),
    max_size=30,
)


def apply(steps: list[tuple[str, int, int]]) -> tuple[RangeSet, set[int]]:
    ranges, model = RangeSet(), set[int]()
    for step, value, stop in steps:
        if step == "add":
            ranges.add(value, stop)
            model |= set(range(value, stop))
        elif step == "remove":
            ranges.remove(value, stop)
            model -= set(range(value, stop))
        else:
            ranges.remove_below(value)
            model = {one for one in model if one >= value}
    return ranges, model


@given(steps)
@settings(max_examples=examples(300))
def test_the_same_integers_are_in_it_as_in_a_set(steps: list[tuple[str, int, int]]) -> None:
    ranges, model = apply(steps)
    assert {one for start, stop in ranges for one in range(start, stop)} == model
    assert [one for one in range(-5, 45) if one in ranges] == sorted(model)
    assert ranges.covered() == len(model)
    assert bool(ranges) == bool(model)


@given(steps)
def test_ranges_are_sorted_disjoint_and_do_not_touch(steps: list[tuple[str, int, int]]) -> None:
    ranges, model = apply(steps)
    flat = [edge for one in ranges for edge in one]
    assert flat == sorted(set(flat))
    assert len(list(ranges)) * 2 == len(flat)
    if model:
        assert ranges.first == next(iter(ranges))
        assert ranges.last == list(ranges)[-1]


@given(steps, small, small)
@settings(max_examples=examples(300))
def test_what_is_between(steps: list[tuple[str, int, int]], start: int, stop: int) -> None:
    ranges, model = apply(steps)
    there = list(ranges.present(start, stop))
    expected = [one for one in range(start, stop) if one in model]
    assert [one for low, high in there for one in range(low, high)] == expected
    assert ranges.next_present(start) == min((o for o in model if o >= start), default=None)
    missing = start
    while missing in model:
        missing += 1
    assert ranges.next_missing(start) == missing


@given(steps, steps)
def test_equal_when_the_integers_are(
    one: list[tuple[str, int, int]], other: list[tuple[str, int, int]]
) -> None:
    (left, model), (right, other_model) = apply(one), apply(other)
    assert (left == right) == (model == other_model)


def test_an_empty_range_adds_nothing() -> None:
    ranges = RangeSet()
    ranges.add(5, 5)
    ranges.add(7, 3)
    assert not ranges
    assert list(ranges) == []


def test_clear_empties() -> None:
    ranges = RangeSet()
    ranges.add(1, 4)
    ranges.clear()
    assert not ranges
    assert ranges == RangeSet()


def test_a_filled_gap_joins_both_neighbours() -> None:
    ranges = RangeSet()
    ranges.add(0, 2)
    ranges.add(4, 6)
    ranges.add(2, 4)
    assert list(ranges) == [(0, 6)]
    assert repr(ranges) == "RangeSet([(0, 6)])"
