"""Stored offsets and the ranges between them."""

import json
from collections.abc import Sequence
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_magnetar.source.offsets import Mean, Offset, Range, Start, ranges

T = TypeVar("T")

positions = st.tuples(st.integers(-1, 50), st.integers(-1, 50))
topics = st.sampled_from(["a", "b", "c", "d"])
maps = st.dictionaries(topics, positions)
starts = st.dictionaries(topics, st.builds(Start, positions, st.integers(0, 3)))
ends = st.dictionaries(topics, st.lists(positions, min_size=1, max_size=3))
means = st.dictionaries(topics, st.builds(Mean, st.integers(0, 9), st.integers(0, 9)))


def reverse(found: dict[str, T]) -> dict[str, T]:
    return dict(reversed(found.items()))


@given(maps, starts, ends, means)
def test_an_offset_survives_storage_as_sorted_text(
    last: dict[str, tuple[int, int]],
    began: dict[str, Start],
    seg: dict[str, Sequence[tuple[int, int]]],
    mean: dict[str, Mean],
) -> None:
    offset = Offset(last, began, seg, mean)
    text = json.dumps(offset.to_json())
    assert Offset.from_json(json.loads(text)) == offset
    assert text == json.dumps(offset.to_json(), sort_keys=True)
    reordered = Offset(reverse(last), reverse(began), reverse(seg), reverse(mean))
    assert json.dumps(reordered.to_json()) == text


def test_the_form_is_documented() -> None:
    offset = Offset(
        {"t": (14, 1200)},
        {"t": Start((12, 86), 3), "u": Start((12, 87))},
        {"t": [(12, 4999), (13, 4999)]},
        {"t": Mean(100, 5000)},
    )
    assert offset.to_json() == {
        "v": 1,
        "p": {"t": [14, 1200]},
        "init": {"t": [12, 87, 3], "u": [12, 87]},
        "seg": {"t": [[12, 4999], [13, 4999]]},
        "mean": {"t": [100, 5000]},
    }
    assert Offset().to_json() == {"v": 1}


@pytest.mark.parametrize(
    "stored", [{"p": {"t": 3}}, {"p": {"t": [1]}}, {"init": {"t": [1, 2, 3, 4]}}, {"seg": 4}]
)
def test_damage_is_named(stored: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="is damaged"):
        Offset.from_json({"v": 1, **stored})


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
        new = {t: first.get(t, (-1, -1)) for t in last if t not in offset.positions}
        began = {topic: Start(position) for topic, position in new.items()}
        end = offset.advanced(last, began)
        for wanted in ranges(offset, end):
            assert wanted.start < wanted.end
            assert wanted.start == reached.get(wanted.topic, new.get(wanted.topic))
        for topic, position in end.positions.items():
            assert position >= offset.positions.get(topic, position), "never back"
        reached.update(end.positions)
        offset = end


def test_ranges_depend_on_the_offsets_alone() -> None:
    start = Offset({"a": (1, 5), "b": (2, 0)})
    end = Offset({"a": (1, 9), "b": (2, 0), "c": (7, 3)}, {"c": Start((7, -1))})
    expected = [Range("a", (1, 5), (1, 9)), Range("c", (7, -1), (7, 3))]
    assert ranges(start, end) == expected
    stored = Offset.from_json(json.loads(json.dumps(end.to_json())))
    assert ranges(start, stored) == expected


def test_a_partition_without_beginning_is_damage() -> None:
    with pytest.raises(ValueError, match="no start position of a:"):
        ranges(Offset(), Offset({"a": (1, 1)}))


def test_nothing_new_is_the_same_offset() -> None:
    offset = Offset({"a": (1, 5)}, {"a": Start((1, 2))})
    assert offset.advanced({"a": (1, 5)}, {}) is offset
    assert offset.advanced({"a": (-1, -1)}, {}) is offset
    assert offset.advanced({}, {}) is offset


def test_a_latest_start_is_pinned_even_where_nothing_is() -> None:
    pinned = Offset().advanced({"a": (-1, -1)}, {"a": Start((-1, -1))})
    assert pinned.to_json() == {"v": 1, "p": {"a": [-1, -1]}, "init": {"a": [-1, -1]}}
    assert ranges(Offset(), pinned) == []


def test_the_first_entry_is_read_in_part_until_it_is_read() -> None:
    pinned = Offset().advanced({}, {"a": Start((3, 4), 2)})
    assert ranges(Offset(), pinned) == []
    read = pinned.advanced({"a": (3, 9)}, {})
    assert ranges(pinned, read) == [Range("a", (3, 4), (3, 9), skipped=2)]
    assert ranges(Offset(), Offset({"a": (3, 9)}, {"a": Start((3, 4), 2)})) == ranges(pinned, read)
    assert ranges(read, read.advanced({"a": (3, 12)}, {})) == [Range("a", (3, 9), (3, 12))]


def test_ledgers_that_end_in_the_batch_are_kept() -> None:
    start = Offset({"a": (1, 5)})
    known = {"a": [(1, 9), (2, 4), (3, 7)], "b": [(1, 1)]}
    end = start.advanced({"a": (2, 4)}, {}, known, {"a": Mean(10, 100)})
    assert end.ledger_ends == {"a": [(1, 9), (2, 4)]}
    expected = Range("a", (1, 5), (2, 4), 0, 0, ((1, 9), (2, 4)), Mean(10, 100))
    assert ranges(start, end) == [expected]


def test_messages_that_a_start_skips_stay_skipped_while_another_partition_moves() -> None:
    began = {"a": Start((5, 9), 3), "b": Start((1, -1))}
    first = Offset().advanced({"a": (5, 9), "b": (1, 0)}, began)
    second = first.advanced({"b": (1, 5)}, {})
    assert second.start_of("a") == Start((5, 9), 3)
    third = second.advanced({"a": (5, 10)}, {})
    (wanted,) = [one for one in ranges(second, third) if one.topic == "a"]
    assert (wanted.start, wanted.skipped) == ((5, 9), 3)
    assert third.began_at == {}
