"""The Shared dispatcher: each entry is sent to the next consumer with room, round robin."""

from collections.abc import Sequence

from magnetar_broker.dispatch.base import Blocker, Stream, entries_within, part_of, runs_of
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.entry_source import blocker_of
from magnetar_broker.dispatch.multi_consumer import MultiConsumerDispatcher
from magnetar_broker.dispatch.offset_queue import OffsetQueue
from magnetar_broker.dispatch.scattered_source import ScatteredSource
from magnetar_broker.dispatch.selection import RoundRobin
from magnetar_proto.chunks import Chunk, chunks_among
from magnetar_storage.interfaces import Run


class Shared(MultiConsumerDispatcher):
    """The dispatcher of Shared: redelivered entries and waiting chunks go before new entries.

    New entries that cannot be read are set aside among those that wait, so that delivery goes on
    after them.
    """

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self._turns: RoundRobin[Consumer] = RoundRobin()
        self._waiting = OffsetQueue()
        # Apart from the source of other waiting entries: each holds what is wanted next, and would
        # drop it when it is asked for the entries of the other.
        self._chunk_source = ScatteredSource(self._log, self.dispatch)

    @property
    def in_replay(self) -> int:
        return len(self._waiting) + len(self._chunked)

    # Consumers and what waits ---------------------------------------------------------

    def _joined(self, consumer: Consumer) -> None:
        self._turns.add(consumer)
        self._waiting.restore()
        self._chunk_source.retry()

    def _left(self, consumer: Consumer) -> None:
        self._turns.remove(consumer)
        self._chunked.consumer_left(consumer, self._waiting)

    def _wait(self, offsets: Sequence[int]) -> None:
        self._chunked.requeue(self._waiting)  # earlier chunks may be among the returned entries
        self._waiting.add_all(offsets)

    def _forget(self, offsets: Sequence[int]) -> None:
        # The usual case, for every acknowledgement: nothing waits.
        if not self._waiting and not self._chunked and not self._chunked.are_held:
            return
        for run in runs_of(offsets):
            self._waiting.discard_all(run)
            self._chunked.discard_all(run)

    def _forget_acked(self) -> None:
        self._waiting.discard_acked(self._cursor)
        self._chunked.discard_acked(self._cursor)

    def _forget_all(self) -> None:
        self._waiting.clear()
        self._chunked.clear()
        self._chunk_source.clear()

    # Delivering -------------------------------------------------------------------

    def _send_all(self) -> None:
        if self._chunked:  # first: their consumers may have room only now
            self._send_chunks()
        while (consumer := self._turns.next()) is not None:
            # Waiting entries are older, so they go before new ones, to whichever consumer is next.
            again = self._waiting and self._send_waiting(consumer, self._waiting, self._scattered)
            if not again and not self._send_new(consumer):
                break

    def _send_chunks(self) -> None:
        """Send chunks to the consumers that have the beginning of their messages."""
        for consumer, queue in self._chunked.take_queues():
            while consumer.can_take() and self._send_waiting(consumer, queue, self._chunk_source):
                pass
            self._chunked.put_back(consumer, queue)
        if not self._chunked:
            self._chunk_source.clear()

    def _send_waiting(
        self, consumer: Consumer, queue: OffsetQueue, source: ScatteredSource
    ) -> bool:
        """Send a run of a queue; return False if that is empty, or not in memory yet."""
        # promise: redelivered entries wait for the rate too
        if not self._receivers.admit_or_wait():
            return False
        room = self._receivers.room(consumer)
        # Send at least one: a batch may exceed the permits, which then become negative as in
        # Pulsar; otherwise a consumer with few permits would never receive a large batch.
        limit = max(1, min(self._limits.max_round_robin_entries, room))
        while (found := queue.first_run(limit)) is not None:
            offset, length = found
            if self._is_over(offset):
                queue.discard(offset)
                continue
            run = source.take(offset, length, self._limits.max_read_bytes, queue.__iter__)
            if run is not None:
                self._send(consumer, run, room, queue)
                return True
            lost = self._notices.give_up(source)
            if not lost:
                return False
            # One queue sets aside what is damaged; chunks that can be read still find their owner.
            if queue is not self._waiting:
                queue.move_to(self._waiting)
            self._waiting.set_aside(lost)  # entries after the damage must not wait for it
        if queue is self._waiting:
            source.clear()
        return False

    def _is_over(self, offset: int) -> bool:
        """Return whether an entry need not wait: acknowledged, trimmed, or delayed until `due`."""
        if offset < self._log.first_offset or self._cursor.is_acked(offset):
            return True
        return offset in self._delays.waiting

    def _send_new(self, consumer: Consumer) -> bool:
        """Send new entries; return False without any, or if the subscription is at its limit."""
        new = self._new
        if new.read_offset >= self._log.visible_end:
            new.source.clear()
            return False
        room = self._receivers.room_for_new(consumer)
        if self._receivers.full is not None or not self._receivers.admit_or_wait():
            return False
        limit = max(1, min(self._limits.max_round_robin_entries, room))
        offset = new.read_offset = new.next()
        size = self._receivers.bytes_of(self._limits.max_read_bytes)
        run = new.take(offset, limit, size)
        if run is None:
            return bool(new.pass_over_damage(self._waiting, self._notices))
        self._send(consumer, run, room, None)
        # False if all of the run stays, as a chunk does for a consumer without room: then another
        # attempt would end the same way.
        return new.read_offset > offset

    def _send(self, consumer: Consumer, run: Run, room: int, queue: OffsetQueue | None) -> None:
        """Send what may be delivered of a run, as far as there is room for messages.

        The run is from `queue`, or is new if that is None.
        """
        for part, ack_set in self._stream.deliverable(run):
            chunks = chunks_among(part.payloads)
            if chunks:
                room = self._send_mixed(consumer, part, chunks, ack_set, room, queue)
            else:
                room = self._send_part(consumer, part, ack_set, room, queue)
            if room <= 0:
                return

    def _send_mixed(
        self,
        consumer: Consumer,
        part: Run,
        chunks: dict[int, Chunk],
        ack_set: tuple[int, ...],
        room: int,
        queue: OffsetQueue | None,
    ) -> int:
        """Send entries, those at the indexes of `chunks` as chunks; return the room left."""
        # Only chunks are bound to a consumer: entries between them go to this one, in one piece.
        at = part.first
        for index, chunk in chunks.items():
            offset = part.first + index
            if at < offset:
                usual = part_of(part, at, offset)
                room = self._send_part(consumer, usual, ack_set, room, queue)
            if room > 0:
                one = part_of(part, offset, offset + 1)
                room = self._send_chunk(consumer, one, chunk, ack_set, room, queue)
            if room <= 0:
                return 0
            at = offset + 1
        rest = part_of(part, at, part.first + len(part.payloads))
        return self._send_part(consumer, rest, ack_set, room, queue) if rest.payloads else room

    def _send_part(
        self,
        consumer: Consumer,
        part: Run,
        ack_set: tuple[int, ...],
        room: int,
        queue: OffsetQueue | None,
    ) -> int:
        """Send entries while there is room, which the last may exceed; return the room left."""
        messages = sum(part.counts)
        if messages > room:
            part = part_of(part, part.first, part.first + entries_within(part.counts, room))
            messages = sum(part.counts)
        if ack_set:
            payload = part.payloads[0]
            self._receivers.deliver_entry(consumer, part.first, payload, messages, ack_set)
        else:
            self._receivers.deliver(consumer, part, messages)
        self._passed(range(part.first, part.first + len(part.payloads)), queue)
        self._turns.served(consumer)
        return room - messages

    def _passed(self, offsets: range, queue: OffsetQueue | None) -> None:
        """Note that entries were sent, or wait elsewhere from now on."""
        if queue is None:
            self._new.read_offset = offsets.stop
        else:
            queue.discard_all(offsets)

    def _send_chunk(
        self,
        consumer: Consumer,
        one: Run,
        chunk: Chunk,
        ack_set: tuple[int, ...],
        room: int,
        queue: OffsetQueue | None,
    ) -> int:
        """Send a chunk to the consumer that has its beginning, or let it wait for that consumer.

        Returns the room left; 0 when the chunk must stay where it is.
        """
        owner = self._chunked.owner(chunk)
        queued = owner is not None and self._chunked.waits_for(owner)
        taker = owner or consumer
        if queue is None and chunk.number > 0 and self._waiting.ready:
            self._waiting.add(one.first)  # the beginning may be in there: keep their order
        elif not queued and taker.can_take() and self._room(taker, queue) > 0:
            self._chunked.sent(chunk, taker, one.first)
            self._send_part(taker, one, ack_set, self._room(taker, queue), queue)
            return self._room(consumer, queue)
        elif not queued and taker is consumer:
            # It is for this consumer, or for any, and this one has no room: it stays, as does what
            # is after it.
            return 0
        else:
            # Its consumer has no room, or earlier chunks wait for it: others go on without it.
            self._chunked.wait(taker, one.first)
        self._passed(range(one.first, one.first + 1), queue)
        return room

    def _room(self, consumer: Consumer, queue: OffsetQueue | None) -> int:
        # The limits of subscription and broker stop new entries only: redelivery must continue, or
        # returned entries could never be acknowledged and free them.
        if queue is None:
            return self._receivers.room_for_new(consumer)
        return self._receivers.room(consumer)

    # Diagnosis --------------------------------------------------------------------

    def _entries_blocker(self) -> Blocker:
        if self._waiting.ready:
            return blocker_of(self._scattered.failure)
        if self._new.next() < self._log.visible_end:
            return self._receivers.full or blocker_of(self._new.source.failure)
        if self._chunked:
            consumers = self._receivers.consumers
            able = any(one.can_take() and self._chunked.waits_for(one) for one in consumers)
            return Blocker.READING if able else Blocker.CHUNK
        return Blocker.DAMAGE
