"""The producers of a run, which publish at a rate, or as fast as receipts arrive."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from magnetar.base.errors import MagnetarError
from magnetar.cli.tools.perf.measuring import Measuring
from magnetar.producing.batching import SameMessages
from magnetar.producing.partition_producer import PartitionProducer

TURN_SECONDS = 0.001


@dataclass(frozen=True)
class Load:
    """The load to generate."""

    payload: bytes
    rate: float
    """The rate in messages per second of all producers together; 0: no limit."""
    messages: int
    """The number of messages after which the run ends; 0: no limit."""
    batch: int
    """The limit of messages in a batch."""
    delay_s: float
    """The time that a message waits for others, in seconds."""


class Producing:
    """Lets each producer send its share of the load."""

    def __init__(
        self, producers: Sequence[PartitionProducer], load: Load, measuring: Measuring
    ) -> None:
        self._producers = producers
        self._load = load
        self._measuring = measuring
        self._left = load.messages or None
        self._batches: dict[int, SameMessages] = {}

    async def run(self) -> None:
        """Send all messages, or until cancelled without limit; on return all have receipts.

        After a cancellation call `settle`.
        """
        share = self._load.rate / len(self._producers)
        async with asyncio.TaskGroup() as group:
            for producer in self._producers:
                if share:
                    group.create_task(self._at_rate(producer, share))
                else:
                    group.create_task(self._at_full_speed(producer))
        await self.settle()

    async def settle(self) -> None:
        """Wait for the receipts of sent messages; errors have been counted."""
        for producer in self._producers:
            try:
                await producer.flush()
            except MagnetarError:
                continue

    async def _at_full_speed(self, producer: PartitionProducer) -> None:
        while count := self._take(self._load.batch):
            while not producer.has_room():
                await producer.room()
            self._send(producer, count, time.perf_counter())
            await asyncio.sleep(0)

    async def _at_rate(self, producer: PartitionProducer, rate: float) -> None:
        """Send at a rate.  Latencies count from the time a message was due, so that a broker
        that stalls does not hide the delay."""
        began_s, sent = time.perf_counter(), 0
        pause_s = max(self._load.delay_s, TURN_SECONDS, 1 / rate)
        while True:
            due = int((time.perf_counter() - began_s) * rate) + 1 - sent
            while due > 0:
                count = self._take(min(due, self._load.batch))
                if not count:
                    return
                while not producer.has_room():
                    await producer.room()
                self._send(producer, count, began_s + sent / rate)
                sent, due = sent + count, due - count
            await asyncio.sleep(
                max(0.0, min(pause_s, began_s + sent / rate - time.perf_counter() + pause_s))
            )

    def _take(self, most: int) -> int:
        """Return how many messages may be sent, up to `most`, and count them."""
        if self._left is None:
            return most
        count = min(most, self._left)
        self._left -= count
        return count

    def _send(self, producer: PartitionProducer, count: int, due_s: float) -> None:
        same = self._batches.get(count)
        if same is None:
            same = self._batches[count] = SameMessages(self._load.payload, count)
        self._measuring.pending += count
        producer.send_packed(same).add_done_callback(partial(self._sent, count, due_s))

    def _sent(self, count: int, due_s: float, receipt: "asyncio.Future[tuple[int, int]]") -> None:
        self._measuring.pending -= count
        error = None if receipt.cancelled() else receipt.exception()
        if error is not None:
            self._measuring.failed(count, error)
        elif not receipt.cancelled():
            size = count * len(self._load.payload)
            self._measuring.done(count, size, time.perf_counter() - due_s)
