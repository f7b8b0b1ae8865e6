"""Filters that Spark hands to a batch read: the same rows, from fewer tasks."""

from operator import eq, ge, gt, le, lt
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from effort import examples
from pyspark_magnetar.source.offsets import Range
from pyspark_magnetar.source.pushed_filters import PushedFilters
from pyspark_magnetar.source.reader import FilteringBatchReader
from running_broker import RunningBroker
from spark.source_driver import admin, batch, new_topic, numbered, send, values

COMPARED = {
    EqualTo: eq, GreaterThan: gt, GreaterThanOrEqual: ge, LessThan: lt, LessThanOrEqual: le,
}  # fmt: skip
LEDGERS = st.integers(0, 8)
NULL = st.none()
TOPICS = [f"persistent://public/default/t-partition-{number}" for number in range(3)]
COMPARISONS = st.builds(
    lambda kind, value: kind(("__ledger",), value), st.sampled_from(list(COMPARED)), LEDGERS | NULL
)
VALUES = {
    "__ledger": LEDGERS,
    "__partition": st.integers(-1, 3),
    "__topic": st.sampled_from(TOPICS),
}
MEMBERS = st.one_of(
    *(
        st.builds(In, st.just((column,)), st.lists(found | NULL, min_size=1).map(tuple))
        for column, found in VALUES.items()
    ),
    st.builds(EqualTo, st.just(("__topic",)), st.sampled_from(TOPICS)),
    st.builds(EqualTo, st.just(("__partition",)), st.integers(0, 2)),
    st.just(IsNotNull(("__ledger",))),
    st.just(EqualTo(("value", "field"), 1)),
)
RANGES = st.builds(
    lambda topic, start, more: Range(topic, (start, 5), (start + more, 3)),
    st.sampled_from(TOPICS),
    LEDGERS,
    st.integers(0, 3),
)


def holds(one: Filter, row: dict[str, Any]) -> bool:
    """Whether a filter holds for a row; those of other columns do."""
    column = one.attribute[0] if len(one.attribute) == 1 else ""  # type: ignore[attr-defined]
    if column not in row or isinstance(one, IsNotNull):
        return True
    if isinstance(one, In):
        return row[column] in one.value
    if one.value is None:  # type: ignore[attr-defined]
        return False
    return bool(COMPARED[type(one)](row[column], one.value))  # type: ignore[attr-defined]


@settings(max_examples=examples(300))
@given(st.lists(st.one_of(COMPARISONS, MEMBERS), max_size=4), RANGES)
def test_a_range_with_a_row_that_passes_is_kept(filters: list[Filter], wanted: Range) -> None:
    # A message that begins in the range may end in a later ledger, which is that of its id.
    rows = [
        {"__topic": wanted.topic, "__partition": int(wanted.topic[-1]), "__ledger": ledger}
        for ledger in range(wanted.start[0], wanted.end[0] + 3)
    ]
    if any(all(holds(one, row) for one in filters) for row in rows):
        assert PushedFilters.of(filters).keeps(wanted)


@pytest.mark.parametrize(
    "filters",
    [
        [EqualTo(("__partition",), 3)],
        [In(("__topic",), ("persistent://public/default/other",))],
        [LessThan(("__ledger",), 4)],
        [EqualTo(("__partition",), 1), EqualTo(("__partition",), 2)],
        [In(("__ledger",), (1, 3))],
        [In(("__ledger",), (None, 3))],
        [In(("__partition",), (None,))],
        [EqualTo(("__topic",), None)],
    ],
)
def test_a_range_without_such_rows_is_left_out(filters: list[Filter]) -> None:
    assert not PushedFilters.of(filters).keeps(Range(TOPICS[1], (4, 1), (7, 2)))


def test_partitions_that_are_not_wanted_are_not_read(broker: RunningBroker) -> None:
    topic = new_topic()
    admin(broker, "PUT", f"{topic.rsplit('/', 1)[1]}/partitions", b"3")
    for number in range(3):
        first = 10 * number
        send(broker, f"{topic}-partition-{number}", numbered(first, first + 10))
    reader = batch(broker, topic, filterPushdown="true")
    assert isinstance(reader, FilteringBatchReader)
    filters: list[Filter] = [EqualTo(("__partition",), 1)]
    assert list(reader.pushFilters(filters)) == filters  # Spark evaluates it again
    splits = reader.partitions()
    assert {one.wanted.topic for one in splits} == {f"{topic}-partition-1"}
    assert values(reader, splits) == numbered(10, 20)


@pytest.mark.parametrize("column", ["__topic", "__ledger"])
def test_a_filter_names_what_the_rows_have(broker: RunningBroker, column: str) -> None:
    topics = [new_topic(), new_topic()]
    for number, topic in enumerate(topics):
        send(broker, topic, numbered(10 * number, 10 * number + 5))

    def rows(*filters: Filter) -> dict[bytes, Any]:
        reader = batch(broker, "", topics=",".join(topics), filterPushdown="true", metadata="all")
        assert isinstance(reader, FilteringBatchReader)
        list(reader.pushFilters(list(filters)))
        found = [record for split in reader.partitions() for record in reader.read(split)]
        return {row["value"]: row[column] for one in found for row in one.to_pylist()}

    everything = rows()
    assert len(everything) == 10
    wanted = everything[b"0"]
    passed = {value: has for value, has in everything.items() if has == wanted}
    assert rows(EqualTo((column,), wanted)) == passed
    assert len(passed) == 5


def test_without_the_option_spark_is_not_asked_for_filters(broker: RunningBroker) -> None:
    topic = new_topic()
    send(broker, topic, numbered(0, 3))
    # Spark refuses queries of a reader that has its own `pushFilters`, unless a setting is set.
    assert type(batch(broker, topic)).pushFilters is DataSourceReader.pushFilters
