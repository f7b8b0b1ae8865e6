"""The client while the real daemon is killed and started again under it."""

import asyncio
import uuid
from collections.abc import Callable

import pytest

import magnetar
from admin_http import Admin
from fakes.client_clock import ManualClock
from running_broker import RunningBroker

TIMEOUT_S = 60.0

MakeBroker = Callable[..., RunningBroker]


def new_topic() -> str:
    return f"persistent://public/default/t-{uuid.uuid4().hex[:10]}"


async def kill_and_start(broker: RunningBroker) -> None:
    await asyncio.to_thread(broker.kill)
    await asyncio.to_thread(broker.start)


async def test_nothing_with_a_receipt_is_lost_and_order_is_kept(make_broker: MakeBroker) -> None:
    broker = make_broker()
    topic = new_topic()
    total, kills = 6000, 3
    async with magnetar.connect(broker.service_url, backoff_first_ms=20) as client:
        consumer = await client.subscribe(topic, "s")
        reader = await client.reader(topic, magnetar.LATEST)
        producer = await client.producer(topic)

        async def send() -> list[magnetar.MessageId]:
            ids = []
            for first in range(0, total, 100):
                if first % (total // kills) == total // kills // 2:
                    await asyncio.gather(*killing)  # one daemon at a time
                    killing.append(asyncio.create_task(kill_and_start(broker)))
                ids += await producer.send_batch([b"%d" % n for n in range(first, first + 100)])
            return ids

        async def consume() -> set[int]:
            seen: set[int] = set()
            while len(seen) < total:
                batch = await consumer.receive_batch(timeout_s=TIMEOUT_S)
                seen |= {int(m.value) for m in batch if m.value != b"end"}
                consumer.ack(batch)
            await consumer.flush()
            return seen

        async def read() -> list[int]:
            seen: list[magnetar.Message] = []
            while not seen or seen[-1].value != b"end":
                seen += await reader.read_batch(timeout_s=TIMEOUT_S)
            ids = [message.id for message in seen]
            assert ids == sorted(set(ids)), "a reader sees each stored message once, in order"
            return list(dict.fromkeys(int(message.value) for message in seen[:-1]))

        killing: list[asyncio.Task[None]] = []
        reading, consuming = asyncio.create_task(read()), asyncio.create_task(consume())
        ids = await send()
        await producer.send(b"end")
        assert len(set(ids)) == total
        await asyncio.gather(*killing)
        assert len(killing) == kills
        assert await reading == list(range(total)), "what was sent twice came in order at first"
        assert await consuming == set(range(total))


async def test_acks_survive_the_kill(make_broker: MakeBroker) -> None:
    broker = make_broker()
    topic = new_topic()
    async with magnetar.connect(broker.service_url, backoff_first_ms=20) as client:
        consumer = await client.subscribe(topic, "s", type="shared", ack_delay_ms=60_000)
        producer = await client.producer(topic)
        await producer.send_batch([b"%d" % index for index in range(10)])
        await producer.send(b"single")
        messages: list[magnetar.Message] = []
        while len(messages) < 11:
            messages += await consumer.receive_batch(timeout_s=TIMEOUT_S)
        consumer.ack(messages[:5])
        await asyncio.to_thread(broker.kill)
        consumer.ack(messages[6:])
        await asyncio.to_thread(broker.start)
        await consumer.flush()
        again = await consumer.receive(TIMEOUT_S)
        assert again.value == b"5", "what was acknowledged during the kill does not come back"
        await producer.send(b"next")
        assert (await consumer.receive(TIMEOUT_S)).value == b"next"


async def test_acks_for_a_consumer_that_the_broker_has_closed_are_sent_again(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker()
    topic = new_topic()
    async with magnetar.connect(broker.service_url, backoff_first_ms=20) as client:
        consumer = await client.subscribe(topic, "s", type="shared", ack_delay_ms=60_000)
        producer = await client.producer(topic)
        await producer.send_batch([b"one", b"two"])
        message = await consumer.receive(TIMEOUT_S)
        # Blocks the event loop: the client acknowledges before it reads that it was closed.
        assert Admin(broker).put(f"{topic.replace('://', '/')}/unload").status == 204
        consumer.ack(message)
        await consumer.flush()
        assert (await consumer.receive(TIMEOUT_S)).value == b"two"


async def test_an_idle_reader_misses_nothing_after_a_kill(make_broker: MakeBroker) -> None:
    broker = make_broker()
    topic = new_topic()
    async with magnetar.connect(broker.service_url, backoff_first_ms=20) as client:
        producer = await client.producer(topic)
        await producer.send(b"before")
        latest = await client.reader(topic, magnetar.LATEST)
        entries = await client.entry_reader(topic, magnetar.LATEST, queue_size=10)
        await kill_and_start(broker)
        sent = await producer.send(b"after")
        message = await latest.read(TIMEOUT_S)
        assert (message.value, message.id) == (b"after", sent)
        [entry] = await entries.receive_entries(timeout_s=TIMEOUT_S)
        assert entry.position == sent[:2]
        assert await entries.last_message_id() == sent


async def test_a_broker_that_stays_away_ends_the_wait(
    make_broker: MakeBroker, clock: ManualClock
) -> None:
    broker = make_broker()
    topic = new_topic()
    client = magnetar.connect(broker.service_url, operation_timeout_s=2, clock=clock)
    producer = await client.producer(topic, send_timeout_s=2)
    consumer = await client.subscribe(topic, "s")
    await producer.send(b"x")
    message = await consumer.receive(TIMEOUT_S)
    await asyncio.to_thread(broker.kill)
    with pytest.raises(magnetar.OperationTimeout, match="whether the message was stored"):
        await clock.drive(producer.send(b"y"), 2)
    consumer.ack(message)
    with pytest.raises(magnetar.OperationTimeout, match="may be delivered again"):
        await clock.drive(consumer.flush(), 2)
    with pytest.raises(magnetar.OperationTimeout):
        await clock.drive(client.close(), 2)
