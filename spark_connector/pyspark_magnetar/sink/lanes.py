"""Lanes: one for each partition that a task writes to. They send, and collect the receipts."""

import asyncio
from collections import deque
from collections.abc import Iterable

import magnetar
from magnetar.batching import Packed
from magnetar.partition_producer import PartitionProducer
from magnetar.receipts import Receipt

Entry = Packed | magnetar.Outgoing[bytes]
"""What is stored as one: a batch, or a message by itself."""


class Lane:
    """Sends entries to one partition, and knows which of them have no receipt yet."""

    def __init__(
        self, producer: PartitionProducer, txn: magnetar.Transaction | None = None
    ) -> None:
        """With `txn` everything is of this transaction."""
        self.producer = producer
        self._txn = txn
        self.messages = 0
        """That were sent."""
        self.last_id: tuple[int, int] | None = None
        """Ledger and entry of the last one with a receipt."""
        self._pending: deque[asyncio.Future[tuple[int, int]] | Receipt] = deque()

    @property
    def last_sequence_id(self) -> int:
        """The highest that the broker has of this producer's name; -1: none."""
        return self.producer.last_sequence_id

    async def send(self, entries: Iterable[Entry]) -> None:
        """Send these in order, as fast as there is room; raises the failure of an earlier one."""
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
        """Wait until all is stored; raises the first failure."""
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
