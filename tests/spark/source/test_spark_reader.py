"""The source in one process, on a broker: what it plans, reads and refuses."""

from collections import Counter
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition

from pyspark_magnetar.errors import DataLoss, TopicMissing
from running_broker import RunningBroker
from spark.source_driver import (
    ALL,
    admin,
    batch,
    changed,
    following,
    new_topic,
    numbered,
    send,
    stream,
    values,
)


def test_batches_follow_each_other_exactly(broker: RunningBroker) -> None:
    topic = new_topic()
    send(broker, topic, numbered(0, 100))
    reader = stream(broker, topic)
    start = reader.initialOffset()
    assert start == reader.initialOffset() == {"v": 1}
    first = reader.latestOffset(start, ALL)
    assert values(reader, reader.partitions(start, first)) == numbered(0, 100)
    assert reader.latestOffset(first, ALL) is first, "nothing new is the very same offset"
    send(broker, topic, numbered(100, 130))
    found, second = following(reader, first, 30)
    assert found == numbered(100, 130)
    report = reader.reportLatestOffset()
    assert report is not None
    assert report["p"] == second["p"]
    assert report["backlog"]["msgs"] == 0


def test_a_replay_reads_the_same_although_there_is_more(broker: RunningBroker) -> None:
    topic = new_topic()
    send(broker, topic, numbered(0, 50))
    reader = stream(broker, topic)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    send(broker, topic, numbered(50, 90))
    again = stream(broker, topic, start="latest")
    assert values(again, again.partitions(start, end)) == numbered(0, 50)
    found, _ = following(again, end, 40)
    assert found == numbered(50, 90)


def test_latest_means_what_it_meant_at_first(broker: RunningBroker) -> None:
    topic = new_topic()
    send(broker, topic, numbered(0, 10))
    reader = stream(broker, topic, start="latest")
    start = reader.initialOffset()
    pinned = reader.latestOffset(start, ALL)
    assert pinned != start
    assert reader.partitions(start, pinned) == []
    send(broker, topic, numbered(10, 20))
    again = stream(broker, topic, start="latest")
    assert again.partitions(start, pinned) == []
    found, _ = following(again, pinned, 10)
    assert found == numbered(10, 20)


def test_latest_of_an_empty_topic_reads_all_that_comes(broker: RunningBroker) -> None:
    topic = new_topic()
    admin(broker, "PUT", topic.rsplit("/", 1)[1])
    reader = stream(broker, topic, start="latest")
    pinned = reader.latestOffset(reader.initialOffset(), ALL)
    send(broker, topic, numbered(0, 10))
    found, _ = following(reader, pinned, 10)
    assert found == numbered(0, 10)


def test_available_now_stops_at_what_there_was(broker: RunningBroker) -> None:
    topic = new_topic()
    send(broker, topic, numbered(0, 10))
    reader = stream(broker, topic)
    reader.prepareForTriggerAvailableNow()
    send(broker, topic, numbered(10, 20))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert values(reader, reader.partitions(start, end)) == numbered(0, 10)
    assert reader.latestOffset(end, ALL) is end


def test_partitions_that_appear_are_read_from_their_beginning(broker: RunningBroker) -> None:
    topic = new_topic()
    admin(broker, "PUT", f"{topic.rsplit('/', 1)[1]}/partitions", b"2")
    first, second = (f"{topic}-partition-{index}" for index in range(2))
    [known] = send(broker, first, [b"old"])
    send(broker, second, numbered(0, 10))
    reader = stream(broker, topic, start="latest")
    before = {"v": 1, "p": {first: [known.ledger, known.entry]}}
    end = reader.latestOffset(before, ALL)
    assert values(reader, reader.partitions(before, end)) == numbered(0, 10)
    assert list(end["init"]) == [second]


def test_a_batch_read_ends_where_the_topic_ended(broker: RunningBroker) -> None:
    topic = new_topic()
    local = topic.rsplit("/", 1)[1]
    admin(broker, "PUT", f"{local}/partitions", b"3")
    send(broker, topic, numbered(0, 500))
    reader = batch(broker, topic)
    splits = reader.partitions()
    send(broker, topic, numbered(500, 600))
    assert len(splits) == 3
    assert Counter(values(reader, splits)) == Counter(numbered(0, 500))


def test_a_batch_read_of_nothing(broker: RunningBroker) -> None:
    topic = new_topic()
    admin(broker, "PUT", topic.rsplit("/", 1)[1])
    reader = batch(broker, topic)
    assert reader.partitions() == []
    for stand_in in (None, InputPartition(None)):  # of Spark up to 4.2, and of later versions
        assert list(reader.read(stand_in)) == []


def test_a_topic_that_does_not_exist(broker: RunningBroker) -> None:
    topic = new_topic()
    with pytest.raises(TopicMissing, match=f"the topic {topic} does not exist"):
        batch(broker, topic).partitions()
    waiting = {"waitingForNonExistedTopic": "true"}
    assert batch(broker, topic, **waiting).partitions() == []
    with pytest.raises(TopicMissing):
        batch(broker, topic).partitions()  # asking did not create it
    reader = stream(broker, topic, "latest", partitionDiscoveryInterval="10", **waiting)
    start = reader.initialOffset()
    assert reader.latestOffset(start, ALL) is start
    admin(broker, "PUT", topic.rsplit("/", 1)[1])
    empty = changed(reader, start)
    assert values(reader, reader.partitions(start, empty)) == []
    send(broker, topic, numbered(0, 10))
    found, _ = following(reader, empty, 10)
    assert found == numbered(0, 10)


def test_metadata_columns(broker: RunningBroker) -> None:
    topic = new_topic()
    ids = send(broker, topic, numbered(0, 3))
    reader = batch(broker, topic, metadata="all")
    [record_batch] = [found for split in reader.partitions() for found in reader.read(split)]
    rows: list[dict[str, Any]] = record_batch.to_pylist()
    assert [(row["__ledger"], row["__entry"], row["__batchIndex"], row["__partition"])
            for row in rows] == ids  # fmt: skip
    assert {row["__topic"] for row in rows} == {topic}


def test_a_topic_created_anew_is_not_mistaken_for_the_old(broker: RunningBroker) -> None:
    topic = new_topic()
    [last] = send(broker, topic, [b"x"])
    reader = stream(broker, topic)
    end = {"v": 1, "p": {topic: [last.ledger, last.entry + 100]}}
    with pytest.raises(DataLoss, match="deleted and recreated"):
        reader.latestOffset(end, ALL)
    careless = stream(broker, topic, failOnDataLoss="false")
    assert careless.latestOffset(end, ALL) is end


def test_a_range_whose_end_is_gone_is_a_failure(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark_magnetar.source.range_reader.PATIENCE_S", 0.05)
    topic = new_topic()
    [last] = send(broker, topic, [b"x"])
    reader = stream(broker, topic)
    start = reader.latestOffset(reader.initialOffset(), ALL)
    gone = {"v": 1, "p": {topic: [last.ledger, last.entry + 5]}}
    with pytest.raises(DataLoss, match=f"the topic ends at {last.ledger}:{last.entry}"):
        values(reader, reader.partitions(start, gone))


def test_a_topic_that_is_deleted_while_it_is_read(broker: RunningBroker) -> None:
    topic = new_topic()
    send(broker, topic, numbered(0, 10))
    reader = stream(
        broker, topic, partitionDiscoveryInterval="20ms", waitingForNonExistedTopic="true"
    )
    end = reader.latestOffset(reader.initialOffset(), ALL)
    admin(broker, "DELETE", f"{topic.rsplit('/', 1)[1]}?force=true")
    with pytest.raises(DataLoss, match=f"{topic}: the topic was deleted"):
        while True:
            assert reader.latestOffset(end, ALL) is end
    with pytest.raises(TopicMissing):
        batch(broker, topic).partitions()  # following it did not create it again
