"""The asyncio client on another event loop than that of asyncio."""

import asyncio
import uuid

import uvloop

import magnetar
from client.receiving import take, values
from running_broker import RunningBroker


async def test_it_works_on_uvloop(broker: RunningBroker) -> None:
    topic = f"persistent://public/default/uvloop-{uuid.uuid4().hex[:10]}"

    async def send_and_receive() -> list[bytes]:
        assert isinstance(asyncio.get_running_loop(), uvloop.Loop)
        async with magnetar.connect(broker.service_url) as client:
            consumer = await client.subscribe(topic, "s")
            producer = await client.producer(topic)
            await producer.send_batch([b"one", b"two"])
            messages = await take(consumer, 2)
            consumer.ack(messages)
            await consumer.flush()
            return values(messages)

    assert await asyncio.to_thread(uvloop.run, send_and_receive()) == [b"one", b"two"]
