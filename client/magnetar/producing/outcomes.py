"""The outcomes of the batches of one producer."""

import asyncio
from collections import deque

from magnetar.base.statistics import ProducerStatistics
from magnetar.producing.batching import Batch
from magnetar.producing.send_room import SendRoom

MAX_FAILURES_KEPT = 100
"""The number of failed batches kept: `flush` raises the first error not seen before."""


class Outcomes:
    """Reports the outcome of a batch to receipts, statistics, and tasks that wait for room."""

    def __init__(self, topic: str, room: SendRoom) -> None:
        self.counts = ProducerStatistics(topic)
        self._room = room
        self._failed: deque[Batch] = deque(maxlen=MAX_FAILURES_KEPT)

    def stored(self, batch: Batch, ledger: int, entry: int, took_s: float) -> None:
        """Record that the broker has stored a batch `took_s` seconds after it was sent."""
        self.counts.stored(len(batch.messages), batch.size, took_s)
        self._room.give_back(len(batch.messages), batch.size)
        batch.stored(ledger, entry)

    def rejected(self, batch: Batch, error: Exception) -> None:
        """Record that a batch is given up; its receipts raise the error."""
        self._room.give_back(len(batch.messages), batch.size)
        self.counts.failed_messages += len(batch.messages)
        if batch.txn is None:  # a transaction raises the failures of its messages
            self._failed.append(batch)
        batch.failed(error)

    async def seen(self, batches: list[Batch]) -> None:
        """Wait for these batches; raise the first error that the application has not seen."""
        if batches:
            await asyncio.wait([batch.done for batch in batches])
        unseen = [batch for batch in self._failed if not batch.is_noticed]
        self._failed.clear()
        if unseen:
            unseen[0].done.result()
