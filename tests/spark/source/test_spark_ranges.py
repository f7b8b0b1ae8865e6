"""Topics of many ledgers: how they are divided, limited, and what is missing from them."""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxBytes, ReadMaxRows

import magnetar
from pyspark_magnetar.errors import DataLoss
from pyspark_magnetar.source.reader import Split, StreamReader
from running_broker import RunningBroker
from spark.source_driver import (
    ALL,
    admin,
    batch,
    changed,
    following,
    new_topic,
    numbered,
    send_all,
    stream,
    trim,
    values,
    wait_for_mark,
)

ENTRIES = 10
"""Of a ledger, about; each has seven messages."""


@pytest.fixture(scope="module")
def rolling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    running = RunningBroker(
        tmp_path_factory.mktemp("rolling") / "data",
        managedLedgerMaxEntriesPerLedger=str(ENTRIES),
        managedLedgerMinLedgerRolloverTimeMinutes="0",
        brokerDeleteInactiveTopicsEnabled="false",
        maxMessageSize="10240",
    ).start()
    yield running
    running.close()


def send(broker: RunningBroker, topic: str, sent: Sequence[bytes]) -> list[magnetar.MessageId]:
    """What arrives together is stored in one ledger: so a ledger's messages at a time."""
    return send_all(broker, topic, [sent[at : at + 7 * ENTRIES] for at in range(0, len(sent), 70)])


def in_order(reader: StreamReader, limit: Any, count: int) -> list[list[bytes]]:
    """The batches of a query that reads so many messages."""
    start = reader.initialOffset()
    batches: list[list[bytes]] = []
    while sum(map(len, batches)) < count:
        end = reader.latestOffset(start, limit)
        batches.append(values(reader, reader.partitions(start, end)))
        start = end
    return batches


def ranges(splits: Sequence[Any]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    return [(split.wanted.start, split.wanted.end) for split in splits]


def test_a_range_is_divided_and_a_replay_divides_it_equally(rolling: RunningBroker) -> None:
    topic = new_topic()
    ids = send(rolling, topic, numbered(0, 700))
    lasts = {at.ledger: at.entry for at in ids}
    reader = stream(rolling, topic, minPartitions="7")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert len(lasts) > 1
    assert [*map(tuple, end["seg"][topic]), tuple(end["p"][topic])] == [*lasts.items()]
    splits = reader.partitions(start, end)
    assert len(splits) == 7
    assert values(reader, splits) == numbered(0, 700)
    send(rolling, topic, numbered(700, 800))
    again = stream(rolling, topic, minPartitions="7")
    assert ranges(again.partitions(start, end)) == ranges(splits)
    for split in splits:
        assert isinstance(split, Split)
        alone = values(reader, [split])
        assert alone == numbered(int(alone[0]), int(alone[-1]) + 1)


@pytest.mark.parametrize("limit", [ReadMaxRows(70), ReadMaxBytes(600)])
def test_limits_hold_batches_back(rolling: RunningBroker, limit: Any) -> None:
    topic = new_topic()
    admin(rolling, "PUT", f"{topic.rsplit('/', 1)[1]}/partitions", b"2")
    for partition in range(2):
        send(rolling, f"{topic}-partition-{partition}", numbered(0, 350))
    batches = in_order(stream(rolling, topic), limit, 700)
    assert len(batches) > 4
    assert sorted(value for one in batches for value in one) == sorted(numbered(0, 350) * 2)
    if isinstance(limit, ReadMaxRows):
        assert max(map(len, batches)) <= 70 + 2 * 7, "but for an entry of each partition"


def test_both_limits_apply_and_everything_overrides_them(rolling: RunningBroker) -> None:
    topic = new_topic()
    send(rolling, topic, numbered(0, 350))
    more = {"maxOffsetsPerTrigger": "300", "maxBytesPerTrigger": "300"}
    reader = stream(rolling, topic, **more)
    limit = reader.getDefaultReadLimit()
    assert isinstance(limit, ReadMaxRows)
    assert max(map(len, in_order(reader, limit, 350))) < 60
    assert in_order(stream(rolling, topic, **more), ALL, 350) == [numbered(0, 350)]


def test_available_now_keeps_the_limit(rolling: RunningBroker) -> None:
    topic = new_topic()
    send(rolling, topic, numbered(0, 350))
    reader = stream(rolling, topic)
    reader.prepareForTriggerAvailableNow()
    send(rolling, topic, numbered(350, 360))
    assert len(in_order(reader, ReadMaxRows(70), 350)) >= 5


@pytest.mark.parametrize("limit", [ReadMaxRows(100_000), ALL])
def test_more_ledgers_than_are_looked_at_in_one_plan(
    rolling: RunningBroker, limit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark_magnetar.source.range_contents.MAX_LEDGERS", 1)
    topic = new_topic()
    send(rolling, topic, numbered(0, 700))
    batches = in_order(stream(rolling, topic, minPartitions="3"), limit, 700)
    assert [value for one in batches for value in one] == numbered(0, 700)
    assert (len(batches) > 1) == (limit is not ALL)


def test_few_messages_are_waited_for(rolling: RunningBroker) -> None:
    topic = new_topic()
    send(rolling, topic, numbered(0, 70))
    reader = stream(rolling, topic, minOffsetsPerTrigger="50", maxTriggerDelay="1h")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    send(rolling, topic, numbered(70, 90))
    assert reader.latestOffset(end, ALL) is end
    send(rolling, topic, numbered(90, 140))
    more = changed(reader, end)
    found = values(reader, reader.partitions(end, more))
    assert len(found) >= 50
    assert found == numbered(70, 70 + len(found))


def test_trimmed_ledgers_are_a_loss(
    rolling: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic()
    send(rolling, topic, numbered(0, 350))
    reader = stream(rolling, topic)
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadMaxRows(30))
    planned = reader.latestOffset(first, ALL)
    trim(rolling, topic)
    send(rolling, topic, [b"new"])
    with pytest.raises(DataLoss, match="were deleted in part"):
        values(reader, reader.partitions(first, planned))
    with pytest.raises(DataLoss, match="the first message that is left is"):
        stream(rolling, topic).latestOffset(first, ALL)

    careless = stream(rolling, topic, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        caplog.clear()
        end = changed(careless, first)
        left = values(careless, careless.partitions(first, end))
        assert left[-1] == b"new"
        assert left[:-1] == numbered(350 - len(left) + 1, 350)
        send(rolling, topic, [b"newer"])
        changed(careless, end)
    assert [text for text in caplog.messages if "data loss" in text] == [
        text for text in caplog.messages if "first message that is left" in text
    ]
    assert len([text for text in caplog.messages if "data loss" in text]) == 1


def test_a_trimmed_ledger_that_was_read_is_no_loss(rolling: RunningBroker) -> None:
    topic = new_topic()
    send(rolling, topic, numbered(0, 350))
    reader = stream(rolling, topic)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert values(reader, reader.partitions(start, end)) == numbered(0, 350)
    trim(rolling, topic)
    send(rolling, topic, numbered(350, 700))
    found, _ = following(reader, end, 350)
    assert found == numbered(350, 700)


def test_messages_of_all_compressions_and_sizes(rolling: RunningBroker) -> None:
    topic = new_topic()
    expected: list[bytes] = []

    async def run() -> None:
        async with magnetar.connect(rolling.service_url) as client:
            for number in range(40):
                kinds = ("none", "lz4", "zlib", "zstd", "snappy")
                producer = await client.producer(
                    topic,
                    batching=magnetar.BatchLimits(max_messages=1 + number * 7 % 60)
                    if number % 4
                    else None,
                    compression=kinds[number % 5],
                )
                sent = [b"%d-%d" % (number, at) * (at % 5) for at in range(number * 3 % 50 + 1)]
                await producer.send_batch(sent)
                expected.extend(sent)
                await producer.close()

    asyncio.run(run())
    for parts in ("1", "9", "200"):
        reader = batch(rolling, topic, minPartitions=parts)
        assert values(reader, reader.partitions()) == expected


def test_chunked_messages_belong_to_the_split_of_their_first_chunk(rolling: RunningBroker) -> None:
    topic = new_topic()
    expected: list[bytes] = []

    async def run() -> None:
        async with magnetar.connect(rolling.service_url) as client:
            producer = await client.producer(
                topic, batching=None, chunking=True, max_chunk_bytes=5000
            )
            for number in range(12):
                value = b"%d " % number * (1 + number % 3 * 6000)
                await producer.send(value)
                expected.append(value)

    asyncio.run(run())
    for parts in ("1", "5", "500"):
        reader = batch(rolling, topic, minPartitions=parts)
        splits = reader.partitions()
        assert len(splits) >= min(int(parts), 30)
        assert values(reader, splits) == expected


def test_a_message_in_chunks_is_a_place_to_begin(broker: RunningBroker) -> None:
    topic = new_topic()
    large = b"large" * 1000

    async def run() -> magnetar.MessageId:
        async with magnetar.connect(broker.service_url) as client:
            producer = await client.producer(
                topic, batching=None, chunking=True, max_chunk_bytes=1000
            )
            await producer.send(b"before")
            sent = await producer.send(large)
            await producer.send(b"after")
            return sent

    sent = asyncio.run(run())
    reader = batch(broker, topic, metadata="__messageId")
    ids = [
        bytes(row["__messageId"])
        for split in reader.partitions()
        for found in reader.read(split)
        for row in found.to_pylist()
    ]
    assert ids[1] == sent.to_pb().SerializeToString()
    start = json.dumps({topic: list(ids[1])})
    reader = batch(broker, topic, startingOffsets=start)
    assert values(reader, reader.partitions()) == [large, b"after"]


def test_times_are_exact(rolling: RunningBroker) -> None:
    topic = new_topic()
    ids = send(rolling, topic, numbered(0, 70))
    reader = batch(rolling, topic, metadata="__publishTime")
    published = {
        row["value"]: int(row["__publishTime"].timestamp() * 1000)
        for split in reader.partitions()
        for found in reader.read(split)
        for row in found.to_pylist()
    }
    assert len(published) == len(ids)
    middle = sorted(published.values())[35]
    since = batch(rolling, topic, startingTime=str(middle))
    expected = [value for value, at in published.items() if at >= middle]
    assert values(since, since.partitions()) == expected
    until = batch(rolling, topic, endingTimestamp=str(middle))
    expected = [value for value, at in published.items() if at < middle]
    assert values(until, until.partitions()) == expected
    late = batch(rolling, topic, startingTime=str(int(time.time() * 1000) + 3_600_000))
    assert late.partitions() == []


def test_offsets_of_messages(rolling: RunningBroker) -> None:
    topic = new_topic()
    ids = send(rolling, topic, numbered(0, 140))

    def place(number: int) -> str:
        at = ids[number]
        return f"{at.ledger}:{at.entry}:{at.batch_index}"

    reader = batch(rolling, topic, startingOffsets=place(10), endingOffsets=place(100))
    assert values(reader, reader.partitions()) == numbered(10, 101)
    reader = batch(rolling, topic, startingOffsets=place(12), endingOffsets=place(12))
    assert values(reader, reader.partitions()) == [b"12"]
    query = stream(rolling, topic, start=place(10))
    start = query.initialOffset()
    end = query.latestOffset(start, ReadMaxRows(20))
    found = values(query, query.partitions(start, end))
    rest, _ = following(query, end, 130 - len(found))
    assert found + rest == numbered(10, 140)


def test_topics_by_pattern_and_by_name(rolling: RunningBroker) -> None:
    name = new_topic().rsplit("/", 1)[1]
    for suffix in "ab":
        send(rolling, f"{name}-{suffix}", [suffix.encode()])
    pattern = stream(
        rolling, "", topicsPattern=f"public/default/{name}-.*",
        partitionDiscoveryInterval="20ms",
    )  # fmt: skip
    start = pattern.initialOffset()
    end = pattern.latestOffset(start, ALL)
    assert values(pattern, pattern.partitions(start, end)) == [b"a", b"b"]
    send(rolling, f"{name}-c", [b"c", b"d"])
    found, _ = following(pattern, end, 2)
    assert found == [b"c", b"d"]
    named = stream(rolling, "", topics=f"{name}-c, {name}-a")
    end = named.latestOffset(start, ALL)
    assert values(named, named.partitions(start, end)) == [b"a", b"c", b"d"]


def test_finished_batches_are_acknowledged(rolling: RunningBroker) -> None:
    topic = new_topic()
    ids = send(rolling, topic, numbered(0, 70))
    reader = stream(rolling, topic, subscription="of-spark")
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadMaxRows(21))
    wait_for_mark(rolling, topic, ids[0].ledger, -1)
    second = reader.latestOffset(first, ALL)
    wait_for_mark(rolling, topic, *first["p"][topic])
    reader.commit(second)
    wait_for_mark(rolling, topic, *second["p"][topic])


def test_a_broker_that_is_killed_while_it_is_read(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker()
    topic = new_topic()
    send(broker, topic, numbered(0, 3000))
    reader = stream(broker, topic, **{"pulsar.reader.receiverQueueSize": "50"})
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    [split] = reader.partitions(start, end)
    found: list[bytes] = []
    is_killed = False
    for one in reader.read(split):
        found += one.column("value").to_pylist()
        if not is_killed:
            broker.kill()
            broker.restart()
            is_killed = True
    assert found == numbered(0, 3000)
    send(broker, topic, numbered(3000, 3010))
    more, _ = following(reader, end, 10)
    assert more == numbered(3000, 3010)
