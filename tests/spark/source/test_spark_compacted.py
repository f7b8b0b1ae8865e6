"""Reading the compacted view of topics: the last message of each key."""

import asyncio
from collections.abc import Sequence
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import InputPartition

import magnetar
from compacting import compact
from effort import examples
from pyspark_magnetar.source import range_reader
from pyspark_magnetar.source.reader import BatchReader, StreamReader
from running_broker import RunningBroker
from spark.source_driver import ALL, batch, changed, new_topic, seal, stream, trim

Pair = tuple[str, bytes | None]
"""A key and its value; None deletes the key."""

PAIRS = st.tuples(st.sampled_from("abcde"), st.none() | st.integers(0, 99).map(lambda n: b"%d" % n))
BATCHES = st.lists(st.lists(PAIRS, min_size=1, max_size=4), min_size=1, max_size=6)


def send_pairs(broker: RunningBroker, topic: str, batches: Sequence[Sequence[Pair]]) -> None:
    """Each list becomes one entry."""

    async def run() -> None:
        async with magnetar.connect(broker.service_url) as client:
            producer = await client.producer(topic)
            for pairs in batches:
                await producer.send_batch(
                    [
                        magnetar.Outgoing(value or b"", key=key, is_null=value is None)
                        for key, value in pairs
                    ]
                )

    asyncio.run(run())


def latest(batches: Sequence[Sequence[Pair]]) -> list[Pair]:
    """What compaction keeps, in its order."""
    pairs = list(chain.from_iterable(batches))
    last = {key: number for number, (key, _) in enumerate(pairs)}
    return [pairs[number] for number in sorted(last.values()) if pairs[number][1] is not None]


def pairs_of(reader: BatchReader | StreamReader, splits: Sequence[InputPartition]) -> list[Pair]:
    return [
        (row["__key"].decode(), row["value"])
        for split in splits
        for found in reader.read(split)
        for row in found.to_pylist()
    ]


@settings(max_examples=examples(40), deadline=None)
@given(BATCHES, BATCHES, st.sampled_from(["1", "3"]))
def test_a_batch_read_has_the_last_message_of_each_key(
    broker: RunningBroker, old: list[list[Pair]], new: list[list[Pair]], tasks: str
) -> None:
    topic = new_topic()
    for batches in (old, new):
        send_pairs(broker, topic, batches)
        seal(broker, topic)
    compact(broker, topic)
    reader = batch(broker, topic, readCompacted="true", minPartitions=tasks)
    assert pairs_of(reader, reader.partitions()) == latest([*old, *new])


def test_messages_behind_the_last_compaction_all_come(broker: RunningBroker) -> None:
    topic = new_topic()
    send_pairs(broker, topic, [[("a", b"1"), ("b", b"2")], [("a", b"3")]])
    compact(broker, topic)
    send_pairs(broker, topic, [[("b", b"4")], [("b", b"5")]])
    reader = batch(broker, topic, readCompacted="true")
    whole = [("b", b"2"), ("a", b"3"), ("b", b"4"), ("b", b"5")]
    assert pairs_of(reader, reader.partitions()) == whole


def test_without_the_option_replaced_messages_come(broker: RunningBroker) -> None:
    topic = new_topic()
    send_pairs(broker, topic, [[("a", b"1")], [("a", b"2")]])
    compact(broker, topic)
    reader = batch(broker, topic)
    assert pairs_of(reader, reader.partitions()) == [("a", b"1"), ("a", b"2")]


def test_the_view_remains_when_the_topic_has_deleted_its_messages(broker: RunningBroker) -> None:
    topic = new_topic()
    send_pairs(broker, topic, [[("a", b"1"), ("b", b"2")], [("a", b"3")]])
    seal(broker, topic)
    compact(broker, topic)
    trim(broker, topic)
    plain = batch(broker, topic)
    assert pairs_of(plain, plain.partitions()) == []
    reader = batch(broker, topic, readCompacted="true")
    assert pairs_of(reader, reader.partitions()) == [("b", b"2"), ("a", b"3")]


def test_an_empty_view(broker: RunningBroker) -> None:
    topic = new_topic()
    send_pairs(broker, topic, [[("a", b"1")], [("a", None)]])
    compact(broker, topic)
    reader = batch(broker, topic, readCompacted="true")
    assert pairs_of(reader, reader.partitions()) == []


def test_the_end_is_compacted_away_between_plan_and_task(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_reader, "PATIENCE_S", 0.1)
    topic = new_topic()
    send_pairs(broker, topic, [[("a", b"1")], [("b", b"2")], [("b", None)]])
    reader = batch(broker, topic, readCompacted="true")
    splits = reader.partitions()
    compact(broker, topic)
    assert pairs_of(reader, splits) == [("a", b"1")]


def test_a_ledger_is_compacted_away_between_plan_and_task(broker: RunningBroker) -> None:
    topic = new_topic()
    for pair in (("a", b"1"), ("a", b"2"), ("b", b"3")):
        send_pairs(broker, topic, [[pair]])
        seal(broker, topic)
    reader = batch(broker, topic, readCompacted="true")
    splits = reader.partitions()
    compact(broker, topic)
    trim(broker, topic)
    assert pairs_of(reader, splits) == [("a", b"2"), ("b", b"3")]


def test_a_stream_goes_on_behind_what_was_compacted_away(broker: RunningBroker) -> None:
    topic = new_topic()
    send_pairs(broker, topic, [[("a", b"1")], [("b", b"2")], [("b", None)]])
    reader = stream(broker, topic, readCompacted="true")
    start = reader.initialOffset()
    first = changed(reader, start)
    seen = pairs_of(reader, reader.partitions(start, first))
    assert seen == [("a", b"1"), ("b", b"2"), ("b", None)]
    seal(broker, topic)
    compact(broker, topic)
    trim(broker, topic)
    # The view ends before the query's position now, which is no loss.
    again = stream(broker, topic, readCompacted="true")
    assert again.latestOffset(first, ALL) == first
    send_pairs(broker, topic, [[("c", b"3")]])
    second = changed(again, first)
    assert pairs_of(again, again.partitions(first, second)) == [("c", b"3")]


def test_the_name_of_the_java_client_is_known(broker: RunningBroker) -> None:
    topic = new_topic()
    send_pairs(broker, topic, [[("a", b"1")], [("a", b"2")]])
    compact(broker, topic)
    reader = batch(broker, topic, **{"pulsar.reader.readCompacted": "true"})
    assert pairs_of(reader, reader.partitions()) == [("a", b"2")]
