"""Benchmark of a subscription with a million ack holes: acks, memory, restart after a crash."""

import asyncio
import time
from random import Random

from bench.connection import (
    CONSUMER_ID,
    SHARED,
    SUBSCRIPTION,
    Command,
    Connection,
    LoadError,
    connected,
    open_consumer,
    open_producer,
)
from bench.consuming import PERMITS, EachReceiver, EntryId
from bench.frames import Shape
from bench.publishing import Publisher
from bench.scenarios import STALL_SECONDS, Trial
from bench.usage import Measures, memory
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import encode_ack
from magnetar_proto.sends import decode_receipt

ACK_IDS = 100
"""The ids in each ACK; clients gather up to 1000."""
ACKS_ON_THEIR_WAY = 50


def holes(trial: Trial, shape: Shape, entries: int) -> Measures:
    """Acknowledge every other entry, kill -9, and receive the others; count repeated deliveries."""
    load = trial.load(shape, entries)
    ids: list[EntryId] = []

    async def fill_and_acknowledge() -> Measures:
        async with connected(trial.server.port) as connection:
            await open_consumer(connection, trial.topic, SUBSCRIPTION, SHARED)
            await open_producer(connection, trial.topic)
            publisher = Publisher(connection)
            note_ids(connection, ids)
            if await publisher.publish(load, STALL_SECONDS) < load.entries:
                raise LoadError(f"only {len(ids)} of {load.entries} entries were stored in time")
            acked = ids[1::2]
            Random(7).shuffle(acked)
            before = memory(trial.server.pid).rss
            meter = trial.meter(trial.server.pid)
            await acknowledge(connection, acked)
            measures = meter.stop(len(acked))
            return measures | {"holes_mib": memory(trial.server.pid).rss - before}

    measures = trial.run(fill_and_acknowledge)
    trial.server.kill()
    trial.server.start()

    async def receive_the_rest() -> Measures:
        async with connected(trial.server.port) as connection:
            await open_consumer(connection, trial.topic, SUBSCRIPTION, SHARED)
            rest = Rest(connection, set(ids[::2]))
            await rest.received
            first_ms = (rest.first_at - trial.server.started_at) * 1000
            seconds = time.perf_counter() - rest.first_at
            await connection.call(pb.CommandPing())
            return {
                "first_ms": first_ms,
                "rest_per_s": len(ids[::2]) / seconds,
                "came_again": rest.came_again,
            }

    return measures | trial.run(receive_the_rest)


def note_ids(connection: Connection, ids: list[EntryId]) -> None:
    """Keep the id of every receipt that arrives; ids count up, in each ledger from 0."""
    inner = connection.on_receipts

    def noted(count: int, last: Command) -> None:
        ledger, entry = decode_receipt(*last)[3:]
        if entry + 1 < count:
            before, end = ids[-1]
            ids.extend((before, end + 1 + one) for one in range(count - entry - 1))
            count = entry + 1
        ids.extend((ledger, one) for one in range(entry + 1 - count, entry + 1))
        inner(count, last)

    connection.on_receipts = noted


async def acknowledge(connection: Connection, ids: list[EntryId]) -> None:
    """Acknowledge each entry by its id, in many commands; durable on return."""
    free = asyncio.Semaphore(ACKS_ON_THEIR_WAY)

    async def one(part: list[EntryId]) -> None:
        async with free:
            request_id = connection.request_id()
            body = [(ledger, entry, ()) for ledger, entry in part]
            kind = pb.CommandAck.Individual
            answer = await connection.ask(
                request_id, encode_ack(CONSUMER_ID, kind, body, request_id)
            )
            if answer.ackResponse.HasField("error"):
                raise LoadError(f"refused: {answer.ackResponse}")

    parts = (ids[at : at + ACK_IDS] for at in range(0, len(ids), ACK_IDS))
    async with asyncio.TaskGroup() as group:
        for part in parts:
            group.create_task(one(part))


class Rest:
    """Receives and acknowledges until all expected entries have arrived."""

    def __init__(self, connection: Connection, expected: set[EntryId]) -> None:
        self.received = connection.promise()
        self.first_at = 0.0
        self.came_again = 0
        """The entries that had been acknowledged, or arrived twice."""
        self._expected = expected
        EachReceiver(connection, PERMITS, self._took)

    def _took(self, ids: list[EntryId]) -> None:
        self.first_at = self.first_at or time.perf_counter()
        for one in ids:
            if one not in self._expected:
                self.came_again += 1
            self._expected.discard(one)
        if not self._expected and not self.received.done():
            self.received.set_result(None)
