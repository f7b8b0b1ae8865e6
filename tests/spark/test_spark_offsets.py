"""Stored offsets and the ranges between them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_magnetar.offsets import Offset, Range, ranges
from pyspark_magnetar.tail import DataLoss, require_kept

positions = st.tuples(st.integers(-1, 50), st.integers(-1, 50))
topics = st.sampled_from(["a", "b", "c", "d"])
maps = st.dictionaries(topics, positions)


@given(maps, maps)
def test_an_offset_survives_storage_as_sorted_text(
    last: dict[str, tuple[int, int]], began: dict[str, tuple[int, int]]
) -> None:
    offset = Offset(last, began)
    text = json.dumps(offset.to_json())
    assert Offset.from_json(json.loads(text)) == offset
    assert text == json.dumps(offset.to_json(), sort_keys=True)
    reordered = Offset(dict(reversed(last.items())), dict(reversed(began.items())))
    assert json.dumps(reordered.to_json()) == text


def test_the_form_is_documented() -> None:
    offset = Offset({"t": (14, 1200)}, {"t": (12, 87)})
    assert offset.to_json() == {"v": 1, "p": {"t": [14, 1200]}, "init": {"t": [12, 87]}}
    assert Offset().to_json() == {"v": 1}


@pytest.mark.parametrize("stored", [{}, {"v": 2}, {"p": {}}])
def test_offsets_of_another_version_are_refused(stored: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="knows version 1"):
        Offset.from_json(stored)


@given(st.lists(maps, min_size=1, max_size=8), maps)
def test_consecutive_ranges_leave_nothing_out_and_repeat_nothing(
    readings: list[dict[str, tuple[int, int]]], first: dict[str, tuple[int, int]]
) -> None:
    """Whatever the broker answers, each batch begins where the one before ended."""
    offset = Offset()
    reached: dict[str, tuple[int, int]] = {}
    for last in readings:
        began = {t: first.get(t, (-1, -1)) for t in last if t not in offset.positions}
        end = offset.advanced(last, began)
        for wanted in ranges(offset, end):
            assert wanted.start < wanted.end
            assert wanted.start == reached.get(wanted.topic, began.get(wanted.topic))
        for topic, position in end.positions.items():
            assert position >= offset.positions.get(topic, position), "never back"
        reached.update(end.positions)
        offset = end


def test_ranges_depend_on_the_offsets_alone() -> None:
    start = Offset({"a": (1, 5), "b": (2, 0)})
    end = Offset({"a": (1, 9), "b": (2, 0), "c": (7, 3)}, {"c": (7, -1)})
    expected = [Range("a", (1, 5), (1, 9)), Range("c", (7, -1), (7, 3))]
    assert ranges(start, end) == expected
    stored = Offset.from_json(json.loads(json.dumps(end.to_json())))
    assert ranges(start, stored) == expected


def test_a_partition_without_beginning_is_damage() -> None:
    with pytest.raises(ValueError, match="no start position of a:"):
        ranges(Offset(), Offset({"a": (1, 1)}))


def test_nothing_new_is_the_same_offset() -> None:
    offset = Offset({"a": (1, 5)}, {"a": (1, 2)})
    assert offset.advanced({"a": (1, 5)}, {}) is offset
    assert offset.advanced({"a": (-1, -1)}, {}) is offset
    assert offset.advanced({}, {}) is offset


def test_a_latest_start_is_pinned_even_where_nothing_is() -> None:
    pinned = Offset().advanced({"a": (-1, -1)}, {"a": (-1, -1)})
    assert pinned.to_json() == {"v": 1, "p": {"a": [-1, -1]}, "init": {"a": [-1, -1]}}
    assert ranges(Offset(), pinned) == []


def test_a_topic_that_ends_earlier_is_another_topic() -> None:
    require_kept("t", (3, 5), (3, 5))
    require_kept("t", (3, 5), (-1, -1))
    with pytest.raises(DataLoss, match=r"t ends at 3:4.*new checkpoint"):
        require_kept("t", (3, 5), (3, 4))
