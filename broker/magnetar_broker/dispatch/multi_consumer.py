"""The common part of Shared and Key_Shared: pending entries, redelivery, delays, new entries."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

from magnetar_broker.dispatch.base import Blocker, Stream, caught_up, part_of, unacked
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.damage_notices import DamageNotices
from magnetar_broker.dispatch.feed import Feed, Source
from magnetar_broker.dispatch.replay import ReplayQueue
from magnetar_broker.dispatch.replay_feed import ReplayFeed
from magnetar_broker.dispatch.unacked_messages import UnackedMessages
from magnetar_storage.interfaces import Run
from magnetar_storage.log.damage import Damage
from magnetar_storage.log.offset_set import next_in_neither


class MultiConsumerDispatcher(ABC):
    """A dispatcher to several consumers with pending entries; a subclass chooses the consumer.

    Entries that are returned wait in the subclass.  When a consumer leaves, the redelivery counts
    of its pending entries stay as they are; only a request to redeliver raises them.  The cursor
    keeps the counts.
    """

    exclusive_acks = False

    def __init__(self, stream: Stream) -> None:
        self._topic = stream.topic
        self._cursor = stream.cursor
        self._log = stream.log
        self._frames = stream.frames
        self._limits = stream.limits
        self._delays = stream.delays
        self._feed = Feed(self._log, self.dispatch)
        self._replay_feed = ReplayFeed(self._log, self.dispatch)
        self._notices = DamageNotices(self._topic.partition)
        self._unacked = UnackedMessages(
            stream.limits, stream.unacked_budget, stream.durable, self._wake_soon, stream.throttle
        )
        self.read_offset = self._cursor.next_unacked(0)

    # For subclasses to implement ----------------------------------------------------

    @abstractmethod
    def dispatch(self) -> None:
        """Send everything that can be sent now; call it whenever something has changed."""

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
    def _settled(self, offsets: Sequence[int]) -> None:
        """Drop acknowledged entries, which may have been pending, waiting, or neither."""

    @abstractmethod
    def _drop_acked(self) -> None:
        """Drop waiting entries that are acknowledged by the cursor."""

    @abstractmethod
    def _drop_waiting(self) -> None:
        """Drop all waiting entries: delivery starts again at the cursor."""

    @property
    def unacked(self) -> int:
        """The number of messages sent and not acknowledged."""
        return self._unacked.unacked

    @property
    @abstractmethod
    def in_replay(self) -> int:
        """The number of entries below `read_offset` that wait to be delivered."""

    @abstractmethod
    def blocker(self) -> Blocker:
        """Return the reason why nothing is delivered at this moment."""

    # Consumers --------------------------------------------------------------------

    def add(self, consumer: Consumer) -> None:
        """Add a consumer, which the caller has admitted."""
        consumer.messages_returned = 0
        self._unacked.consumers.append(consumer)
        self._notices.try_again()
        self._feed.retry()
        self._replay_feed.retry()
        self._joined(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer that left; its unacknowledged entries go to the others."""
        self._unacked.consumers.remove(consumer)
        self._notices.left(consumer)
        self._left(consumer)
        self._return(consumer, list(consumer.pending))
        if not self._unacked.consumers:
            # Nothing is pending any more: the cursor alone has all that the next consumer needs.
            self.rewind()
            self._feed.clear()
            self._replay_feed.clear()
        self.dispatch()

    def receivers(self) -> list[Consumer]:
        """Return the consumers that may have entries that are not acknowledged."""
        return list(self._unacked.consumers)

    def rewind(self) -> None:
        """Start again from the cursor, which was moved."""
        self._notices.try_again()
        self._feed.retry()
        self._replay_feed.retry()
        for consumer in self._unacked.consumers:
            self._return(consumer, list(consumer.pending))
        self._drop_waiting()
        self.read_offset = self._cursor.next_unacked(self._log.first_offset)

    def apply_limits(self, stream: Stream) -> None:
        """Apply other limits; a consumer that exceeds them is blocked until it has half of them."""
        self._limits, self._cursor = stream.limits, stream.cursor
        self._unacked.apply_limits(stream.limits, stream.throttle)
        self._wake_soon()

    def _return(self, consumer: Consumer, offsets: Sequence[int]) -> None:
        self._unacked.take_back(consumer, offsets)
        waiting: list[int] = []
        for offset in offsets:
            # The entry may have been skipped or expired while it was pending.
            if self._cursor.is_acked(offset):
                self._settled(range(offset, offset + 1))
            else:
                waiting.append(offset)
        self._wait(waiting)

    def _wake_soon(self) -> None:
        self._log.engine.clock.soon(self.dispatch, "dispatch")

    # Delivering -------------------------------------------------------------------

    def _next_new(self) -> int:
        """Return the next entry to be delivered for the first time; not before the end if none."""
        offset = self._cursor.next_unacked(max(self.read_offset, self._log.first_offset))
        waiting = self._delays.waiting
        if waiting and offset in waiting:
            return next_in_neither(self._cursor.acked, waiting, offset)
        return offset

    def _give_up(self, source: Source) -> range:
        """Return the entries that damage has made unreadable, which consumers are told of."""
        self._notices.found(source.damage)
        return source.give_up()

    def _tell_damage(self) -> None:
        """When nothing else is left, tell waiting consumers of the damage that was passed over."""
        # A failure that is still there is no damage, and reading is tried again.
        if not self._notices or self._feed.failure or self._replay_feed.failure:
            return
        if self.blocker() is Blocker.DAMAGE:
            self._notices.tell(self._unacked.consumers)

    def _was_set_aside(self, damage: Damage) -> bool:
        """Return whether the subscription is past damaged entries, or their segment is gone."""
        offset = self._log.offset_of(damage.segment, damage.first)
        return offset is None or self._cursor.is_acked(offset)

    def _pass_over(self, waiting: ReplayQueue) -> int:
        """Set aside new entries that cannot be read, to read on after them; return their number."""
        lost = self._give_up(self._feed)
        # Damage acknowledges nothing: what cannot be read stays in the backlog and is tried again
        # when a consumer joins.  Until then the entries behind it are delivered.
        for start, stop in self._cursor.acked.missing(lost.start, lost.stop):
            waiting.add_all(range(start, stop))
        waiting.set_aside(lost)
        self.read_offset = max(self.read_offset, lost.stop)
        return len(lost)

    def _deliverable(self, run: Run) -> Iterator[tuple[Run, tuple[int, ...]]]:
        """Return the parts of a run that are neither acknowledged nor delayed; see `unacked`."""
        # After a crash the index of delays may lack the latest entries: they are found here, on
        # their way to a consumer, and not delivered early.
        # promise: delayed entries are known before they can be delivered
        self._delays.catch(run.first, run.payloads)
        parts = unacked(self._cursor, run)
        return self._not_delayed(parts) if self._delays.waiting else parts

    def _not_delayed(
        self, parts: Iterator[tuple[Run, tuple[int, ...]]]
    ) -> Iterator[tuple[Run, tuple[int, ...]]]:
        for part, ack_set in parts:
            whole = range(part.first, part.first + len(part.payloads))
            for start, stop in self._delays.waiting.missing(whole.start, whole.stop):
                yield part_of(part, start, stop), ack_set

    def _send_run(self, consumer: Consumer, run: Run, messages: int) -> None:
        """Send consecutive whole entries; `messages` is the sum of their counts."""
        offsets = range(run.first, run.first + len(run.payloads))
        # A frame with a redelivery count cannot be shared: such a run is sent entry by entry.
        redelivered = self._cursor.redelivered
        if redelivered and redelivered.any_in(offsets.start, offsets.stop):
            for offset, payload, left in zip(offsets, run.payloads, run.counts, strict=True):
                self._send_one(consumer, offset, payload, left, ())
            return
        self._unacked.give_run(consumer, run.first, run.counts, messages)
        ledger, entry = self._log.position(run.first)
        consumer.give_run(self._frames, ledger, entry, run.payloads, messages)

    def _send_one(
        self, consumer: Consumer, offset: int, payload: bytes, left: int, ack_set: tuple[int, ...]
    ) -> None:
        """Send one entry, of which `left` messages are not acknowledged."""
        self._unacked.give(consumer, offset, left)
        ledger, entry = self._log.position(offset)
        redelivered = self._cursor.redelivered.get(offset)
        partition = self._topic.partition
        consumer.give_entry(ledger, entry, partition, payload, left, redelivered, ack_set)

    def due(self, offsets: Iterable[int]) -> None:
        """Deliver delayed entries that have reached their delivery time."""
        is_acked = self._cursor.is_acked
        # Entries from `read_offset` on are still to be read in order: they need not be replayed.
        passed = [o for o in offsets if o < self.read_offset and not is_acked(o)]
        # Entries that were delivered before delays were switched on are pending, not waiting.
        pending = self._unacked.among(passed)
        # promise[[offset for offset in passed if offset not in pending] -> passed]: who holds an
        #   entry does not get it again when it is due
        # promise[without offset for offset in passed if offset not in pending]: what comes due is
        #   delivered
        self._wait([offset for offset in passed if offset not in pending])
        self.dispatch()

    def restore(self, offsets: Sequence[int]) -> None:
        """Deliver entries again whose acknowledgements were taken back."""
        if not self._unacked.consumers:
            self.rewind()
            return
        for consumer in self._unacked.consumers:  # of batches it may have other messages
            # promise: the rest of a batch is delivered again
            self._return(consumer, [offset for offset in offsets if offset in consumer.pending])
        self.due(offsets)

    # Acknowledging ----------------------------------------------------------------

    def acked(self, consumer: Consumer, offset: int, messages_left: int) -> None:
        """Count an acknowledged part of an entry; `messages_left` of it are still pending."""
        self._unacked.acked(consumer, offset, messages_left)
        if messages_left == 0:
            self._settled(range(offset, offset + 1))

    def acked_whole(self, consumer: Consumer, offsets: Sequence[int]) -> None:
        """Count whole entries that a consumer has acknowledged."""
        self._unacked.acked_whole(consumer, offsets)
        self._settled(offsets)

    def skipped(self) -> None:
        """Drop pending entries over which the cursor advanced without an acknowledgement."""
        self._notices.drop(self._was_set_aside)
        is_acked, partial = self._cursor.is_acked, self._cursor.partial
        for consumer in self._unacked.consumers:
            skipped = [offset for offset in consumer.pending if is_acked(offset)]
            self._unacked.take_back(consumer, skipped)
            self._settled(skipped)
            for offset in partial.keys() & consumer.pending.keys():
                self._unacked.acked(consumer, offset, partial[offset].bit_count())
        self._drop_acked()
        self.dispatch()

    def redeliver(self, consumer: Consumer, offsets: Sequence[int] | None) -> None:
        """Send entries to a consumer again; None for all that it has not acknowledged."""
        if offsets is None:
            offsets = list(consumer.pending)
        # A request can cross acknowledgements and a change of consumers: entries that this consumer
        # does not hold any more are not sent again.
        wanted = [offset for offset in dict.fromkeys(offsets) if offset in consumer.pending]
        self._cursor.count_redelivery(wanted)
        self._return(consumer, wanted)
        self.dispatch()

    # Diagnosis --------------------------------------------------------------------

    def _backlog_blocker(self) -> Blocker | None:
        """Return the reason why nothing is left to deliver; None if something is."""
        if self.in_replay or self._next_new() < self._log.visible_end:
            return None
        acked, first = self._cursor.acked, self._cursor.mark_delete + 1
        for start, stop in self._delays.waiting:
            if any(acked.missing(max(start, first), stop)):
                return Blocker.DELAY
        return caught_up(self._log, self._cursor)

    def _dispatch_blocker(self) -> Blocker | None:
        """Return the reason why no consumer can be sent anything; None if one can."""
        reason = self._backlog_blocker() or self._consumers_blocker(self._unacked.consumers)
        return reason or (Blocker.RATE if self._unacked.is_spent else None)

    def _consumers_blocker(self, consumers: Sequence[Consumer]) -> Blocker | None:
        """Return the reason why none of these consumers has room; None if one has."""
        if not consumers:
            return Blocker.NO_CONSUMER
        if any(consumer.can_take() for consumer in consumers):
            return None
        free = [consumer for consumer in consumers if not consumer.blocked]
        if not free:
            return Blocker.UNACKED_CONSUMER
        if all(consumer.permits <= 0 for consumer in free):
            return Blocker.NO_PERMITS
        return Blocker.SLOW_CONNECTION
