"""Features of a consumer beyond receiving and acknowledging, against the daemon."""

import asyncio
import uuid
from typing import Any

import pytest

import magnetar
from admin_http import Admin
from client.receiving import TIMEOUT_S, take, values
from compacting import compact
from fakes.client_clock import FOR_EVER_S, PATIENT, ManualClock
from fakes.waiting import until
from magnetar import KeyShared
from magnetar_proto.hashes import range_slot
from running_broker import RunningBroker

HALF = 32767


def new_topic(namespace: str = "public/default") -> str:
    return f"persistent://{namespace}/more-{uuid.uuid4().hex[:10]}"


async def test_a_loop_over_a_consumer(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s")
        await (await client.producer(topic)).send_batch([b"0", b"1", b"2"])
        received = []
        async for message in consumer:
            received.append(message.value)
            consumer.ack(message)
            if len(received) == 3:
                break
        assert received == [b"0", b"1", b"2"]


@pytest.mark.parametrize("queue_size", [0, 1, 1000])
async def test_nothing_is_asked_for_while_paused(broker: RunningBroker, queue_size: int) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(
            topic, "s", type="shared", queue_size=queue_size, start_paused=True
        )
        other = await client.subscribe(topic, "s", type="shared")
        producer = await client.producer(topic, batching=None)
        await producer.send_batch([b"0", b"1", b"2"])
        first = await take(other, 3)
        assert values(first) == [b"0", b"1", b"2"]
        other.pause()
        await other.close()
        consumer.resume()
        assert sorted(values(await take(consumer, 3))) == [b"0", b"1", b"2"]


async def test_the_active_consumer_is_told(broker: RunningBroker) -> None:
    topic = new_topic()
    told: asyncio.Queue[tuple[str, str, bool]] = asyncio.Queue()
    async with magnetar.connect(broker.service_url) as client:

        async def subscribe(name: str) -> magnetar.Consumer:
            return await client.subscribe(
                topic, "s", type="failover", consumer_name=name, priority=0 if name == "a" else 1,
                on_active_change=lambda where, active: told.put_nowait((name, where, active)),
            )  # fmt: skip

        a = await subscribe("a")
        b = await subscribe("b")
        async with asyncio.timeout(TIMEOUT_S):
            while a.active_topics != [topic]:
                await told.get()
            assert b.active_topics == []
            await a.close()
            while b.active_topics != [topic]:
                await told.get()


async def test_consumers_divide_the_keys_by_their_ranges(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        low, high = [
            await client.subscribe(topic, "s", type="key_shared", key_shared=KeyShared([slots]))
            for slots in ((0, HALF), (HALF + 1, 65535))
        ]
        with pytest.raises(magnetar.NotAllowed):
            await client.subscribe(
                topic, "s", type="key_shared", key_shared=KeyShared([(100, 200)])
            )
        producer = await client.producer(topic, key_batching=True)
        keys = [f"key-{number}" for number in range(40)]
        await producer.send_batch([magnetar.Outgoing(b"", key=key) for key in keys])
        lows = [key for key in keys if range_slot(key.encode()) <= HALF]
        assert {m.key for m in await take(low, len(lows))} == set(lows)
        assert {m.key for m in await take(high, 40 - len(lows))} == set(keys) - set(lows)
    with pytest.raises(ValueError, match="not possible"):
        KeyShared([(0, 10), (5, 20)])


async def test_compacted_topics_have_the_last_values(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer(topic, batching=None)
        await producer.send_batch([magnetar.Outgoing(b"%d" % n, key=f"k{n % 2}") for n in range(8)])
        await asyncio.to_thread(compact, broker, topic)
        consumer = await client.subscribe(
            topic, "s", initial_position="earliest", read_compacted=True
        )
        assert values(await take(consumer, 2)) == [b"6", b"7"]
        reader = await client.reader(topic, read_compacted=True)
        assert [m.value for m in await reader.read_batch(2, TIMEOUT_S)][-1] in (b"6", b"7")
        with pytest.raises(magnetar.NotAllowed):
            await client.subscribe(topic, "t", type="shared", read_compacted=True)


async def test_a_missing_topic_is_not_created_if_that_is_not_wanted(broker: RunningBroker) -> None:
    async with magnetar.connect(broker.service_url) as client:
        with pytest.raises(magnetar.NotFound):
            await client.subscribe(new_topic(), "s", create_topic=False)


@pytest.mark.parametrize("watched", [True, False])
async def test_topics_of_a_pattern_come_and_go(
    broker: RunningBroker, clock: ManualClock, watched: bool
) -> None:
    namespace = f"public/pattern-{uuid.uuid4().hex[:8]}"
    # A pattern too long for the broker is polled.
    pattern = f"{namespace}/" + ("more-.*" if watched else "(more-.*" + "|x" * 30 + ")")
    admin = Admin(broker)
    first, second = new_topic(namespace), new_topic(namespace)
    # If the broker reports topics, only the pause between two looks passes.
    pauses_s = 0.05 if watched else 10.0
    settings = {"discovery_s": 10.0, "clock": clock, **PATIENT}
    unlimited: dict[str, Any] = {"send_timeout_s": FOR_EVER_S}  # each look lets ten seconds pass
    async with (
        magnetar.connect(broker.service_url, **settings) as client,
        clock.running(pauses_s),
    ):
        await (await client.producer(first, **unlimited)).send(b"too early")
        consumer = await client.subscribe_matching(pattern, "s")
        assert consumer.topics == [first]
        producer = await client.producer(second, **unlimited)
        await client.producer(f"persistent://{namespace}/other")
        await producer.send(b"from the second")
        message = await consumer.receive()
        assert (message.topic, message.value) == (second, b"from the second")
        consumer.ack(message)
        await producer.close()
        assert admin.delete(f"{second.replace('://', '/')}?force=true").status == 204
        await until(lambda: consumer.topics == [first], "the deleted topic is left")
        await (await client.producer(first, **unlimited)).send(b"still there")
        assert (await consumer.receive()).value == b"still there"
        third = new_topic(namespace)
        await (await client.producer(third, **unlimited)).send(b"third")
        assert (await consumer.receive()).topic == third


async def test_the_end_of_a_topic_is_noticed(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.producer(topic)
        await producer.send(b"last")
        assert Admin(broker).post(f"{topic.replace('://', '/')}/terminate").status == 200
        assert not consumer.is_at_end
        consumer.ack(await consumer.receive(TIMEOUT_S))
        await consumer.flush()
        await until(lambda: consumer.is_at_end, "the end of the topic is noticed")
        with pytest.raises(magnetar.TopicTerminated):
            await producer.send(b"x")


async def test_options_that_make_no_sense_are_refused(broker: RunningBroker) -> None:
    async with magnetar.connect(broker.service_url) as client:
        for options, why in (
            ({"ack_timeout_s": 0.0}, "ack_timeout_s"),
            ({"nack_delay_s": -1.0}, "nack_delay_s"),
            ({"chunk_expiry_s": 0.0}, "chunk_expiry_s"),
            ({"start": magnetar.EARLIEST, "retry": True}, "durable subscription"),
        ):
            with pytest.raises(ValueError, match=why):
                await client.subscribe("t", "s", **options)
        with pytest.raises(ValueError, match="needs a topic"):
            await client.subscribe_all([], "s")
