"""The unacknowledged messages of a subscription's consumers, and the limits on them."""

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat

from magnetar_broker.dispatch.base import Blocker, DispatchLimits
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.unacked_budget import UnackedBudget
from magnetar_broker.throttling.dispatch_throttle import UNLIMITED, DispatchThrottle


class UnackedMessages:
    """The pending entries of each consumer; every message counts until it is acknowledged.

    A consumer at its limit is blocked until it has half of it.  A subscription at its limit gets no
    new entries until it has less than half.  Only durable subscriptions have limits.
    """

    def __init__(
        self,
        limits: DispatchLimits,
        budget: UnackedBudget,
        durable: bool,
        wake_soon: Callable[[], None],
        throttle: DispatchThrottle | None = None,
    ) -> None:
        self.consumers: list[Consumer] = []
        self.unacked = 0
        self._durable = durable
        self._per_consumer = self._per_subscription = 0
        self._budget = budget
        self._budgeted = durable and self._budget.limit > 0
        self._full = False
        self._wake_soon = wake_soon
        self._throttle: DispatchThrottle | None = None
        self.apply_limits(limits, throttle)

    def apply_limits(self, limits: DispatchLimits, throttle: DispatchThrottle | None) -> None:
        """Apply other limits; consumers that exceed them are blocked."""
        self._throttle = throttle
        # The limits apply to durable subscriptions only, as in Pulsar.
        self._per_consumer = limits.max_unacked_per_consumer if self._durable else 0
        self._per_subscription = limits.max_unacked_per_subscription if self._durable else 0
        self._full = 0 < self._per_subscription <= self.unacked
        for consumer in self.consumers:
            consumer.blocked = 0 < self._per_consumer <= consumer.unacked

    # Room -------------------------------------------------------------------------

    def room(self, consumer: Consumer) -> int:
        """Return the messages that a consumer may be sent, by permits, its limit and the rates."""
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

    # Giving and taking ------------------------------------------------------------

    def give(self, consumer: Consumer, offset: int, messages: int) -> None:
        """Add an entry that is sent to a consumer, with its number of unacknowledged messages."""
        consumer.pending[offset] = messages
        self._add(consumer, messages)
        self._block(consumer)

    def give_run(
        self, consumer: Consumer, first: int, counts: Sequence[int], messages: int
    ) -> None:
        """Add consecutive entries sent to a consumer; `messages` is the sum of `counts`."""
        consumer.pending.update(zip(range(first, first + len(counts)), counts, strict=True))
        self._add(consumer, messages)
        self._block(consumer)

    def give_scattered(
        self, consumer: Consumer, offsets: Sequence[int], counts: Sequence[int], messages: int
    ) -> None:
        """Add entries that are sent to a consumer; `messages` is the sum of `counts`."""
        consumer.pending.update(zip(offsets, counts, strict=True))
        self._add(consumer, messages)
        self._block(consumer)

    def owner(self, offset: int) -> Consumer | None:
        """Return the consumer at which an entry is pending."""
        return next((c for c in self.consumers if offset in c.pending), None)

    def among(self, offsets: Iterable[int]) -> set[int]:
        """Return those of the entries that are pending at any consumer."""
        asked = set(offsets)
        return set[int]().union(*(consumer.pending.keys() & asked for consumer in self.consumers))

    def acked(self, consumer: Consumer, offset: int, messages_left: int) -> None:
        """Count an entry as acknowledged but for `messages_left`, whichever consumer has it."""
        owner = consumer if offset in consumer.pending else self.owner(offset)
        if owner is None:
            return
        before = owner.pending[offset]
        messages_left = min(messages_left, before)  # a client may claim more
        if messages_left:
            owner.pending[offset] = messages_left
        else:
            del owner.pending[offset]
        self._add(owner, messages_left - before)
        self._release(owner)

    def acked_whole(self, consumer: Consumer, offsets: Sequence[int]) -> None:
        """Count whole entries as acknowledged, usually by the consumer that has them."""
        pending = consumer.pending
        before = len(pending)
        self._add(consumer, -sum(map(pending.pop, offsets, repeat(0))))
        if before - len(pending) < len(offsets):  # some are not this consumer's
            for offset in self.among(offsets):
                self.acked(consumer, offset, 0)
        self._release(consumer)

    def take_back(self, consumer: Consumer, offsets: Iterable[int]) -> None:
        """Remove entries that were pending at this consumer."""
        messages = sum(map(consumer.pending.pop, offsets))
        # promise: returned messages do not count as acknowledged
        consumer.messages_returned += messages
        self._add(consumer, -messages)
        self._release(consumer)

    def _add(self, consumer: Consumer, messages: int) -> None:
        consumer.unacked += messages
        self.unacked += messages
        if self._budgeted:
            self._budget.add(self, messages)

    # Limits -----------------------------------------------------------------------

    def _block(self, consumer: Consumer) -> None:
        if 0 < self._per_consumer <= consumer.unacked:
            consumer.blocked = True
        if 0 < self._per_subscription <= self.unacked:
            self._full = True

    def _release(self, consumer: Consumer) -> None:
        """Resume what a limit stopped, once half of the limit is left."""
        # The protocol says at half of the limit, not just below it: otherwise every single
        # acknowledgement at the limit would start a delivery of one message.
        # promise[* 2 <= self._per_consumer -> < 0]: a blocked consumer goes on at half of its limit
        if consumer.blocked and consumer.unacked * 2 <= self._per_consumer:
            consumer.blocked = False
            self._wake_soon()
        if self._full and self.unacked * 2 < self._per_subscription:
            self._full = False
            self._wake_soon()

    def resume(self) -> None:
        """Resume: the broker's budget has room again (see `UnackedCounted`)."""
        self._wake_soon()
