"""Our client at a broker that asks who it is."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

import credentials
import magnetar
from credentials import PASSWORD, token
from magnetar.auth import Basic, Token
from magnetar.base.errors import NotAuthenticated, OperationTimeout
from running_broker import RunningBroker

MakeBroker = Callable[..., RunningBroker]
WORKERS = pytest.mark.parametrize("workers", ["1", "3"])
TOPICS = [f"persistent://public/default/topic-{number}" for number in range(8)]


async def publishes(broker: RunningBroker, auth: magnetar.auth.Authentication) -> None:
    """A message to each of several topics, so that every worker is reached."""
    async with magnetar.connect(broker.service_url, auth=auth) as client:
        for topic in TOPICS:
            consumer = await client.subscribe(topic, "s")
            await (await client.producer(topic)).send(b"here")
            assert (await consumer.receive(timeout_s=60)).value == b"here"
            consumer.ack([])
            await consumer.close()


@WORKERS
async def test_credentials_that_are_right(
    make_broker: MakeBroker, tmp_path: Path, workers: str
) -> None:
    broker = make_broker(**credentials.settings(tmp_path), magnetarWorkers=workers)
    await publishes(broker, Token(token("alice")))
    await publishes(broker, Token(lambda: token("alice")))
    await publishes(broker, Basic("alice", PASSWORD))


@WORKERS
async def test_credentials_that_are_wrong_end_the_attempt_at_once(
    make_broker: MakeBroker, tmp_path: Path, workers: str
) -> None:
    broker = make_broker(**credentials.settings(tmp_path), magnetarWorkers=workers)
    for auth in (None, Token(token("alice", -60)), Token("x.y.z"), Basic("alice", "wrong")):
        # An attempt that is repeated would end by the time limit, with OperationTimeout.
        async with magnetar.connect(
            broker.service_url, auth=auth, operation_timeout_s=60
        ) as client:
            with pytest.raises(NotAuthenticated) as caught:
                await client.producer(TOPICS[0])
            assert "wrong" not in str(caught.value) and "x.y.z" not in str(caught.value)


@WORKERS
async def test_credentials_are_renewed_under_load(
    make_broker: MakeBroker, tmp_path: Path, workers: str
) -> None:
    broker = make_broker(
        **credentials.settings(tmp_path), magnetarWorkers=workers,
        authenticationRefreshCheckSeconds="1",
    )  # fmt: skip
    asked = 0

    def fresh() -> str:
        nonlocal asked
        asked += 1
        return token("alice", 2)

    async with magnetar.connect(broker.service_url, auth=Token(fresh)) as client:
        consumer = await client.subscribe(TOPICS[0], "s")
        producer = await client.producer(TOPICS[0])
        opened, sent, received = asked, 0, 0
        # Each connection has been asked twice: once more than by what its first token allows.
        while asked < 3 * opened:
            await producer.send_batch([b"x"] * 10)
            sent += 10
            received += len(await consumer.receive_batch(timeout_s=60))
        while received < sent:
            received += len(await consumer.receive_batch(timeout_s=60))
    assert received == sent, "a connection that is renewed loses and repeats nothing"


async def test_a_renewal_that_is_refused_reconnects(
    make_broker: MakeBroker, tmp_path: Path
) -> None:
    broker = make_broker(
        **credentials.settings(tmp_path), authenticationRefreshCheckSeconds="1"
    )  # fmt: skip
    given: list[str] = []

    def next_token() -> str:
        if not is_open:
            return token("alice", 2)
        given.append(token("alice", -60) if not given else token("alice", 600))
        return given[-1]

    is_open = False
    async with magnetar.connect(broker.service_url, auth=Token(next_token)) as client:
        producer = await client.producer(TOPICS[0])
        is_open = True
        async with asyncio.timeout(60):
            while len(given) < 2:
                await producer.send(b"x")
        for _ in range(100):
            await producer.send(b"x")


async def test_credentials_that_end_for_good_end_the_producer(
    make_broker: MakeBroker, tmp_path: Path
) -> None:
    broker = make_broker(**credentials.settings(tmp_path), authenticationRefreshCheckSeconds="1")
    only = token("alice", 2)
    async with magnetar.connect(broker.service_url, auth=Token(only)) as client:
        producer = await client.producer(TOPICS[0])
        with pytest.raises(NotAuthenticated):
            async with asyncio.timeout(60):
                while True:
                    await producer.send(b"x")
        with pytest.raises((NotAuthenticated, OperationTimeout)):
            await client.producer(TOPICS[1])
