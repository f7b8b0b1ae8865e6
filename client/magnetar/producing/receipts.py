"""The outcome of sent messages."""

import asyncio
from collections.abc import Callable, Generator
from typing import Any

from magnetar.producing.batching import Batch
from magnetar_proto.ids import ChunkedMessageId, MessageId


class Receipt:
    """The outcome of one message; awaiting it returns the MessageId, or raises the error."""

    __slots__ = ("_batch", "_index", "_partition")

    def __init__(self, batch: Batch, index: int, partition: int) -> None:
        self._batch = batch
        self._index = index
        self._partition = partition

    def __await__(self) -> Generator[Any, None, MessageId]:
        yield from self.settled().__await__()
        return self.id()

    async def settled(self) -> None:
        """Wait until the outcome is known, success or error."""
        if not self._batch.done.done():
            # Waiting this way does not cancel the shared outcome when the waiter is cancelled.
            await asyncio.wait([self._batch.done])

    def done(self) -> bool:
        """Tell whether the outcome is known."""
        return self._batch.done.done()

    def on_done(self, report: Callable[["Receipt"], None]) -> None:
        """Call `report` with this receipt, in the event loop, once the outcome is known."""
        self._batch.done.add_done_callback(lambda _: report(self))

    @property
    def error(self) -> BaseException | None:
        """The reason why the message was not stored, if known; None if it was stored."""
        return self._batch.done.exception()

    def notice(self) -> None:
        """Mark the outcome as seen: `flush` will not raise it."""
        self._batch.is_noticed = True

    def id(self) -> MessageId:
        """Return the MessageId if the message was stored; otherwise raise the error."""
        self._batch.is_noticed = True
        return self.stored_id()

    def stored_id(self) -> MessageId:
        """Return the same as `id`, without marking the outcome as seen."""
        ledger, entry = self._batch.done.result()
        first = self._batch.first_chunk
        if first is not None:
            return ChunkedMessageId(ledger, entry, self._partition, first)
        index = self._index if len(self._batch.messages) > 1 else -1
        return MessageId(ledger, entry, index, self._partition)
