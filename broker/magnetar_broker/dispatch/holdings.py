"""What the consumers of a subscription hold unacknowledged, and the limits on it."""

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat

from magnetar_broker.dispatch.base import Blocker, DispatchLimits
from magnetar_broker.dispatch.throttle import UNLIMITED, Throttle
from magnetar_broker.subscribing.consumer import Consumer


class Holdings:
    """Who holds which entries; every message in them counts until it is acknowledged.

    A consumer at its limit is blocked until it holds half of it, the subscription at its own
    gets nothing new until it holds less than half.  Only durable subscriptions have limits.
    """

    def __init__(
        self,
        limits: DispatchLimits,
        durable: bool,
        wake_soon: Callable[[], None],
        throttle: Throttle | None = None,
    ) -> None:
        self.consumers: list[Consumer] = []
        self.unacked = 0
        self._durable = durable
        self._per_consumer = self._per_subscription = 0
        self._budget = limits.unacked_budget
        self._budgeted = durable and self._budget.limit > 0
        self._full = False
        self._wake_soon = wake_soon
        self._throttle: Throttle | None = None
        self.keep_to(limits, throttle)

    def keep_to(self, limits: DispatchLimits, throttle: Throttle | None) -> None:
        """Other limits on consumers and subscription; all who are above them get no more."""
        self._throttle = throttle
        self._per_consumer = limits.max_unacked_per_consumer if self._durable else 0
        self._per_subscription = limits.max_unacked_per_subscription if self._durable else 0
        self._full = 0 < self._per_subscription <= self.unacked
        for consumer in self.consumers:
            consumer.blocked = 0 < self._per_consumer <= consumer.unacked

    # Room -------------------------------------------------------------------------

    def room(self, consumer: Consumer) -> int:
        """How many messages it may be sent: by permits, rates, and what it holds already."""
        room = consumer.permits
        if self._per_consumer > 0:
            room = min(room, self._per_consumer - consumer.unacked)
        return room if self._throttle is None else min(room, self._throttle.room()[0])

    def room_for_new(self, consumer: Consumer) -> int:
        """The same for what nobody held yet: limits of subscription and broker count as well."""
        return min(self.room(consumer), self.room_left)

    @property
    def room_left(self) -> int:
        """How many messages that nobody held yet all consumers together may be sent."""
        left = self._per_subscription - self.unacked if self._per_subscription > 0 else UNLIMITED
        return min(left, self._budget.room(self)) if self._budgeted else left

    def may_go(self) -> bool:
        """Whether a rate lets something go; if not, delivering goes on when it does."""
        return self._throttle is None or self._throttle.may_go()

    def bytes_of(self, limit: int) -> int:
        """How many bytes to read at once: `limit`, or what a rate leaves of it."""
        return limit if self._throttle is None else min(limit, self._throttle.room()[1])

    @property
    def is_spent(self) -> bool:
        """Whether a rate lets nothing go at present."""
        return self._throttle is not None and self._throttle.is_spent

    @property
    def full(self) -> Blocker | None:
        """Why nothing new may be given to anybody, if so."""
        if self._full:
            return Blocker.UNACKED_SUBSCRIPTION
        if self._budgeted and self._budget.stops(self):
            return Blocker.UNACKED_BROKER
        return None

    # Giving and taking ------------------------------------------------------------

    def give(self, consumer: Consumer, offset: int, messages: int) -> None:
        """An entry went to a consumer, with so many messages that are not acknowledged."""
        consumer.pending[offset] = messages
        self._add(consumer, messages)
        self._block(consumer)

    def give_run(
        self, consumer: Consumer, first: int, counts: Sequence[int], messages: int
    ) -> None:
        """Consecutive entries went to a consumer; `messages` is the sum of `counts`."""
        consumer.pending.update(zip(range(first, first + len(counts)), counts, strict=True))
        self._add(consumer, messages)
        self._block(consumer)

    def give_scattered(
        self, consumer: Consumer, offsets: Sequence[int], counts: Sequence[int], messages: int
    ) -> None:
        """Any entries went to a consumer; `messages` is the sum of `counts`."""
        consumer.pending.update(zip(offsets, counts, strict=True))
        self._add(consumer, messages)
        self._block(consumer)

    def holder(self, offset: int) -> Consumer | None:
        """Who holds an entry."""
        return next((c for c in self.consumers if offset in c.pending), None)

    def among(self, offsets: Iterable[int]) -> set[int]:
        """Which of these entries anybody holds."""
        asked = set(offsets)
        return set[int]().union(*(consumer.pending.keys() & asked for consumer in self.consumers))

    def acked(self, consumer: Consumer, offset: int, messages_left: int) -> None:
        """An entry that anybody holds is acknowledged, but for so many messages."""
        holder = consumer if offset in consumer.pending else self.holder(offset)
        if holder is None:
            return
        before = holder.pending[offset]
        messages_left = min(messages_left, before)  # whatever the client says
        if messages_left:
            holder.pending[offset] = messages_left
        else:
            del holder.pending[offset]
        self._add(holder, messages_left - before)
        self._release(holder)

    def acked_whole(self, consumer: Consumer, offsets: Sequence[int]) -> None:
        """Entries are acknowledged; mostly by the consumer that holds them."""
        pending = consumer.pending
        before = len(pending)
        self._add(consumer, -sum(map(pending.pop, offsets, repeat(0))))
        if before - len(pending) < len(offsets):  # some are not this consumer's
            for offset in self.among(offsets):
                self.acked(consumer, offset, 0)
        self._release(consumer)

    def take_back(self, consumer: Consumer, offsets: Iterable[int]) -> None:
        """The consumer holds these no longer; it must have held them."""
        self._add(consumer, -sum(map(consumer.pending.pop, offsets)))
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
        """Let go on what was stopped by a limit, once half of it is acknowledged."""
        if consumer.blocked and consumer.unacked * 2 <= self._per_consumer:
            consumer.blocked = False
            self._wake_soon()
        if self._full and self.unacked * 2 < self._per_subscription:
            self._full = False
            self._wake_soon()

    def go_on(self) -> None:
        """The broker's budget has room again."""
        self._wake_soon()
