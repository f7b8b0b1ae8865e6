"""Clients in processes that are forked, or that multiprocessing starts."""

import asyncio
import multiprocessing
import pickle
import uuid
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import pytest

import magnetar
import magnetar.sync
from client.key_pairs import key_reader
from client.receiving import TIMEOUT_S
from running_broker import RunningBroker

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

WHY = "before the process was forked"
Opened = tuple[
    magnetar.Client, magnetar.Producer, magnetar.Consumer, magnetar.Reader, magnetar.TableView
]


def new_topic() -> str:
    return f"persistent://public/default/forked-{uuid.uuid4().hex[:10]}"


async def what_raises(opened: Opened, topic: str) -> list[str]:
    """The errors of everything that a child may try with what it inherited."""
    client, producer, consumer, reader, view = opened
    errors = []
    for attempt in (
        lambda: client.producer(topic),
        lambda: client.subscribe(topic, "s"),
        lambda: producer.send(b"never"),
        lambda: producer.send_batch([b"never"]),
        lambda: consumer.receive(TIMEOUT_S),
        lambda: consumer.seek(magnetar.EARLIEST),
        lambda: reader.read(TIMEOUT_S),
        reader.has_message_available,
        view.refresh,
    ):
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await attempt()
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
        else:
            errors.append("nothing")
    try:
        producer.send_nowait(b"never")
    except magnetar.Closed as error:
        errors.append(f"Closed: {error}")
    async with asyncio.timeout(TIMEOUT_S):
        for each in (view, reader, consumer, producer, client):
            await each.close()
    return errors


async def send(url: str, topic: str, value: bytes) -> None:
    async with magnetar.connect(url) as client:
        await (await client.producer(topic)).send(value)


def child(url: str, topic: str, opened: Opened, back: Connection) -> None:
    back.send(asyncio.run(what_raises(opened, topic)))
    asyncio.run(send(url, topic, b"from the child"))
    back.send("sent")


async def from_child(back: Connection) -> Any:
    assert await asyncio.to_thread(back.poll, TIMEOUT_S)
    return back.recv()


async def test_a_forked_child_has_an_error_and_the_parent_goes_on(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s", initial_position="earliest")
        producer = await client.producer(
            topic, encryption_keys=["k"], key_reader=key_reader("k"), interceptors=[]
        )
        plain = await client.producer(topic)
        pattern = await client.subscribe_matching(f"public/default/{topic[-10:]}.*", "p")
        reader = await client.reader(topic)
        view = await client.table_view(topic)
        here, there = multiprocessing.Pipe()
        opened = (client, producer, consumer, reader, view)
        process = multiprocessing.get_context("fork").Process(
            target=child, args=(broker.service_url, topic, opened, there)
        )
        process.start()
        errors = await from_child(here)
        assert len(errors) == 10
        assert all(error.startswith("Closed: ") and WHY in error for error in errors), errors
        assert await from_child(here) == "sent"
        await asyncio.to_thread(process.join, TIMEOUT_S)
        assert process.exitcode == 0
        message = await consumer.receive(TIMEOUT_S)
        assert message.value == b"from the child"
        consumer.ack(message)
        await plain.send(b"from the parent")
        assert (await consumer.receive(TIMEOUT_S)).value == b"from the parent"
        assert producer.is_connected and plain.is_connected
        await pattern.close()


def spawned(url: str, topic: str) -> None:
    asyncio.run(send(url, topic, b"spawned"))


@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver"])
async def test_a_client_made_in_the_child_works(broker: RunningBroker, way: str) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s")
        process = multiprocessing.get_context(way).Process(  # type: ignore[attr-defined]
            target=spawned, args=(broker.service_url, topic)
        )
        process.start()
        assert (await consumer.receive(TIMEOUT_S)).value == b"spawned"
        await asyncio.to_thread(process.join, TIMEOUT_S)
        assert process.exitcode == 0


async def test_a_fork_while_messages_are_pending_loses_and_doubles_nothing(
    broker: RunningBroker,
) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.producer(topic)
        for number in range(10):
            producer.send_nowait(b"%d" % number)
            process = multiprocessing.get_context("fork").Process(target=int)
            process.start()
            await asyncio.to_thread(process.join, TIMEOUT_S)
            assert process.exitcode == 0
        await producer.flush()
        received = [(await consumer.receive(TIMEOUT_S)).value for _ in range(10)]
        assert received == [b"%d" % number for number in range(10)]


async def test_nothing_can_be_passed_to_another_process(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer(topic)
        consumer = await client.subscribe(topic, "s")
        opened: list[Callable[[], object]] = [lambda: client, lambda: producer, lambda: consumer]
        for each in opened:
            with pytest.raises(TypeError, match="cannot be copied or passed to another process"):
                pickle.dumps(each())
    with (
        magnetar.sync.connect(broker.service_url) as blocking,
        pytest.raises(TypeError, match="a Client cannot be copied"),
    ):
        pickle.dumps(blocking)
