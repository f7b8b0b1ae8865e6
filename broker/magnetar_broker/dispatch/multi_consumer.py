"""The common part of Shared and Key_Shared: consumers, redelivery, acknowledgements, diagnosis.

Control goes one way: the methods of `MultiConsumerDispatcher` call those that its subclasses
implement, and subclasses call no method of it.  What both need is in the objects that it makes.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from magnetar_broker.dispatch.base import Blocker, Stream, caught_up
from magnetar_broker.dispatch.chunked import ChunkedMessages
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.damage_notices import DamageNotices
from magnetar_broker.dispatch.new_entries import NewEntries
from magnetar_broker.dispatch.receivers import Receivers
from magnetar_broker.dispatch.scattered_source import ScatteredSource
from magnetar_storage.errors import StorageError
from magnetar_storage.log.damage import Damage


class MultiConsumerDispatcher(ABC):
    """A dispatcher to several consumers with pending entries; a subclass chooses the consumer.

    Entries that are returned wait in the subclass.  When a consumer leaves, the redelivery counts
    of its pending entries stay as they are; only a request to redeliver raises them.  The cursor
    keeps the counts.
    """

    exclusive_acks = False

    def __init__(self, stream: Stream) -> None:
        self._log = stream.log
        self._new = NewEntries(stream.log, stream.cursor, stream.delays, self.dispatch)
        self._scattered = ScatteredSource(stream.log, self.dispatch)
        self._chunked = ChunkedMessages()
        self._notices = DamageNotices(stream.topic.partition)
        self._receivers = Receivers(stream, self._wake_soon)
        self._follow(stream)

    # For subclasses to implement ----------------------------------------------------

    @abstractmethod
    def _send_all(self) -> None:
        """Send everything that can be sent now."""

    @abstractmethod
    def _joined(self, consumer: Consumer) -> None:
        """Include a consumer from now on; retry entries that were unreadable."""

    @abstractmethod
    def _left(self, consumer: Consumer) -> None:
        """Exclude a consumer; its pending entries are passed to `_wait` afterwards."""

    @abstractmethod
    def _wait(self, offsets: Sequence[int]) -> None:
        """Queue entries below `read_offset` that are not pending and are to be delivered."""

    @abstractmethod
    def _forget(self, offsets: Sequence[int]) -> None:
        """Drop acknowledged entries, which may have been pending, waiting, or neither."""

    @abstractmethod
    def _forget_acked(self) -> None:
        """Drop waiting entries that are acknowledged by the cursor."""

    @abstractmethod
    def _forget_all(self) -> None:
        """Drop all waiting entries: delivery starts again at the cursor."""

    @property
    @abstractmethod
    def in_replay(self) -> int:
        """The number of entries below `read_offset` that wait to be delivered."""

    @abstractmethod
    def _entries_blocker(self) -> Blocker:
        """Return the reason why consumers with room are sent none of the entries that are left."""

    # Consumers --------------------------------------------------------------------

    def add(self, consumer: Consumer) -> None:
        """Add a consumer, which the caller has admitted."""
        self._receivers.add(consumer)
        self._read_again()
        self._joined(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer that left; its unacknowledged entries go to the others."""
        self._receivers.consumers.remove(consumer)
        self._notices.left(consumer)
        self._left(consumer)
        self._return(consumer, list(consumer.pending))
        if not self._receivers.consumers:
            # Nothing is pending any more: the cursor alone has all that the next consumer needs.
            self.rewind()
            self._new.source.clear()
            self._scattered.clear()
        self.dispatch()

    def receivers(self) -> list[Consumer]:
        """Return the consumers that may have entries that are not acknowledged."""
        return list(self._receivers.consumers)

    def rewind(self) -> None:
        """Start again from the cursor, which was moved."""
        self._read_again()
        for consumer in self._receivers.consumers:
            self._return(consumer, list(consumer.pending))
        self._forget_all()
        self._new.rewind()

    def apply_limits(self, stream: Stream) -> None:
        """Apply other limits; a consumer that exceeds them is blocked until it has half of them."""
        self._follow(stream)
        self._receivers.follow(stream)
        self._wake_soon()

    def _follow(self, stream: Stream) -> None:
        self._stream, self._limits, self._delays = stream, stream.limits, stream.delays
        self._cursor = self._new.cursor = stream.cursor

    def _read_again(self) -> None:
        """Forget what could not be read: it may have been repaired or set aside meanwhile."""
        self._notices.try_again()
        self._new.source.retry()
        self._scattered.retry()

    def _return(self, consumer: Consumer, offsets: Sequence[int]) -> None:
        self._receivers.take_back(consumer, offsets)
        waiting: list[int] = []
        for offset in offsets:
            # The entry may have been skipped or expired while it was pending.
            if self._cursor.is_acked(offset):
                self._forget(range(offset, offset + 1))
            else:
                waiting.append(offset)
        self._wait(waiting)

    def _wake_soon(self) -> None:
        # Not at once: the caller may be in the middle of a change, and one run of the dispatcher
        # is enough for everything that changes in a turn.
        self._log.engine.clock.soon(self.dispatch, "dispatch")

    # Delivering -------------------------------------------------------------------

    def dispatch(self) -> None:
        """Send everything that can be sent now; call it whenever something has changed."""
        self._send_all()
        if self._notices:
            self._tell_damage()

    def _tell_damage(self) -> None:
        """When nothing else is left, tell waiting consumers of the damage that was passed over."""
        # A failure that is still there does not count as damage: reading is tried again.
        if self.read_error is not None:
            return
        if self.blocker() is Blocker.DAMAGE:
            self._notices.tell(self._receivers.consumers)

    @property
    def read_error(self) -> StorageError | None:
        return self._new.source.failure or self._scattered.failure

    def due(self, offsets: Iterable[int]) -> None:
        """Deliver delayed entries that have reached their delivery time."""
        is_acked, read_offset = self._cursor.is_acked, self._new.read_offset
        # Entries from `read_offset` on are still to be read in order: they need not be replayed.
        passed = [o for o in offsets if o < read_offset and not is_acked(o)]
        # Entries that were delivered before delays were switched on are pending, not waiting.
        pending = self._receivers.pending_among(passed)
        # promise[[offset for offset in passed if offset not in pending] -> passed]: who holds an
        #   entry does not get it again when it is due
        # promise[without offset for offset in passed if offset not in pending]: what comes due is
        #   delivered
        self._wait([offset for offset in passed if offset not in pending])
        self.dispatch()

    def restore(self, offsets: Sequence[int]) -> None:
        """Deliver entries again whose acknowledgements were taken back."""
        if not self._receivers.consumers:
            self.rewind()
            return
        # Another consumer may have other messages of a batch.
        for consumer in self._receivers.consumers:
            # promise: the rest of a batch is delivered again
            self._return(consumer, [offset for offset in offsets if offset in consumer.pending])
        self.due(offsets)

    # Acknowledging ----------------------------------------------------------------

    def entries_acked(self, consumer: Consumer, offsets: Sequence[int]) -> None:
        """Count whole entries that a consumer has acknowledged."""
        self._receivers.acked(consumer, offsets)
        self._forget(offsets)

    def messages_acked(self, consumer: Consumer, offset: int, messages_left: int) -> None:
        """Count acknowledged messages of an entry, of which `messages_left` are still pending."""
        self._receivers.acked_in_part(consumer, offset, messages_left)
        if messages_left == 0:
            self._forget(range(offset, offset + 1))

    def skipped(self) -> None:
        """Drop pending entries over which the cursor advanced without an acknowledgement."""
        self._notices.drop(self._was_set_aside)
        is_acked, partial = self._cursor.is_acked, self._cursor.partial
        for consumer in self._receivers.consumers:
            skipped = [offset for offset in consumer.pending if is_acked(offset)]
            self._receivers.take_back(consumer, skipped)
            self._forget(skipped)
            for offset in partial.keys() & consumer.pending.keys():
                self._receivers.acked_in_part(consumer, offset, partial[offset].bit_count())
        self._forget_acked()
        self.dispatch()

    def _was_set_aside(self, damage: Damage) -> bool:
        """Return whether the subscription is past damaged entries, or their segment is gone."""
        offset = self._log.offset_of(damage.segment, damage.first)
        return offset is None or self._cursor.is_acked(offset)

    def redeliver(self, consumer: Consumer, offsets: Sequence[int] | None) -> None:
        """Send entries to a consumer again; None means all unacknowledged ones."""
        if offsets is None:
            offsets = list(consumer.pending)
        elif self._chunked.are_held:
            # A client names one chunk, but needs all of the message: it drops what it has of it.
            offsets = self._chunked.with_their_messages(offsets)
        # A request can cross acknowledgements and a change of consumers: entries that this consumer
        # does not hold any more are not sent again.
        wanted = [offset for offset in dict.fromkeys(offsets) if offset in consumer.pending]
        self._cursor.count_redelivery(wanted)
        self._return(consumer, wanted)
        self.dispatch()

    # Diagnosis --------------------------------------------------------------------

    @property
    def unacked(self) -> int:
        """The number of messages sent and not acknowledged."""
        return self._receivers.unacked

    @property
    def read_offset(self) -> int:
        """The next entry to be delivered for the first time."""
        return self._new.read_offset

    def blocker(self) -> Blocker:
        """Return the reason why nothing is delivered at this moment."""
        consumers = self._receivers.consumers
        if not consumers:
            return Blocker.NO_CONSUMER
        reason = self._backlog_blocker() or self._receivers.blocker(consumers)
        if reason is None and self._receivers.is_spent:
            reason = Blocker.RATE
        return reason or self._entries_blocker()

    def _backlog_blocker(self) -> Blocker | None:
        """Return the reason why nothing is left to deliver; None if something is."""
        if self.in_replay or self._new.next() < self._log.visible_end:
            return None
        acked, first = self._cursor.acked, self._cursor.mark_delete + 1
        for start, stop in self._delays.waiting:
            if any(acked.missing(max(start, first), stop)):
                return Blocker.DELAY
        return caught_up(self._log, self._cursor)
