"""Chunked messages of a shared subscription: one consumer gets all chunks of a message."""

from collections.abc import Iterable

from magnetar_broker.dispatch.replay import ReplayQueue
from magnetar_broker.subscribing.consumer import Consumer
from magnetar_proto.chunks import Chunk
from magnetar_storage.cursor import Cursor

REMEMBERED = 10_000
"""Messages of which a consumer has only some chunks; the rest of those beyond goes to anybody."""

Parts = dict[int, None]
"""Offsets, each once, in the order in which they were given."""


class ChunkedMessages:
    """Who has the beginning of which message, and which chunks wait for whom.

    A chunk whose beginning nobody has, because it was acknowledged, trimmed or lost, is as good
    as a beginning.
    """

    def __init__(self) -> None:
        self._owners: dict[bytes, Consumer] = {}
        self._begun: dict[bytes, Parts] = {}  # what of the same messages was given
        self._parts: dict[int, Parts] = {}  # of every chunk that is held, its whole message
        self._waiting: dict[Consumer, ReplayQueue] = {}

    def __bool__(self) -> bool:
        """Whether any chunk waits."""
        return bool(self._waiting)

    def __len__(self) -> int:
        """Chunks that wait."""
        return sum(map(len, self._waiting.values()))

    def owner(self, chunk: Chunk) -> Consumer | None:
        """Who must get a chunk, if not anybody."""
        return self._owners.get(chunk.uuid)

    def given(self, chunk: Chunk, consumer: Consumer, offset: int) -> None:
        """A consumer was sent a chunk: it gets those that are missing, too."""
        self._owners.pop(chunk.uuid, None)
        parts = self._begun.pop(chunk.uuid, {})
        if chunk.number == 0:
            parts = {}
        parts[offset] = None
        self._parts[offset] = parts
        if not chunk.is_last:
            self._owners[chunk.uuid] = consumer
            self._begun[chunk.uuid] = parts
            if len(self._owners) > REMEMBERED:
                oldest = next(iter(self._owners))
                del self._owners[oldest], self._begun[oldest]

    @property
    def are_held(self) -> bool:
        """Whether consumers hold chunks."""
        return bool(self._parts)

    def with_their_messages(self, offsets: Iterable[int]) -> list[int]:
        """These entries, and of chunks among them the other chunks that were given with them."""
        found: Parts = {}
        for offset in offsets:
            if offset not in found:  # all chunks of a message may be named
                found.update(self._parts.get(offset, {offset: None}))
        return list(found)

    def wait(self, consumer: Consumer, offset: int) -> None:
        """A chunk that only this consumer may get, when it can."""
        self._waiting.setdefault(consumer, ReplayQueue()).add(offset)

    def waits_for(self, consumer: Consumer) -> bool:
        """Whether chunks wait: further ones queue behind them."""
        return consumer in self._waiting

    def take_queues(self) -> list[tuple[Consumer, ReplayQueue]]:
        """What waits for whom; `put_back` every queue, whatever is left in it."""
        queues, self._waiting = list(self._waiting.items()), {}
        return queues

    def put_back(self, consumer: Consumer, queue: ReplayQueue) -> None:
        """Let the rest of a queue wait again."""
        if queue and consumer in self._waiting:
            queue.move_to(self._waiting[consumer])
        elif queue:
            self._waiting[consumer] = queue

    def left(self, consumer: Consumer, replay: ReplayQueue) -> None:
        """The consumer has gone: its messages begin anew, what waited for it goes to `replay`."""
        self._owners = {uuid: owner for uuid, owner in self._owners.items() if owner != consumer}
        self._begun = {uuid: self._begun[uuid] for uuid in self._owners}
        queue = self._waiting.pop(consumer, None)
        if queue is not None:
            queue.move_to(replay)

    def queue_anew(self, replay: ReplayQueue) -> None:
        """What waits goes to `replay`, where it is in order with what comes back."""
        for queue in self._waiting.values():
            queue.move_to(replay)
        self._waiting.clear()

    def discard_all(self, offsets: range) -> None:
        """Forget consecutive entries, for instance because they were acknowledged."""
        for offset in offsets if self._parts else ():
            self._parts.pop(offset, None)
        for queue in self._waiting.values():
            queue.discard_all(offsets)
        self._waiting = {consumer: queue for consumer, queue in self._waiting.items() if queue}

    def discard_acked(self, cursor: Cursor) -> None:
        """Forget what is acknowledged."""
        self._parts = {o: parts for o, parts in self._parts.items() if not cursor.is_acked(o)}
        for queue in self._waiting.values():
            queue.discard_acked(cursor)
        self._waiting = {consumer: queue for consumer, queue in self._waiting.items() if queue}

    def clear(self) -> None:
        """Forget all."""
        self._owners.clear()
        self._begun.clear()
        self._parts.clear()
        self._waiting.clear()
