"""The consumers that share a subscription: what each may be sent, and the way to send it."""

from collections.abc import Callable, Iterable, Sequence

from magnetar_broker.dispatch.base import Blocker, Stream
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.throttling.dispatch_throttle import UNLIMITED, DispatchThrottle
from magnetar_storage.interfaces import Run


class Receivers:
    """The consumers of a Shared or Key_Shared subscription.

    An entry that was sent is pending at its consumer, and each of its messages counts as
    unacknowledged, until it is acknowledged or returned.  A consumer at its limit is blocked until
    it has half of it.  A subscription at its limit gets no new entries until it has less than half.
    Only durable subscriptions have limits.
    """

    def __init__(self, stream: Stream, wake_soon: Callable[[], None]) -> None:
        """`wake_soon` makes the dispatcher run when a limit allows more."""
        self.consumers: list[Consumer] = []
        self.unacked = 0
        self.wake_soon = wake_soon
        self._durable = stream.durable
        self._budget = stream.unacked_budget
        self._budgeted = stream.durable and stream.unacked_budget.limit > 0
        self._frames = stream.frames
        self._partition = stream.topic.partition
        self._full = False
        self.follow(stream)

    def follow(self, stream: Stream) -> None:
        """Follow the limits, the throttle and the cursor of another stream of the subscription."""
        self._log, self._cursor = stream.log, stream.cursor
        self._throttle: DispatchThrottle | None = stream.throttle
        # The limits apply to durable subscriptions only, as in Pulsar.
        limits, durable = stream.limits, self._durable
        self._per_consumer = limits.max_unacked_per_consumer if durable else 0
        self._per_subscription = limits.max_unacked_per_subscription if durable else 0
        # At once: lower limits stop what exceeds them, higher ones let it go on.
        self._full = 0 < self._per_subscription <= self.unacked
        for consumer in self.consumers:
            consumer.keep_pending(self._per_consumer)

    def add(self, consumer: Consumer) -> None:
        """Add a consumer."""
        consumer.keep_pending(self._per_consumer)
        self.consumers.append(consumer)

    # Room -------------------------------------------------------------------------

    def room(self, consumer: Consumer) -> int:
        """Return the messages that a consumer may be sent, by permits, its limit and the rates."""
        # May be negative: the last entry of a run can have more messages than there were permits.
        room = consumer.permits
        if self._per_consumer > 0:
            room = min(room, self._per_consumer - consumer.unacked)
        return room if self._throttle is None else min(room, self._throttle.room()[0])

    def room_for_new(self, consumer: Consumer) -> int:
        """Return the room for entries that are sent for the first time, which has more limits."""
        return min(self.room(consumer), self.room_left)

    @property
    def room_left(self) -> int:
        """The number of messages of new entries that may be sent to all consumers together."""
        left = self._per_subscription - self.unacked if self._per_subscription > 0 else UNLIMITED
        return min(left, self._budget.room(self)) if self._budgeted else left

    def admit_or_wait(self) -> bool:
        """Return whether the rates allow a delivery; if not, wake the dispatcher when they do."""
        return self._throttle is None or self._throttle.admit_or_wait()

    def bytes_of(self, limit: int) -> int:
        """Return bytes to read at once: `limit`, or less if a rate leaves less."""
        return limit if self._throttle is None else min(limit, self._throttle.room()[1])

    @property
    def is_spent(self) -> bool:
        """Whether a rate is used up at present."""
        return self._throttle is not None and self._throttle.is_spent

    @property
    def full(self) -> Blocker | None:
        """The limit that stops new entries for all consumers, if one does."""
        if self._full:
            return Blocker.UNACKED_SUBSCRIPTION
        if self._budgeted and self._budget.stops(self):
            return Blocker.UNACKED_BROKER
        return None

    def blocker(self, consumers: Sequence[Consumer]) -> Blocker | None:
        """Return the reason why none of these consumers has room; None if one has."""
        if not consumers:
            return Blocker.NO_CONSUMER
        if any(consumer.can_take() for consumer in consumers):
            return None
        # A blocked consumer waits for acknowledgements, whatever its permits: with another one that
        # is not, permits are the nearer reason.
        free = [consumer for consumer in consumers if not consumer.blocked]
        if not free:
            return Blocker.UNACKED_CONSUMER
        if all(consumer.permits <= 0 for consumer in free):
            return Blocker.NO_PERMITS
        return Blocker.SLOW_CONNECTION

    # Sending ----------------------------------------------------------------------

    def deliver(self, consumer: Consumer, run: Run, messages: int) -> None:
        """Send consecutive whole entries; `messages` is the sum of their counts."""
        offsets = range(run.first, run.first + len(run.payloads))
        # A frame with a redelivery count cannot be shared: such a run is sent entry by entry.
        redelivered = self._cursor.redelivered
        if redelivered and redelivered.any_in(offsets.start, offsets.stop):
            for offset, payload, left in zip(offsets, run.payloads, run.counts, strict=True):
                self.deliver_entry(consumer, offset, payload, left, ())
            return
        consumer.hold(offsets, run.counts, messages)
        self._add(messages)
        ledger, entry = self._log.position(run.first)
        consumer.send_run(self._frames, ledger, entry, run.payloads, messages)

    def deliver_scattered(
        self,
        consumer: Consumer,
        offsets: Sequence[int],
        payloads: Sequence[bytes],
        counts: Sequence[int],
    ) -> None:
        """Send whole entries of one segment, ascending, with redelivery count 0."""
        messages, first = sum(counts), offsets[0]
        consumer.hold(offsets, counts, messages)
        self._add(messages)
        ledger, entry = self._log.position(first)
        entries = [entry + offset - first for offset in offsets]
        consumer.send_scattered(self._frames, ledger, entries, payloads, messages)

    def deliver_entry(
        self, consumer: Consumer, offset: int, payload: bytes, left: int, ack_set: tuple[int, ...]
    ) -> None:
        """Send one entry, of which `left` messages are not acknowledged."""
        consumer.hold((offset,), (left,), left)
        self._add(left)
        ledger, entry = self._log.position(offset)
        redelivered = self._cursor.redelivered.get(offset)
        consumer.send_entry(ledger, entry, self._partition, payload, left, redelivered, ack_set)

    def _add(self, messages: int) -> None:
        self.unacked += messages
        if self._budgeted:
            self._budget.add(self, messages)
        # Only remembered here; what is being sent may exceed the limit by its last entry.
        if 0 < self._per_subscription <= self.unacked:
            self._full = True

    # Acknowledging ----------------------------------------------------------------

    def pending_among(self, offsets: Iterable[int]) -> set[int]:
        """Return those of the entries that are pending at any consumer."""
        asked = set(offsets)
        return set[int]().union(*(consumer.pending.keys() & asked for consumer in self.consumers))

    def acked(self, consumer: Consumer, offsets: Sequence[int]) -> None:
        """Count whole entries as acknowledged, usually by the consumer that has them."""
        before = len(consumer.pending)
        self._remove(consumer, consumer.release(offsets))
        # A client may acknowledge for others: an entry can have moved to another consumer while
        # its acknowledgement was on the way.
        if before - len(consumer.pending) < len(offsets):
            for offset in self.pending_among(offsets):
                self.acked_in_part(consumer, offset, 0)

    def acked_in_part(self, consumer: Consumer, offset: int, messages_left: int) -> None:
        """Count an entry as acknowledged but for `messages_left`, whichever consumer has it."""
        owner: Consumer | None = consumer
        if offset not in consumer.pending:
            owner = next((one for one in self.consumers if offset in one.pending), None)
        if owner is not None:
            self._remove(owner, owner.release_part(offset, messages_left))

    def take_back(self, consumer: Consumer, offsets: Iterable[int]) -> None:
        """Remove entries that are pending at this consumer, without an acknowledgement of them."""
        self._remove(consumer, consumer.take_back(offsets))

    def _remove(self, consumer: Consumer, messages: int) -> None:
        """Count messages that a consumer holds no longer; wake what a limit has stopped."""
        self.unacked -= messages
        if self._budgeted:
            self._budget.add(self, -messages)
        if consumer.blocked and consumer.unblock():
            self.wake_soon()
        # Less than half, not one less: otherwise each acknowledgement at the limit would start a
        # delivery of one message.
        if self._full and self.unacked * 2 < self._per_subscription:
            self._full = False
            self.wake_soon()

    def resume(self) -> None:
        """Resume: the broker's budget has room again (see `UnackedCounted`)."""
        self.wake_soon()
