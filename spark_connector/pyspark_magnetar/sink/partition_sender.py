"""Lanes: one for each partition that a task writes to. They send, and collect the receipts."""

import asyncio
from collections import deque
from collections.abc import Iterable

import magnetar
from magnetar.producing.batching import Packed
from magnetar.producing.partition_producer import PartitionProducer
from magnetar.producing.receipts import Receipt

Entry = Packed | magnetar.Outgoing[bytes]
"""The unit of storage: a batch, or a message by itself."""


class PartitionSender:
    """Sends entries to one partition, and waits for their receipts."""

    def __init__(
        self, producer: PartitionProducer, txn: magnetar.Transaction | None = None
    ) -> None:
        """With `txn`, everything sent belongs to this transaction."""
        self.producer = producer
        self._txn = txn
        self.messages = 0
        """The number of messages sent."""
        self.last_id: tuple[int, int] | None = None
        """The ledger and entry of the last entry with a receipt."""
        self._pending: deque[asyncio.Future[tuple[int, int]] | Receipt] = deque()

    @property
    def last_sequence_id(self) -> int:
        """The highest sequence id that the broker has for the producer's name; -1 if none."""
        return self.producer.last_sequence_id

    async def send(self, entries: Iterable[Entry]) -> None:
        """Send entries in order, as fast as there is room; raise the error of an earlier entry."""
        producer = self.producer
        for entry in entries:
            if not producer.has_room():
                await producer.room()
            if isinstance(entry, Packed):
                self.messages += len(entry)
                # promise[without , self._txn]: batches of rows are stored in the transaction
                self._pending.append(producer.send_packed(entry, self._txn))
            else:
                self.messages += 1
                self._pending.append(producer.add(entry, self._txn))
                producer.send_batch_now()
            while self._pending and self._pending[0].done():
                self._take_receipt()

    async def settle(self) -> None:
        """Wait until all entries are stored; raise the first error."""
        while self._pending:
            first = self._pending[0]
            if isinstance(first, Receipt):
                await first.settled()
            else:
                await asyncio.wait([first])
            self._take_receipt()

    def _take_receipt(self) -> None:
        first = self._pending.popleft()
        if isinstance(first, Receipt):
            stored = first.id()
            self.last_id = (stored.ledger, stored.entry)
        else:
            # promise[= -> = None if first.exception() else]: a task fails when a message was
            #   refused
            self.last_id = first.result()
