"""The dispatcher of Exclusive and Failover: one consumer receives everything, in order.

An Exclusive consumer may choose hash ranges: then it receives only messages with keys in them.
"""

from collections.abc import Iterable, Iterator, Sequence

from magnetar_broker.dispatch.base import (
    Blocker,
    Stream,
    caught_up,
    entries_within,
    part_of,
    unacked,
)
from magnetar_broker.dispatch.consumer import CompactedSource, Consumer
from magnetar_broker.dispatch.entry_source import blocker_of
from magnetar_broker.dispatch.new_entries import NewEntries
from magnetar_broker.dispatch.selection import pick_active
from magnetar_proto.hashes import range_slot
from magnetar_proto.sticky_key import sticky_key
from magnetar_storage.errors import StorageError
from magnetar_storage.interfaces import Run
from magnetar_storage.runtime.execution import Timer


class SingleActive:
    """Delivers to one active consumer; when that changes, delivery restarts at the cursor."""

    exclusive_acks = True
    in_replay = 0
    unacked = 0

    def __init__(self, stream: Stream, failover: bool) -> None:
        self.active: Consumer | None = None
        self._topic = stream.topic
        self._cursor = stream.cursor
        self._log = stream.log
        self._frames = stream.frames
        self._limits = stream.limits
        self._throttle = stream.throttle
        self._failover = failover
        # Delays do not apply, since they would break the order.
        self._new = NewEntries(stream.log, stream.cursor, None, self.dispatch)
        self._told: StorageError | None = None
        """The failure of which the active consumer was notified."""
        self._consumers: list[Consumer] = []
        self._switching: Timer | None = None

    @property
    def read_offset(self) -> int:
        return self._new.read_offset

    # Consumers --------------------------------------------------------------------

    def add(self, consumer: Consumer) -> None:
        self._consumers.append(consumer)
        if not self._choose() and self._failover:
            consumer.connection.active_changed(consumer.id, False)

    def remove(self, consumer: Consumer) -> None:
        self._consumers.remove(consumer)
        # Nobody is left to read for; the next consumer starts from the cursor.
        if not self._consumers:
            self._new.source.clear()
            if consumer.compacted is not None:
                consumer.compacted.clear()
        self._choose()

    def _choose(self) -> bool:
        """Choose the active consumer; return True if it changed."""
        chosen = pick_active(self._consumers, str(self._topic), self._topic.partition)
        if chosen is self.active:
            return False
        self.active = chosen
        if self._switching is not None:
            self._switching.cancel()
            self._switching = None
        if chosen is None:
            return True
        if self._failover and self._limits.failover_delay_ms > 0:
            # Acknowledgements of the former consumer may be on their way, and more consumers may
            # join at once, as after a restart: waiting avoids duplicates and repeated changes.
            delay = self._limits.failover_delay_ms / 1000
            self._switching = self._log.engine.clock.later(delay, self._switched)
        else:
            self._switched()
        return True

    def _switched(self) -> None:
        """Notify all consumers after the delay of a change, and start from the cursor."""
        self._switching = None
        if self._failover:
            for consumer in sorted(self._consumers, key=lambda one: (one.priority, one.name)):
                consumer.connection.active_changed(consumer.id, consumer is self.active)
        self.rewind()
        self.dispatch()

    def receivers(self) -> list[Consumer]:
        return [] if self.active is None else [self.active]

    def apply_limits(self, stream: Stream) -> None:
        self._limits, self._throttle = stream.limits, stream.throttle
        self._cursor = self._new.cursor = stream.cursor
        self._log.engine.clock.soon(self.dispatch, "dispatch")

    # Delivering -------------------------------------------------------------------

    def rewind(self) -> None:
        self._told = None
        self._new.rewind()
        # The mark-delete covers what the log has trimmed, but compacted copies of it are wanted.
        if self.active is not None and self.active.compacted is not None:
            self._new.read_offset = self.active.compacted.first()

    def dispatch(self) -> None:
        consumer = self.active
        # During a change nothing is sent: the former consumer may still acknowledge.
        if consumer is None or self._switching is not None:
            return
        limits, throttle = self._limits, self._throttle
        while consumer.can_take():
            if consumer.compacted is not None and consumer.compacted.has(self.read_offset):
                if not self._send_compacted(consumer, consumer.compacted):
                    return
                continue
            offset = self._new.next()
            room, size = consumer.permits, limits.max_read_bytes
            if throttle is not None:
                # promise[not throttle.admit_or_wait() -> throttle.is_spent]: a waiter is called
                #   when the rate allows more
                if offset < self._log.visible_end and not throttle.admit_or_wait():
                    return
                messages, most = throttle.room()
                room, size = min(room, messages), min(size, most)
            run = self._new.take(offset, min(room, limits.max_read_entries), size)
            self._new.read_offset = offset
            if run is None:
                if self._new.source.failure is not None:
                    self._tell_failure(consumer, self._new.source.failure)
                return
            self._send(consumer, run, consumer.permits - room)

    def _tell_failure(self, consumer: Consumer, failure: StorageError) -> None:
        """Notify the consumer, once for each failure, if delivery stops at damage."""
        # Dispatching goes on trying, for instance with each new message.
        if failure is not self._told:
            self._told = failure
            damage = self._new.source.damage
            if damage is not None:  # promise: a consumer is told of damage at which it stops
                consumer.connection.damaged(consumer.id, self._topic.partition, damage)

    def _send_compacted(self, consumer: Consumer, source: CompactedSource) -> bool:
        """Send some entries below the compaction horizon; return False if none can be sent now."""
        at, room = self.read_offset, consumer.permits
        if self._throttle is not None:
            if not self._throttle.admit_or_wait():
                return False
            room = min(room, self._throttle.room()[0])
        self._new.read_offset = source.give(consumer, at, room, self._frames, self._topic.partition)
        return self.read_offset > at

    def _send(self, consumer: Consumer, run: Run, spare: int) -> None:
        """Send a run until `spare` permits are left; the last entry may exceed that."""
        ranges = () if self._failover else consumer.key_shared.ranges
        # Ranges are for Exclusive consumers; with Failover every consumer must be able to take
        # over.
        parts = self._inside(ranges, run) if ranges else unacked(self._cursor, run)
        for part, ack_set in parts:
            # `spare` permits are those that a rate does not let it use now.
            room = consumer.permits - spare
            if room <= 0:
                return
            ledger, entry = self._log.position(part.first)
            if ack_set:
                partition = self._topic.partition
                payload, left = part.payloads[0], part.counts[0]
                consumer.send_entry(ledger, entry, partition, payload, left, 0, ack_set)
                self._new.read_offset = part.first + 1
            else:
                self._send_run(consumer, ledger, entry, part, room)

    def _inside(
        self, ranges: Sequence[tuple[int, int]], run: Run
    ) -> Iterator[tuple[Run, tuple[int, ...]]]:
        """Yield the parts of a run with keys in these ranges, as `unacked` does; skip the rest."""
        for part, ack_set in unacked(self._cursor, run):
            for offset, payload in enumerate(part.payloads, part.first):
                slot = range_slot(sticky_key(payload))
                if any(first <= slot <= last for first, last in ranges):
                    yield part_of(part, offset, offset + 1), ack_set
                else:
                    self._new.read_offset = offset + 1

    def _send_run(self, consumer: Consumer, ledger: int, entry: int, run: Run, room: int) -> None:
        payloads, messages = run.payloads, sum(run.counts)
        # The entry at which permits end goes as a whole, and permits become negative.
        if messages > room:
            n = entries_within(run.counts, room)
            payloads, messages = payloads[:n], sum(run.counts[:n])
        consumer.send_run(self._frames, ledger, entry, payloads, messages)
        self._new.read_offset = run.first + len(payloads)

    # Acknowledging ----------------------------------------------------------------

    def messages_acked(self, consumer: Consumer, offset: int, messages_left: int) -> None:
        """Do nothing: only the cursor keeps acknowledgements here."""

    def entries_acked(self, consumer: Consumer, offsets: Sequence[int]) -> None:
        """Do nothing: only the cursor keeps acknowledgements here."""

    def skipped(self) -> None:
        """Read again: the next entry may be another one now, for instance one after damage."""
        self.dispatch()

    def redeliver(self, consumer: Consumer, offsets: Sequence[int] | None) -> None:
        """Send all unacknowledged messages again, in order, whatever `offsets` are."""
        if consumer is self.active:
            self.rewind()  # promise: a redelivery of everything goes back before anything new
            self.dispatch()

    def restore(self, offsets: Sequence[int]) -> None:
        """Send all unacknowledged messages again, in order."""
        self.rewind()
        self.dispatch()

    def due(self, offsets: Iterable[int]) -> None:
        """Do nothing: delays do not apply, since they would break the order."""

    def blocker(self) -> Blocker:
        consumer = self.active
        if consumer is None:
            return Blocker.NO_CONSUMER
        if self._switching is not None:
            return Blocker.SWITCHING
        # Compacted entries can lie below the mark-delete, where the cursor has nothing to deliver.
        compacted = self._compacted_of(consumer)
        end = self._log.visible_end
        if compacted is None and self._cursor.next_unacked(self.read_offset) >= end:
            return caught_up(self._log, self._cursor)
        if consumer.permits <= 0:
            return Blocker.NO_PERMITS
        if not consumer.connection.has_room():
            return Blocker.SLOW_CONNECTION
        return self._waits_for()

    def _waits_for(self) -> Blocker:
        """Return the reason why a consumer with room receives nothing."""
        if self._throttle is not None and self._throttle.is_spent:
            return Blocker.RATE
        return blocker_of(self.read_error)

    @property
    def read_error(self) -> StorageError | None:
        compacted = None if self.active is None else self._compacted_of(self.active)
        return self._new.source.failure if compacted is None else compacted.failure

    def _compacted_of(self, consumer: Consumer) -> CompactedSource | None:
        """Return the source of the next entry, if that is read from compacted data."""
        return consumer.compacted if self._is_compacted(consumer) else None

    def _is_compacted(self, consumer: Consumer) -> bool:
        """Return whether the next entry is read from compacted data."""
        return consumer.compacted is not None and consumer.compacted.has(self.read_offset)
