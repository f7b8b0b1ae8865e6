"""The client while its topic moves to another process of the broker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import magnetar
from fakes.workers import Group, address, group

TIMEOUT_S = 60.0
NEVER_MS = 600_000
"""A pause that no test survives."""
TOPIC = "persistent://public/default/t12"
FORMER, OWNER = 1, 0
assert len(TOPIC) % 2 == FORMER


class Clients:
    """A producer and a consumer of a topic that one of two workers serves."""

    def __init__(
        self, workers: Group, producer: magnetar.Producer, consumer: magnetar.Consumer
    ) -> None:
        self.workers = workers
        self._producer = producer
        self._consumer = consumer
        self._opening_lookups = workers.lookups

    @property
    def lookups(self) -> int:
        """Those since the clients were opened."""
        return self.workers.lookups - self._opening_lookups

    async def exchange(self, value: bytes) -> None:
        """Send a message, and receive it."""
        await self._producer.send(value)
        message = await self._consumer.receive(TIMEOUT_S)
        assert message.value == value
        self._consumer.ack(message)
        await self._consumer.flush()

    def relays(self) -> bool:
        """Whether a worker relays to another one."""
        return any(
            connection.session.relay is not None
            for worker in self.workers.workers
            for connection in worker.listener.connections
        )


@asynccontextmanager
async def clients(backoff_first_ms: int) -> AsyncIterator[Clients]:
    async with group() as workers:
        url = f"pulsar://127.0.0.1:{workers.port}"
        async with magnetar.connect(url, backoff_first_ms=backoff_first_ms) as client:
            producer = await client.producer(TOPIC)
            # The next owner of the topic does not have the subscription.
            consumer = await client.subscribe(TOPIC, "s", initial_position="earliest")
            opened = Clients(workers, producer, consumer)
            await opened.exchange(b"before")
            assert workers.serving(TOPIC) == [FORMER]
            yield opened


async def test_it_goes_to_the_new_owner_at_once_and_without_a_lookup() -> None:
    async with clients(NEVER_MS) as opened:
        for number in range(6):
            owner = (OWNER, FORMER)[number % 2]
            await opened.workers.move(TOPIC, owner, f"pulsar://{address(owner)}")
            await opened.exchange(b"%d" % number)
            assert opened.workers.serving(TOPIC) == [owner]
        assert opened.lookups == 0
        assert not opened.relays()


@pytest.mark.parametrize(
    "told",
    ["pulsar://127.0.0.1:999", "pulsar+ssl://elsewhere:1", "elsewhere", ""],
    ids=["an unknown process", "a URL with TLS", "no URL", "nobody"],
)
async def test_it_looks_up_if_it_does_not_reach_the_new_owner(told: str) -> None:
    async with clients(1) as opened:
        await opened.workers.move(TOPIC, OWNER, told)
        await opened.exchange(b"after")
        assert opened.workers.serving(TOPIC) == [OWNER]
        assert opened.lookups >= 2
