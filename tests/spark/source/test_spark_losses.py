"""What counts as lost: everything that was deleted before it was read, and nothing else."""

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest

import magnetar
from magnetar.consuming import chunks as chunk_joining
from pyspark_magnetar.bridge import bridge_to
from pyspark_magnetar.errors import DataLoss
from pyspark_magnetar.source import entry_search, range_reader
from pyspark_magnetar.source.losses import Losses
from pyspark_magnetar.source.offsets import NOTHING, Position
from pyspark_magnetar.source.planner import Planner
from pyspark_magnetar.source.tail import Seen, Tail
from pyspark_magnetar.source.view import View
from running_broker import RunningBroker
from spark.source_driver import (
    ALL,
    admin,
    batch,
    changed,
    new_topic,
    numbered,
    seal,
    send,
    stream,
    trim,
    values,
)

Answers = SimpleQueue[dict[str, Position]]
"""The last entries of partitions, as often as the broker was asked."""


@pytest.fixture
def observed(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """What sources are told of the ends of their partitions, from their first question on."""
    found: Answers = SimpleQueue()
    observe = Losses.observe

    def noted(losses: Losses, last: Any) -> None:
        observe(losses, last)
        found.put(dict(last))

    monkeypatch.setattr(Losses, "observe", noted)
    return found


def test_a_ledger_that_came_and_went_while_a_batch_ran(
    broker: RunningBroker, observed: Answers
) -> None:
    topic = new_topic()
    send(broker, topic, [b"a"])
    reader = stream(broker, topic)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    seal(broker, topic)
    [lost] = send(broker, topic, [b"lost"])
    await_end(observed, topic, lost)
    seal(broker, topic)
    [last] = send(broker, topic, [b"b"])
    await_end(observed, topic, last)
    trim(broker, topic)
    with pytest.raises(DataLoss, match=f"the first message that is left is {last.ledger}:"):
        changed(reader, end)


def test_a_ledger_that_was_read_may_go(broker: RunningBroker, observed: Answers) -> None:
    topic = new_topic()
    send(broker, topic, [b"a"])
    reader = stream(broker, topic)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    seal(broker, topic)
    trim(broker, topic)
    for value in (b"b", b"c"):
        [sent] = send(broker, topic, [value])
        await_end(observed, topic, sent)
    following = changed(reader, end)
    assert values(reader, reader.partitions(end, following)) == [b"b", b"c"]


def await_end(observed: Answers, topic: str, last: magnetar.MessageId) -> None:
    """Return when the source knows that this is the partition's last entry."""
    while observed.get(timeout=60).get(topic) != (last.ledger, last.entry):
        pass


def test_all_was_read_before_the_ledger_went(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_reader, "MAX_ENTRIES", 2)
    topic = new_topic()
    for value in numbered(0, 3):
        send(broker, topic, [value])
    reader = batch(broker, topic)
    (split,) = reader.partitions()
    seal(broker, topic)
    send(broker, topic, numbered(3, 5))
    bridge = bridge_to(reader._options.connecting)
    entries = range_reader.read_range(
        bridge, View(bridge.client), split.wanted, range_reader.RangeReading()
    )
    first = next(entries)
    trim(broker, topic)
    assert [first.position, *(one.position for one in entries)][-1] == split.wanted.end


def test_one_of_two_topics_is_deleted(broker: RunningBroker) -> None:
    topics = [new_topic(), new_topic()]
    for topic in topics:
        send(broker, topic, [b"before"])
    more = {"topics": ",".join(topics), "partitionDiscoveryInterval": "20ms"}
    tolerant = stream(broker, "", failOnDataLoss="false", **more)
    strict = stream(broker, "", **more)
    ends = [reader.latestOffset(reader.initialOffset(), ALL) for reader in (tolerant, strict)]
    admin(broker, "DELETE", f"{topics[0].rsplit('/', 1)[1]}?force=true")
    with pytest.raises(DataLoss, match=f"{topics[0]}: the topic was deleted"):
        changed(strict, ends[1])
    send(broker, topics[1], [b"behind"])
    following = changed(tolerant, ends[0])
    assert values(tolerant, tolerant.partitions(ends[0], following)) == [b"behind"]


def test_a_probe_that_is_answered_late(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_search, "SILENCE_S", 0.0)
    topic = new_topic()
    send(broker, topic, numbered(0, 10))
    for more in ({}, {"startingTime": "0"}):
        reader = batch(broker, topic, **more)
        assert values(reader, reader.partitions()) == numbered(0, 10)


def test_a_probe_that_is_not_answered(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_search, "SILENCE_S", 0.0)
    monkeypatch.setattr(entry_search, "PROBE_S", 0.0)
    topic = new_topic()
    send(broker, topic, numbered(0, 10))
    with pytest.raises(magnetar.OperationTimeout) as raised:
        batch(broker, topic).partitions()
    assert f"{topic} has entries from {NOTHING} on" in "".join(raised.value.__notes__)


def test_a_plan_that_fails_is_made_again(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic()
    send(broker, topic, numbered(0, 10))
    plan = Planner._plan
    failures = [magnetar.OperationTimeout("too slow"), magnetar.ConnectionLost("gone")]

    async def failing(planner: Planner, *what: Any) -> Any:
        if failures:
            raise failures.pop()
        return await plan(planner, *what)

    monkeypatch.setattr(Planner, "_plan", failing)
    reader = stream(broker, topic)
    start = reader.initialOffset()
    assert values(reader, reader.partitions(start, changed(reader, start))) == numbered(0, 10)


def test_looking_for_messages_fails_for_an_unknown_reason(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic()
    send(broker, topic, numbered(0, 10))
    reader = stream(broker, topic)
    end = reader.latestOffset(reader.initialOffset(), ALL)

    async def broken(tail: Tail) -> Seen:
        raise ZeroDivisionError

    monkeypatch.setattr(Tail, "_look", broken)
    with pytest.raises(ZeroDivisionError):
        changed(reader, end)


def test_a_chunked_message_that_is_too_large(
    make_broker: Callable[..., RunningBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, topic = make_broker(maxMessageSize="10240"), new_topic()

    async def send_chunked() -> None:
        async with magnetar.connect(broker.service_url) as client:
            producer = await client.producer(
                topic, batching=None, chunking=True, max_chunk_bytes=5000
            )
            await producer.send_batch([b"x" * 30_000, b"small"])

    asyncio.run(send_chunked())
    monkeypatch.setattr(chunk_joining, "MAX_INFLATED_BYTES", 20_000)
    reader = batch(broker, topic)
    with pytest.raises(magnetar.Unreadable, match="part of a chunked message of 30000 bytes"):
        values(reader, reader.partitions())
    reader = batch(broker, topic, onUnreadable="skip")
    assert values(reader, reader.partitions()) == [b"small"]
