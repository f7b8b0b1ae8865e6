"""Consumers that take messages as fast as they come and acknowledge them."""

import asyncio
import time
from collections.abc import Callable

from bench.connection import CONSUMER_ID, Command, Connection
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import encode_ack
from magnetar_proto.deliveries import decode_message, encode_flow

PERMITS = 20_000
"""The messages that a consumer takes ahead."""
EntryId = tuple[int, int]
"""A ledger and an entry."""


class Receiver:
    """Takes messages from now on, counts the entries, and acknowledges cumulatively."""

    def __init__(
        self, connection: Connection, batch: int = 1, published: Callable[[], int] = lambda: 0
    ) -> None:
        self.entries = 0
        self.arrivals: list[tuple[float, int]] = []
        """The arrival times, in seconds of `time.perf_counter`, with the number of entries."""
        self.most_behind = 0
        """The most entries that were published, according to `published`, and had not arrived."""
        self._connection = connection
        self._batch = batch
        self._used = 0
        self._published = published
        self._awaited = 0
        self._warm: tuple[int, Callable[[], None]] | None = None
        self._done: asyncio.Future[None]
        connection.on_messages = self._messages
        connection.write(encode_flow(CONSUMER_ID, PERMITS))

    def when_warm(self, entries: int, begin: Callable[[], None]) -> None:
        """Call `begin` when `entries` have arrived; an awaiting task would run much later."""
        self._warm = entries, begin

    async def receive(self, entries: int, seconds: float) -> None:
        """Wait until `entries` have arrived in total, or the time is over."""
        self._awaited = entries
        self._done = self._connection.promise()
        timer = asyncio.get_running_loop().call_later(seconds, self._end)
        if self.entries >= entries:
            self._end()
        try:
            await self._done
        finally:
            timer.cancel()

    def _end(self) -> None:
        self._awaited = 0
        if not self._done.done():
            self._done.set_result(None)

    def _messages(self, count: int, last: Command) -> None:
        self.most_behind = max(self.most_behind, self._published() - self.entries)
        self.entries += count
        self.arrivals.append((time.perf_counter(), count))
        self._acknowledge(count, last)
        if self._warm is not None and self._warm[0] <= self.entries:
            begin, self._warm = self._warm[1], None
            begin()
        if 0 < self._awaited <= self.entries:
            self._end()

    def _acknowledge(self, count: int, last: Command) -> None:
        delivery = decode_message(*last)
        message_id = (delivery.ledger, delivery.entry, ())
        self._connection.write(encode_ack(CONSUMER_ID, pb.CommandAck.Cumulative, [message_id]))
        self._used += count * self._batch
        if self._used >= PERMITS // 2:
            self._connection.write(encode_flow(CONSUMER_ID, self._used))
            self._used = 0


class EachReceiver:
    """Takes messages, `permits` ahead, and acknowledges each, those of one read together.

    `took` is called with the ids of the entries of each read.
    """

    def __init__(
        self, connection: Connection, permits: int, took: Callable[[list[EntryId]], None]
    ) -> None:
        self._connection = connection
        self._permits = permits
        self._took = took
        self._ids: list[EntryId] = []
        self._used = 0
        connection.on_message, connection.on_messages = self._message, self._messages
        connection.write(encode_flow(CONSUMER_ID, permits))

    def _message(self, message: Command) -> None:
        delivery = decode_message(*message)
        self._ids.append((delivery.ledger, delivery.entry))

    def _messages(self, count: int, last: Command) -> None:
        ids, self._ids = self._ids, []
        each = [(ledger, entry, ()) for ledger, entry in ids]
        self._connection.write(encode_ack(CONSUMER_ID, pb.CommandAck.Individual, each))
        self._used += count
        if self._used >= self._permits // 2:
            self._connection.write(encode_flow(CONSUMER_ID, self._used))
            self._used = 0
        self._took(ids)
