"""Readers that seek and know whether there is more; table views."""

import asyncio
import time
import uuid

import pytest

import magnetar
from admin_http import Admin
from client.receiving import TIMEOUT_S, next_millisecond, take, values
from fakes.client_clock import ManualClock
from magnetar_proto import PulsarApi_pb2 as pb
from running_broker import RunningBroker


def new_topic() -> str:
    return f"persistent://public/default/read-{uuid.uuid4().hex[:10]}"


async def rest(reader: magnetar.Reader) -> list[bytes]:
    """What is there to be read, and not more."""
    values = []
    while await reader.has_message_available():
        values.append((await reader.read(TIMEOUT_S)).value)
    return values


@pytest.mark.parametrize("batched", [True, False])
async def test_reading_ends_at_the_last_message(broker: RunningBroker, batched: bool) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        reader = await client.reader(topic)
        assert await rest(reader) == []
        producer = await client.producer(
            topic, batching=magnetar.BatchLimits() if batched else None
        )
        ids = await producer.send_batch([b"0", b"1", b"2", b"3"])
        assert await rest(reader) == [b"0", b"1", b"2", b"3"]
        await reader.seek(ids[2])
        assert await rest(reader) == [b"2", b"3"]
        await reader.seek(magnetar.EARLIEST)
        assert len(await rest(reader)) == 4
        await reader.seek(magnetar.LATEST)
        assert await rest(reader) == []
        await producer.send(b"4")
        assert await rest(reader) == [b"4"]
        later = await client.reader(topic, ids[1])
        assert await rest(later) == [b"2", b"3", b"4"]


async def test_reading_from_a_time(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer(topic, batching=None)
        await producer.send_batch([b"0", b"1"])
        between = await next_millisecond()
        await producer.send_batch([b"2", b"3"])
        reader = await client.reader(topic, between)
        assert await rest(reader) == [b"2", b"3"]
        await reader.seek(between)
        assert await rest(reader) == [b"2", b"3"]
        await reader.seek(0)
        assert len(await rest(reader)) == 4
        future = await client.reader(topic, between + 3_600_000)
        assert await rest(future) == []


HOUR_MS = 3_600_000


@pytest.mark.parametrize("is_moved", [False, True])
async def test_reading_from_a_time_has_what_is_published_from_now_on(
    broker: RunningBroker, is_moved: bool
) -> None:
    """Also if the clock of its producer is behind: to whom the start is in the future."""
    topic = new_topic()
    unload = f"{topic.replace('persistent://', 'persistent/')}/unload"
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer(topic, batching=None)
        await producer.send(b"old")
        reader = await client.reader(topic, time.time_ns() // 1_000_000 + HOUR_MS)
        for number in range(3):
            if is_moved:  # it registers again, and has received nothing yet
                assert Admin(broker).put(unload).status == 204
            await producer.send(b"%d" % number)
            assert (await reader.read(TIMEOUT_S)).value == b"%d" % number
        await reader.seek(time.time_ns() // 1_000_000 + HOUR_MS)
        if is_moved:
            assert Admin(broker).put(unload).status == 204
        await producer.send_batch([b"3", b"4"])
        assert (await reader.read(TIMEOUT_S)).value == b"3"
        assert (await reader.read(TIMEOUT_S)).value == b"4"


@pytest.mark.parametrize("batched", [True, False])
async def test_the_last_message_is_a_place_to_begin(broker: RunningBroker, batched: bool) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        reader = await client.reader(topic, magnetar.LATEST, inclusive=True)
        assert await rest(reader) == []  # of an empty topic
        producer = await client.producer(
            topic, batching=magnetar.BatchLimits() if batched else None
        )
        await producer.send_batch([b"0", b"1", b"2"])
        assert await rest(reader) == [b"0", b"1", b"2"]
        reader = await client.reader(topic, magnetar.LATEST, inclusive=True)
        assert await rest(reader) == [b"2"]
        await producer.send(b"3")
        assert await rest(reader) == [b"3"]
        await reader.seek(magnetar.EARLIEST)
        await reader.seek(magnetar.LATEST, inclusive=True)
        assert await rest(reader) == [b"3"]
        await reader.seek(magnetar.LATEST)
        assert await rest(reader) == []


async def test_a_message_in_chunks_is_a_place_to_begin(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer(topic, batching=None, chunking=True, max_chunk_bytes=1000)
        await producer.send(b"before")
        large = b"large" * 1000
        sent = await producer.send(large)
        await producer.send(b"after")
        stored = magnetar.MessageId.from_pb(
            pb.MessageIdData.FromString(sent.to_pb().SerializeToString())
        )
        consumer = await client.subscribe(topic, "s", initial_position="earliest")
        received = (await take(consumer, 3))[1].id
        for start in (sent, stored, received):
            reader = await client.reader(topic, start, inclusive=True)
            assert await rest(reader) == [large, b"after"]
            await reader.seek(start)
            assert await rest(reader) == [large, b"after"]
            await reader.seek(start, inclusive=False)
            assert await rest(reader) == [b"after"]
            assert await rest(await client.reader(topic, start)) == [b"after"]
            await consumer.seek(start)
            assert values(await take(consumer, 2)) == [large, b"after"]


async def test_reading_several_topics(broker: RunningBroker) -> None:
    topics = [new_topic(), new_topic()]
    async with magnetar.connect(broker.service_url) as client:
        for index, topic in enumerate(topics):
            await (await client.producer(topic)).send(b"%d" % index)
        reader = await client.reader(topics)
        assert sorted(await rest(reader)) == [b"0", b"1"]
        values = []
        await reader.seek(magnetar.EARLIEST)
        async for message in reader:
            values.append(message.value)
            if len(values) == 2:
                break
        assert sorted(values) == [b"0", b"1"]
        with pytest.raises(ValueError, match="is in 2 partitions of"):
            await reader.seek(magnetar.MessageId(1, 1))


async def test_a_table_view_has_the_latest_values(broker: RunningBroker) -> None:
    topic = new_topic()
    Admin(broker).put(f"{topic.replace('://', '/')}/partitions", 2)
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer(topic)
        await producer.send_batch(
            [magnetar.Outgoing(b"%d" % n, key=f"k{n % 5}") for n in range(50)]
        )
        view = await client.table_view(topic)
        assert dict(view) == {f"k{n % 5}": b"%d" % n for n in range(45, 50)}
        changes: list[tuple[str | bytes, bytes | None]] = []
        seen: list[str | bytes] = []
        view.listen(lambda key, value: changes.append((key, value)))
        view.for_each_and_listen(lambda key, value: seen.append(key))
        await producer.send(b"new", key="k1")
        await producer.send(b"", key="k2", is_null=True)
        await producer.send(b"no key")
        await view.refresh()
        assert (view["k1"], view.get("k2"), len(view), "k3" in view) == (b"new", None, 4, True)
        assert sorted(changes) == [("k1", b"new"), ("k2", None)]
        assert len(seen) == 7


async def test_partitions_that_a_topic_gets_later_are_read(
    broker: RunningBroker, clock: ManualClock
) -> None:
    topic = new_topic()
    path = f"{topic.replace('://', '/')}/partitions"
    admin = Admin(broker)
    assert admin.put(path, 1).status == 204
    async with magnetar.connect(broker.service_url, clock=clock) as client:
        reader = await client.reader(topic, magnetar.LATEST)
        view = await client.table_view(topic)
        changed = asyncio.Event()
        view.listen(lambda key, value: changed.set())
        assert reader.topics == [f"{topic}-partition-0"]
        assert admin.post(path, 2).status == 204
        clock.advance(60)
        producer = await client.producer(f"{topic}-partition-1")
        await producer.send(b"new", key="k")
        assert (await reader.read(TIMEOUT_S)).value == b"new"
        assert reader.topics == [f"{topic}-partition-0", f"{topic}-partition-1"]
        await changed.wait()
        assert dict(view) == {"k": b"new"}
        await reader.close()
