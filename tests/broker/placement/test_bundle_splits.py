"""Where bundles are divided, and which one is the largest."""

from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from magnetar_broker.placement.bundle_splits import (
    ALGORITHMS,
    POSITIONS,
    RANGE,
    TOPICS,
    hashes_of_split,
    largest,
)
from magnetar_broker.placement.bundles import LAST, BundleRefused, Bundles

HASHES = st.integers(0, LAST) | st.integers(0, 9) | st.integers(LAST - 9, LAST)
BUNDLES = st.sets(HASHES, max_size=9).map(lambda marks: Bundles((*sorted({0, *marks, LAST}),)))
TOPIC_HASHES = st.lists(HASHES, max_size=30)
ALL = Bundles.even(1)


def bundle_in(bundles: Bundles, draw: int) -> str:
    return bundles.ranges[draw % len(bundles)]


def inside(bundles: Bundles, bundle: str, topics: Sequence[int]) -> list[int]:
    return [value for value in topics if bundles.ranges[bundles.index_at(value)] == bundle]


@given(BUNDLES, st.integers(0), TOPIC_HASHES, st.lists(HASHES, min_size=1, max_size=5))
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_split_leaves_the_other_bundles_as_they_are(
    algorithm: str, bundles: Bundles, draw: int, topics: list[int], positions: list[int]
) -> None:
    bundle = bundle_in(bundles, draw)
    where = hashes_of_split(algorithm, bundle, topics, positions)
    try:
        parted = bundles.split(bundle, where(bundles))
    except BundleRefused:
        return
    others = [other for other in bundles.ranges if other != bundle]
    assert set(others) < set(parted.ranges) and bundle not in parted
    assert len(parted) == len(bundles) + len(where(bundles)) > len(bundles)


@given(BUNDLES, st.integers(0))
def test_halves_are_of_one_size(bundles: Bundles, draw: int) -> None:
    bundle = bundle_in(bundles, draw)
    low, high = bundles.ends(bundle)
    if high - low < 2:
        with pytest.raises(BundleRefused, match="too small"):
            hashes_of_split(RANGE, bundle)(bundles)
        return
    [middle] = hashes_of_split(RANGE, bundle)(bundles)
    assert low < middle < high and abs((middle - low) - (high - middle)) <= 1


def possible(bundles: Bundles, bundle: str, topics: Sequence[int]) -> list[int]:
    """By how much the numbers of topics differ, for every place where the bundle can be divided.

    Only places right behind or before a topic make a difference.
    """
    low, high = bundles.ends(bundle)
    found = inside(bundles, bundle, topics)
    places = {place for value in found for place in (value, value + 1) if low < place < high}
    sides = [sum(1 for value in found if value < place) for place in places]
    return [abs(2 * below - len(found)) for below in sides if 0 < below < len(found)]


@given(BUNDLES, st.integers(0), TOPIC_HASHES)
def test_topics_are_divided_as_evenly_as_they_can_be(
    bundles: Bundles, draw: int, topics: list[int]
) -> None:
    bundle = bundle_in(bundles, draw)
    where = hashes_of_split(TOPICS, bundle, topics)
    differences = possible(bundles, bundle, topics)
    if not differences:
        with pytest.raises(BundleRefused, match="needs topics with two"):
            where(bundles)
        return
    [place] = where(bundles)
    found = inside(bundles, bundle, topics)
    below = sum(1 for value in found if value < place)
    assert abs(2 * below - len(found)) == min(differences)


@given(st.lists(HASHES, min_size=1, max_size=9))
def test_positions_are_taken_as_they_are(positions: list[int]) -> None:
    assume(all(0 < value < LAST for value in positions))
    found = hashes_of_split(POSITIONS, ALL.ranges[0], (), positions)(ALL)
    assert found == sorted(set(positions))
    assert ALL.split(ALL.ranges[0], found).boundaries == (0, *found, LAST)


@pytest.mark.parametrize("outside", [-1, 0, 2**31, LAST, 2**40])
def test_a_position_outside_is_refused(outside: int) -> None:
    bundles = Bundles.even(2)
    where = hashes_of_split(POSITIONS, bundles.ranges[0], (), [5, outside])
    with pytest.raises(BundleRefused, match="is not inside of bundle 0x00000000_0x80000000"):
        bundles.split(bundles.ranges[0], where(bundles))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_bundle_that_is_not_there_is_refused(algorithm: str) -> None:
    with pytest.raises(BundleRefused, match="there is no bundle nonsense"):
        ALL.split("nonsense", hashes_of_split(algorithm, "nonsense", [1, 2], [5])(ALL))


@given(BUNDLES, TOPIC_HASHES)
def test_the_largest_has_most_topics_and_then_most_hashes(
    bundles: Bundles, topics: list[int]
) -> None:
    found = largest(bundles, topics)

    def size(bundle: str) -> tuple[int, int]:
        low, high = bundles.ends(bundle)
        return len(inside(bundles, bundle, topics)), high - low

    assert size(found) == max(map(size, bundles.ranges))
