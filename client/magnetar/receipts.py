"""The outcome of messages that were sent."""

import asyncio
from collections.abc import Callable, Generator
from typing import Any

from magnetar.batching import Batch
from magnetar_proto.ids import ChunkedMessageId, MessageId


class Receipt:
    """The outcome of one message: awaiting it gives its MessageId, or raises."""

    __slots__ = ("_batch", "_index", "_partition")

    def __init__(self, batch: Batch, index: int, partition: int) -> None:
        self._batch = batch
        self._index = index
        self._partition = partition

    def __await__(self) -> Generator[Any, None, MessageId]:
        yield from self.settled().__await__()
        return self.id()

    async def settled(self) -> None:
        """Wait for the outcome, whatever it is."""
        if not self._batch.done.done():
            # Waiting this way leaves the shared outcome alone when the waiter is cancelled.
            await asyncio.wait([self._batch.done])

    def done(self) -> bool:
        """Is the outcome known?"""
        return self._batch.done.done()

    def on_done(self, report: Callable[["Receipt"], None]) -> None:
        """Call `report` with this receipt, in the event loop, once the outcome is known."""
        self._batch.done.add_done_callback(lambda _: report(self))

    @property
    def error(self) -> BaseException | None:
        """Why the message was not stored, as far as is known; None if it was."""
        return self._batch.done.exception()

    def notice(self) -> None:
        """Mark the outcome as seen: `flush` will not raise it."""
        self._batch.is_noticed = True

    def id(self) -> MessageId:
        """The MessageId, if the message was stored; raises the failure otherwise."""
        self._batch.is_noticed = True
        return self.stored_id()

    def stored_id(self) -> MessageId:
        """As `id`, and the outcome stays unseen."""
        ledger, entry = self._batch.done.result()
        first = self._batch.first_chunk
        if first is not None:
            return ChunkedMessageId(ledger, entry, self._partition, first)
        index = self._index if len(self._batch.messages) > 1 else -1
        return MessageId(ledger, entry, index, self._partition)
