"""A client whose topics are deleted and created again, without automatic creation."""

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import magnetar
from admin_http import Admin
from client.receiving import TIMEOUT_S, take, values
from fakes.client_clock import FOR_EVER_S, PATIENT, ManualClock
from fakes.waiting import until
from running_broker import RunningBroker

Log = pytest.LogCaptureFixture
PAUSE_S = 0.2
RETRYING: dict[str, Any] = {**PATIENT, "backoff_max_ms": PAUSE_S * 1000}
"""Settings with which the clock advances by the pauses between attempts only."""


@pytest.fixture
def namespace(broker: RunningBroker) -> str:
    name = f"public/recreated-{uuid.uuid4().hex[:8]}"
    admin = Admin(broker)
    admin.makes_namespace(name)
    policy = {"allowAutoTopicCreation": False}
    assert admin.post(f"namespaces/{name}/autoTopicCreation", policy).status == 204
    return name


@pytest.mark.parametrize("partitions", [0, 2])
async def test_what_was_open_goes_on_when_the_topic_is_there_again(
    broker: RunningBroker, namespace: str, clock: ManualClock, caplog: Log, partitions: int
) -> None:
    admin, topic = Admin(broker), f"persistent://{namespace}/topic"
    path = topic.replace("://", "/") + ("/partitions" if partitions else "")
    await asyncio.to_thread(admin.put, path, partitions or None)
    async with magnetar.connect(broker.service_url, clock=clock, **RETRYING) as client:
        consumer = await client.subscribe(topic, "s", type="shared", initial_position="earliest")
        producer = await client.producer(topic, send_timeout_s=FOR_EVER_S)
        await producer.send(b"former")
        await take(consumer, 1)
        assert (await asyncio.to_thread(admin.delete, f"{path}?force=true")).status == 204
        async with clock.running(PAUSE_S):
            await until(lambda: caplog.text.count("does not exist") >= 2, "both are refused")
            await asyncio.to_thread(admin.put, path, partitions or None)
            sent = [b"%d" % number for number in range(4)]
            for value in sent:
                await producer.send(value)
            assert sorted(values(await take(consumer, 4))) == sent


async def test_a_reader_goes_on_from_the_first_message_of_the_new_topic(
    broker: RunningBroker, namespace: str, clock: ManualClock, caplog: Log
) -> None:
    admin, topic = Admin(broker), f"persistent://{namespace}/topic"
    path = topic.replace("://", "/")
    await asyncio.to_thread(admin.put, path)
    async with magnetar.connect(broker.service_url, clock=clock, **RETRYING) as client:
        reader = await client.reader(topic)
        await (await client.producer(topic, send_timeout_s=FOR_EVER_S)).send(b"former")
        assert (await reader.read(TIMEOUT_S)).value == b"former"
        assert (await asyncio.to_thread(admin.delete, f"{path}?force=true")).status == 204
        async with clock.running(PAUSE_S):
            await until(lambda: caplog.text.count("does not exist") >= 2, "both are refused")
            await asyncio.to_thread(admin.put, path)
            await (await client.producer(topic, send_timeout_s=FOR_EVER_S)).send(b"new")
            assert (await reader.read(TIMEOUT_S)).value == b"new"


OPERATION_TIMEOUT_S = 20.0
AWAITED: dict[str, Callable[[magnetar.Consumer], Coroutine[Any, Any, object]]] = {
    "seek": lambda consumer: consumer.seek(magnetar.EARLIEST),
    "last id": lambda consumer: consumer.last_message_ids(),
    "flush": lambda consumer: consumer.flush(),
    "unsubscribe": lambda consumer: consumer.unsubscribe(),
}


@pytest.mark.parametrize("what", AWAITED)
async def test_what_is_awaited_of_a_topic_that_is_gone_ends_and_says_why(
    broker: RunningBroker, namespace: str, clock: ManualClock, caplog: Log, what: str
) -> None:
    admin, topic = Admin(broker), f"persistent://{namespace}/topic"
    path = topic.replace("://", "/")
    await asyncio.to_thread(admin.put, path)
    settings = {**RETRYING, "operation_timeout_s": OPERATION_TIMEOUT_S}
    connecting = magnetar.connect(broker.service_url, clock=clock, **settings)
    async with clock.running(PAUSE_S), connecting as client:
        consumer = await client.subscribe(topic, "s", initial_position="earliest")
        async with await client.producer(topic) as producer:
            await producer.send(b"value")
        message = (await take(consumer, 1))[0]
        assert (await asyncio.to_thread(admin.delete, f"{path}?force=true")).status == 204
        await until(lambda: "does not exist" in caplog.text, "the consumer is refused")
        consumer.ack(message)
        with pytest.raises(magnetar.OperationTimeout, match=r"within 20 s.*does not exist"):
            await AWAITED[what](consumer)
        await asyncio.to_thread(admin.put, path)  # so that its end has nothing to wait for


async def test_a_message_to_a_topic_that_is_gone_fails_and_says_why(
    broker: RunningBroker, namespace: str, clock: ManualClock, caplog: Log
) -> None:
    admin, topic = Admin(broker), f"persistent://{namespace}/topic"
    path = topic.replace("://", "/")
    await asyncio.to_thread(admin.put, path)
    async with magnetar.connect(broker.service_url, clock=clock, **RETRYING) as client:
        producer = await client.producer(topic, send_timeout_s=OPERATION_TIMEOUT_S)
        await producer.send(b"value")
        assert (await asyncio.to_thread(admin.delete, f"{path}?force=true")).status == 204
        async with clock.running(PAUSE_S):
            await until(lambda: "does not exist" in caplog.text, "the producer is refused")
            with pytest.raises(magnetar.OperationTimeout, match=r"within 20 s.*does not exist"):
                await producer.send(b"later")
