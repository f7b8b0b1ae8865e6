"""Chunked messages of a shared subscription: one consumer gets all chunks of a message."""

from collections.abc import Iterable

from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.offset_queue import OffsetQueue
from magnetar_proto.chunks import Chunk
from magnetar_storage.cursors.cursor import Cursor

REMEMBERED = 10_000
"""The most messages that are remembered while their last chunk is missing.  The missing chunks of
older ones go to any consumer."""

Parts = dict[int, None]
"""Offsets, each once, in the order in which they were given."""


class ChunkedMessages:
    """The owners of messages that were delivered in part, and the chunks that wait for them.

    If no consumer has the first chunk of a message, because it was acknowledged, trimmed or lost,
    the next chunk goes to any consumer, as a first chunk does.
    """

    def __init__(self) -> None:
        self._owners: dict[bytes, Consumer] = {}
        self._begun: dict[bytes, Parts] = {}  # chunks sent so far, of the same messages
        self._parts: dict[int, Parts] = {}  # by pending chunk, all chunks of its message
        self._waiting: dict[Consumer, OffsetQueue] = {}

    def __bool__(self) -> bool:
        """Return whether any chunk waits."""
        return bool(self._waiting)

    def __len__(self) -> int:
        """Return the number of chunks that wait."""
        return sum(map(len, self._waiting.values()))

    def owner(self, chunk: Chunk) -> Consumer | None:
        """Return the consumer that must get a chunk; None if any may."""
        return self._owners.get(chunk.uuid)

    def sent(self, chunk: Chunk, consumer: Consumer, offset: int) -> None:
        """Note that a chunk was sent to a consumer, which owns the missing chunks from now on."""
        self._owners.pop(chunk.uuid, None)
        parts = self._begun.pop(chunk.uuid, {})
        # The message starts over, after a redelivery or because its producer has sent it again.
        if chunk.number == 0:
            parts = {}
        parts[offset] = None
        self._parts[offset] = parts
        if not chunk.is_last:
            self._owners[chunk.uuid] = consumer
            self._begun[chunk.uuid] = parts
            # A producer may never send the last chunk: without a bound such messages would add up.
            if len(self._owners) > REMEMBERED:
                oldest = next(iter(self._owners))
                del self._owners[oldest], self._begun[oldest]

    @property
    def are_held(self) -> bool:
        """Whether chunks are pending at consumers."""
        return bool(self._parts)

    def with_their_messages(self, offsets: Iterable[int]) -> list[int]:
        """Return the entries, and for each chunk among them the other chunks of its message."""
        found: Parts = {}
        for offset in offsets:
            if offset not in found:  # a client may name all chunks of a message
                found.update(self._parts.get(offset, {offset: None}))
        return list(found)

    def wait(self, consumer: Consumer, offset: int) -> None:
        """Queue a chunk for the only consumer that may get it."""
        self._waiting.setdefault(consumer, OffsetQueue()).add(offset)

    def waits_for(self, consumer: Consumer) -> bool:
        """Return whether chunks wait for this consumer: further ones must queue behind them."""
        return consumer in self._waiting

    def take_queues(self) -> list[tuple[Consumer, OffsetQueue]]:
        """Return the queue of each consumer; call `put_back` with every one, empty or not."""
        queues, self._waiting = list(self._waiting.items()), {}
        return queues

    def put_back(self, consumer: Consumer, queue: OffsetQueue) -> None:
        """Put the rest of a queue back among the waiting chunks."""
        # Further chunks were queued for the consumer while its queue was taken, and are put
        # together with those that are left.
        if queue and consumer in self._waiting:
            queue.move_to(self._waiting[consumer])
        elif queue:
            self._waiting[consumer] = queue

    def consumer_left(self, consumer: Consumer, waiting: OffsetQueue) -> None:
        """Remove a consumer: its messages lose their owner, and its chunks move to `waiting`."""
        # promise[without if owner != consumer]: messages of a consumer that left go to another one
        self._owners = {uuid: owner for uuid, owner in self._owners.items() if owner != consumer}
        self._begun = {uuid: self._begun[uuid] for uuid in self._owners}
        queue = self._waiting.pop(consumer, None)
        if queue is not None:
            queue.move_to(waiting)

    def requeue(self, waiting: OffsetQueue) -> None:
        """Move all chunks to `waiting`, which keeps them in order with redelivered entries."""
        for queue in self._waiting.values():
            queue.move_to(waiting)
        self._waiting.clear()

    def discard_all(self, offsets: range) -> None:
        """Remove consecutive entries, for instance because they were acknowledged."""
        # Called for every acknowledgement: without pending chunks there is nothing to look up.
        for offset in offsets if self._parts else ():
            self._parts.pop(offset, None)
        for queue in self._waiting.values():
            queue.discard_all(offsets)
        self._waiting = {consumer: queue for consumer, queue in self._waiting.items() if queue}

    def discard_acked(self, cursor: Cursor) -> None:
        """Remove acknowledged entries."""
        self._parts = {o: parts for o, parts in self._parts.items() if not cursor.is_acked(o)}
        for queue in self._waiting.values():
            queue.discard_acked(cursor)
        self._waiting = {consumer: queue for consumer, queue in self._waiting.items() if queue}

    def clear(self) -> None:
        """Remove all chunks."""
        self._owners.clear()
        self._begun.clear()
        self._parts.clear()
        self._waiting.clear()
