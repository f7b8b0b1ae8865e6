"""Shared: every entry goes to whichever consumer has room, round robin."""

from collections.abc import Sequence

from magnetar_broker.dispatch.base import Blocker, Stream, entries_within, part_of, runs_of
from magnetar_broker.dispatch.chunked import ChunkedMessages
from magnetar_broker.dispatch.many_active import ManyActive
from magnetar_broker.dispatch.replay import ReplayQueue
from magnetar_broker.dispatch.replay_feed import ReplayFeed
from magnetar_broker.dispatch.selection import RoundRobin
from magnetar_broker.subscribing.consumer import Consumer
from magnetar_proto.chunks import Chunk, chunks_among
from magnetar_storage.interfaces import Run


class Shared(ManyActive):
    """Entries to be delivered again go before new ones, and so do chunks that wait for a consumer.

    Of new entries that cannot be read those behind them do not wait: they count as to be
    delivered again.
    """

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self._turns: RoundRobin[Consumer] = RoundRobin()
        self._replay = ReplayQueue()
        self._chunked = ChunkedMessages()
        self._chunk_feed = ReplayFeed(self._log, self.dispatch)

    @property
    def in_replay(self) -> int:
        return len(self._replay) + len(self._chunked)

    # Consumers and what waits ---------------------------------------------------------

    def _joined(self, consumer: Consumer) -> None:
        self._turns.add(consumer)
        self._replay.restore()
        self._chunk_feed.retry()

    def _left(self, consumer: Consumer) -> None:
        self._turns.remove(consumer)
        self._chunked.left(consumer, self._replay)

    def _wait(self, offsets: Sequence[int]) -> None:
        self._chunked.queue_anew(self._replay)  # earlier chunks may come back
        self._replay.add_all(offsets)

    def redeliver(self, consumer: Consumer, offsets: Sequence[int] | None) -> None:
        """As for all; some clients name one chunk of a message that they want again."""
        if offsets is not None and self._chunked.are_held:
            offsets = self._chunked.with_their_messages(offsets)
        super().redeliver(consumer, offsets)

    def _settled(self, offsets: Sequence[int]) -> None:
        if not self._replay and not self._chunked and not self._chunked.are_held:
            return
        for run in runs_of(offsets):
            self._replay.discard_all(run)
            self._chunked.discard_all(run)

    def _forget_acked(self) -> None:
        self._replay.discard_acked(self._cursor)
        self._chunked.discard_acked(self._cursor)

    def _forget_waiting(self) -> None:
        self._replay.clear()
        self._chunked.clear()
        self._chunk_feed.clear()

    # Delivering -------------------------------------------------------------------

    def dispatch(self) -> None:
        if self._chunked:
            self._give_chunks()
        while (consumer := self._turns.next()) is not None:
            again = self._replay and self._give_waiting(consumer, self._replay, self._replay_feed)
            if not again and not self._give_new(consumer):
                return

    def _give_chunks(self) -> None:
        """Give consumers what waits for them alone."""
        for consumer, queue in self._chunked.take_queues():
            while consumer.can_take() and self._give_waiting(consumer, queue, self._chunk_feed):
                pass
            self._chunked.put_back(consumer, queue)
        if not self._chunked:
            self._chunk_feed.clear()

    def _give_waiting(self, consumer: Consumer, queue: ReplayQueue, feed: ReplayFeed) -> bool:
        """Give a run of a queue; False when that is empty or not in memory yet."""
        if not self._held.may_go():
            return False
        room = self._held.room(consumer)
        limit = max(1, min(self._limits.max_round_robin_entries, room))
        while (found := queue.first_run(limit)) is not None:
            offset, length = found
            if self._is_over(offset):
                queue.discard(offset)
                continue
            run = feed.take(offset, length, self._limits.max_read_bytes, queue.__iter__)
            if run is not None:
                self._give(consumer, run, room, queue)
                return True
            lost = feed.give_up()
            if not lost:
                return False
            if queue is not self._replay:
                queue.move_to(self._replay)
            self._replay.set_aside(lost)  # what is behind the damage must not wait for it
        if queue is self._replay:
            feed.clear()
        return False

    def _is_over(self, offset: int) -> bool:
        """Whether an entry need not wait: it is acknowledged, trimmed, or told when it is due."""
        if offset < self._log.first_offset or self._cursor.is_acked(offset):
            return True
        return offset in self._delays.waiting

    def _give_new(self, consumer: Consumer) -> bool:
        """Give new entries; False when there are none or the subscription is full."""
        if self.read_offset >= self._log.end:
            self._feed.clear()
            return False
        room = self._held.room_for_new(consumer)
        if self._held.full is not None or not self._held.may_go():
            return False
        limit = max(1, min(self._limits.max_round_robin_entries, room))
        offset = self.read_offset = self._next_new()
        size = self._held.bytes_of(self._limits.max_read_bytes)
        run = self._feed.take(offset, limit, size)
        if run is None:
            return bool(self._pass_over(self._replay))
        self._give(consumer, run, room, None)
        return self.read_offset > offset

    def _give(self, consumer: Consumer, run: Run, room: int, queue: ReplayQueue | None) -> None:
        """Send what may be delivered of a run, as far as there is room for messages.

        It comes out of a queue, or is new.
        """
        for part, ack_set in self._deliverable(run):
            chunks = chunks_among(part.payloads)
            if chunks:
                room = self._give_mixed(consumer, part, chunks, ack_set, room, queue)
            else:
                room = self._give_part(consumer, part, ack_set, room, queue)
            if room <= 0:
                return

    def _give_mixed(
        self,
        consumer: Consumer,
        part: Run,
        chunks: dict[int, Chunk],
        ack_set: tuple[int, ...],
        room: int,
        queue: ReplayQueue | None,
    ) -> int:
        """Send entries of which those at the indexes of `chunks` are chunks; the room left."""
        at = part.first
        for index, chunk in chunks.items():
            offset = part.first + index
            if at < offset:
                usual = part_of(part, at, offset)
                room = self._give_part(consumer, usual, ack_set, room, queue)
            if room > 0:
                one = part_of(part, offset, offset + 1)
                room = self._give_chunk(consumer, one, chunk, ack_set, room, queue)
            if room <= 0:
                return 0
            at = offset + 1
        rest = part_of(part, at, part.first + len(part.payloads))
        return self._give_part(consumer, rest, ack_set, room, queue) if rest.payloads else room

    def _give_part(
        self,
        consumer: Consumer,
        part: Run,
        ack_set: tuple[int, ...],
        room: int,
        queue: ReplayQueue | None,
    ) -> int:
        """Send entries as far as there is room; the last may exceed it.  What is left of it."""
        messages = sum(part.counts)
        if messages > room:
            part = part_of(part, part.first, part.first + entries_within(part.counts, room))
            messages = sum(part.counts)
        if ack_set:
            self._give_one(consumer, part.first, part.payloads[0], messages, ack_set)
        else:
            self._give_run(consumer, part, messages)
        self._passed(range(part.first, part.first + len(part.payloads)), queue)
        self._turns.served(consumer)
        return room - messages

    def _passed(self, offsets: range, queue: ReplayQueue | None) -> None:
        """Entries do not wait (here) any more."""
        if queue is None:
            self.read_offset = offsets.stop
        else:
            queue.discard_all(offsets)

    def _give_chunk(
        self,
        consumer: Consumer,
        one: Run,
        chunk: Chunk,
        ack_set: tuple[int, ...],
        room: int,
        queue: ReplayQueue | None,
    ) -> int:
        """Send a chunk to who has its beginning, or let it wait for that one.

        The room left; 0 when it must stay where it is.
        """
        owner = self._chunked.owner(chunk)
        queued = owner is not None and self._chunked.waits_for(owner)
        taker = owner or consumer
        if queue is None and chunk.number > 0 and self._replay.ready:
            self._replay.add(one.first)  # its beginning may be there
        elif not queued and taker.can_take() and self._room(taker, queue) > 0:
            self._chunked.given(chunk, taker, one.first)
            self._give_part(taker, one, ack_set, self._room(taker, queue), queue)
            return self._room(consumer, queue)
        elif not queued and taker is consumer:
            return 0
        else:
            self._chunked.wait(taker, one.first)
        self._passed(range(one.first, one.first + 1), queue)
        return room

    def _room(self, consumer: Consumer, queue: ReplayQueue | None) -> int:
        return self._held.room_for_new(consumer) if queue is None else self._held.room(consumer)

    # Telling why ------------------------------------------------------------------

    def blocker(self) -> Blocker:
        if not self._held.consumers:
            return Blocker.NO_CONSUMER
        reason = self._nothing_goes()
        if reason is not None:
            return reason
        if self._replay.ready:
            return Blocker.DAMAGE if self._replay_feed.failure else Blocker.READING
        if self._next_new() < self._log.end:
            return self._held.full or (Blocker.DAMAGE if self._feed.failure else Blocker.READING)
        if self._chunked:
            able = any(c.can_take() and self._chunked.waits_for(c) for c in self._held.consumers)
            return Blocker.READING if able else Blocker.CHUNK
        return Blocker.DAMAGE
