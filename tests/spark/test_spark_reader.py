"""The readers as Spark drives them, without Spark, against the real daemon."""

import asyncio
import pickle
import urllib.request
import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

import magnetar
from pyspark_magnetar import DefaultSource
from pyspark_magnetar.reader import BatchReader, StreamReader
from pyspark_magnetar.schema import SCHEMA
from pyspark_magnetar.tail import DataLoss
from running_broker import RunningBroker

pytestmark = pytest.mark.daemon

ALL = ReadAllAvailable()


def new_topic() -> str:
    return f"persistent://public/default/t-{uuid.uuid4().hex[:10]}"


def send(broker: RunningBroker, topic: str, values: Sequence[bytes]) -> list[magnetar.MessageId]:
    async def run() -> list[magnetar.MessageId]:
        async with magnetar.connect(broker.service_url) as client:
            producer = await client.producer(topic, batching=magnetar.BatchLimits(max_messages=7))
            return await producer.send_batch(values)

    return asyncio.run(run())


def admin(broker: RunningBroker, method: str, path: str, body: bytes | None = None) -> None:
    url = f"{broker.http_url}/admin/v2/persistent/public/default/{path}"
    request = urllib.request.Request(url, body, method=method)
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 204


def stream(broker: RunningBroker, topic: str, start: str = "earliest") -> StreamReader:
    options = {"service.url": broker.service_url, "topic": topic, "startingoffsets": start}
    reader = DefaultSource(options).streamReader(SCHEMA)
    assert isinstance(reader, StreamReader)
    return reader


def batch(broker: RunningBroker, topic: str, **more: str) -> BatchReader:
    options = {"service.url": broker.service_url, "topic": topic, **more}
    reader = DefaultSource(options).reader(SCHEMA)
    assert isinstance(reader, BatchReader)
    return reader


def values(
    reader: DataSourceReader | DataSourceStreamReader, splits: Sequence[InputPartition]
) -> list[bytes]:
    """What the tasks of a batch read; readers and splits travel to them as pickles."""
    found: list[bytes] = []
    for split in splits:
        task, part = pickle.loads(pickle.dumps((reader, split)))
        for record_batch in task.read(part):
            found += record_batch.column("value").to_pylist()
    return found


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


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
    second = reader.latestOffset(first, ALL)
    assert values(reader, reader.partitions(first, second)) == numbered(100, 130)
    assert reader.reportLatestOffset() == second


def test_a_replay_reads_the_same_although_there_is_more(broker: RunningBroker) -> None:
    topic = new_topic()
    send(broker, topic, numbered(0, 50))
    reader = stream(broker, topic)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    send(broker, topic, numbered(50, 90))
    again = stream(broker, topic, start="latest")
    assert values(again, again.partitions(start, end)) == numbered(0, 50)
    more = again.latestOffset(end, ALL)
    assert values(again, again.partitions(end, more)) == numbered(50, 90)


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
    end = again.latestOffset(pinned, ALL)
    assert values(again, again.partitions(pinned, end)) == numbered(10, 20)


def test_latest_of_an_empty_topic_reads_all_that_comes(broker: RunningBroker) -> None:
    topic = new_topic()
    reader = stream(broker, topic, start="latest")
    pinned = reader.latestOffset(reader.initialOffset(), ALL)
    send(broker, topic, numbered(0, 10))
    end = reader.latestOffset(pinned, ALL)
    assert values(reader, reader.partitions(pinned, end)) == numbered(0, 10)


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
    reader = batch(broker, new_topic())
    assert reader.partitions() == []
    assert list(reader.read(None)) == []
    assert batch(broker, new_topic(), startingoffsets="latest").partitions() == []


def test_metadata_columns(broker: RunningBroker) -> None:
    topic = new_topic()
    ids = send(broker, topic, numbered(0, 3))
    reader = batch(broker, topic)
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


def test_a_range_whose_end_is_gone_is_a_failure(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark_magnetar.entries.PATIENCE_S", 0.05)
    topic = new_topic()
    [last] = send(broker, topic, [b"x"])
    reader = stream(broker, topic)
    start = reader.latestOffset(reader.initialOffset(), ALL)
    gone = {"v": 1, "p": {topic: [last.ledger, last.entry + 5]}}
    with pytest.raises(DataLoss, match=f"the topic ends at {last.ledger}:{last.entry}"):
        values(reader, reader.partitions(start, gone))
