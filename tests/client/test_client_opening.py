"""Opening the partitions of a topic: all of them, or none stays open."""

import asyncio

import pytest

from magnetar.base.errors import Busy, Closed, MagnetarError
from magnetar.base.settings import Settings
from magnetar.client import Client
from magnetar_proto import PulsarApi_pb2 as pb

TOPIC = "persistent://public/default/t"


class Part:
    """A producer or consumer of one partition: opens at once, never, or fails."""

    def __init__(self, error: MagnetarError | None = None, waits: bool = False) -> None:
        self.error = error
        self.waits = waits
        self.is_opening = asyncio.Event()
        self.is_open = self.is_closed = False

    async def open(self) -> None:
        self.is_opening.set()
        if self.error is not None:
            raise self.error
        if self.waits:
            await asyncio.Event().wait()
        self.is_open = True

    async def close(self) -> None:
        self.is_closed = True

    def forked(self, error: Closed) -> None:
        raise error


class PartitionedClient(Client):
    """Opens `parts` for whatever topic."""

    def __init__(self, parts: list[Part]) -> None:
        super().__init__("pulsar://127.0.0.1:1", Settings())
        self.parts = parts

    async def partitions(self, topic: str) -> list[str]:
        return [f"{topic}-partition-{index}" for index in range(len(self.parts))]

    async def open(self) -> list[Part]:
        return await self._open_all(TOPIC, lambda name, index: self.parts[index])


async def test_an_error_of_one_partition_closes_all_and_is_raised_alone() -> None:
    refusal = Busy(pb.ConsumerBusy, "taken")
    client = PartitionedClient([Part(), Part(refusal), Part(waits=True)])
    with pytest.raises(Busy) as raised:
        await client.open()
    assert raised.value is refusal
    assert all(part.is_closed for part in client.parts)


async def test_a_cancellation_closes_what_is_open() -> None:
    client = PartitionedClient([Part(), Part(waits=True)])
    opening = asyncio.create_task(client.open())
    await client.parts[1].is_opening.wait()
    assert client.parts[0].is_open
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert all(part.is_closed for part in client.parts)
    await client.close()
