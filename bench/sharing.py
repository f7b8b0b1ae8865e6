"""Consumers that share a subscription, each on its own connection, and acknowledge one by one."""

import asyncio
from contextlib import AsyncExitStack

from bench.connection import (
    SHARED,
    SUBSCRIPTION,
    Connection,
    connected,
    open_consumer,
    open_producer,
)
from bench.consuming import EachReceiver, EntryId
from bench.frames import Load, Shape
from bench.publishing import Publisher
from bench.scenarios import WARM_UP_PERCENT, Trial
from bench.usage import Measures
from magnetar_proto import PulsarApi_pb2 as pb

PERMITS = 1000
CONSUMERS = 10
KEY_SHARED = pb.CommandSubscribe.Key_Shared


class Team:
    """All consumers of the subscription together."""

    def __init__(self) -> None:
        self.entries = 0
        self._awaited = 0
        self._done: asyncio.Future[None] | None = None

    async def receive(self, entries: int, connection: Connection) -> None:
        """Wait until all consumers together have received `entries`."""
        self._awaited, self._done = entries, connection.promise()
        self.took([])
        await self._done

    def took(self, ids: list[EntryId]) -> None:
        """Count the entries that a consumer took."""
        self.entries += len(ids)
        done = self._done
        if done is not None and not done.done() and self.entries >= self._awaited:
            done.set_result(None)


def share(trial: Trial, shape: Shape, entries: int) -> Measures:
    """Publish as fast as possible to consumers that share a subscription.

    The subscription is Key_Shared if the shape has keys, else Shared.
    """
    sub_type = KEY_SHARED if shape.keys else SHARED
    warm_up, rest = trial.load(shape, entries).split(WARM_UP_PERCENT)

    async def work() -> Measures:
        async with AsyncExitStack() as stack:
            team = Team()
            for _ in range(CONSUMERS):
                connection = await stack.enter_async_context(connected(trial.server.port))
                await open_consumer(connection, trial.topic, SUBSCRIPTION, sub_type)
                EachReceiver(connection, PERMITS, team.took)
            connection = await stack.enter_async_context(connected(trial.server.port))
            await open_producer(connection, trial.topic)
            publisher = Publisher(connection)

            async def deliver(load: Load) -> int:
                await publisher.publish(load, trial.seconds)
                await team.receive(publisher.sent, connection)
                return team.entries

            before = await deliver(warm_up)
            meter = trial.meter(trial.server.pid)
            return meter.stop((await deliver(rest) - before) * shape.batch)

    return trial.run(work)
