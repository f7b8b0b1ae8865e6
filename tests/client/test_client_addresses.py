"""A service URL with several addresses: the client goes on with one that works."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

import magnetar
from fakes.client_clock import ManualClock
from fakes.waiting import until
from frame_proxy import FrameProxy
from running_broker import RunningBroker


class Silent:
    """A port that accepts connections and never answers."""

    def __init__(self) -> None:
        self.accepted = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.append(writer)

    def close(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()


@pytest.fixture
async def silent() -> AsyncIterator[Silent]:
    made = Silent()
    await made.start()
    yield made
    made.close()


def new_topic() -> str:
    return f"persistent://public/default/addresses-{uuid.uuid4().hex[:10]}"


async def test_an_address_that_does_not_answer_is_left(
    broker: RunningBroker, silent: Silent, clock: ManualClock
) -> None:
    url = f"pulsar://127.0.0.1:{silent.port},127.0.0.1:{broker.port}"
    async with magnetar.connect(url, clock=clock) as client:
        opening = asyncio.create_task(client.producer(new_topic()))
        await until(lambda: silent.accepted, "the first address is tried")
        clock.advance(10)
        await (await opening).send(b"x")
        for _ in range(2):
            await (await client.producer(new_topic())).send(b"x")
    assert silent.accepted == 1


async def test_it_goes_on_with_the_next_address_when_one_fails(broker: RunningBroker) -> None:
    topic = new_topic()
    async with FrameProxy(broker.port) as second, FrameProxy(broker.port) as first:
        url = f"pulsar://127.0.0.1:{first.port},127.0.0.1:{second.port}"
        async with magnetar.connect(url, backoff_first_ms=10) as client:
            producer = await client.producer(topic)
            await producer.send(b"one")
            assert first.seen and not second.seen
            first._server.close()
            first.cut()
            await producer.send(b"two")
            await until(lambda: second.seen, "the second address is used")
            reader = await client.reader(topic)
            assert [(await reader.read(60)).value for _ in range(2)] == [b"one", b"two"]
