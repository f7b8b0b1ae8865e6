"""Applies dispatch rates to one subscription: the dispatcher asks it before each run."""

from collections import Counter
from collections.abc import Callable, Sequence

from magnetar_broker.throttling.rate_limit import RateLimit

UNLIMITED = 1 << 62
CAUGHT_UP_ENTRIES = 1000
"""The most entries left to deliver at which a subscription counts as caught up."""


class ThrottleEvents:
    """Counts how often the delivery of one subscription began to wait for a rate."""

    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.messages: Counter[str] = Counter()
        """The number of waits for rates of messages, by the rate's scope."""
        self.bytes: Counter[str] = Counter()

    def count(self, limit: RateLimit) -> None:
        """Count a wait for this limit, which begins now."""
        kind = self.messages if limit.lacks_messages else self.bytes
        kind[limit.scope] += 1


class DispatchThrottle:
    """The rates of a subscription, which others may share; delivery waits for all of them."""

    __slots__ = ("_behind", "_by_entries", "_resume", "events", "limits")

    def __init__(
        self,
        limits: Sequence[RateLimit],
        resume: Callable[[], None],
        by_entries: bool = False,
        behind: Callable[[], int] | None = None,
        events: ThrottleEvents | None = None,
    ) -> None:
        """`resume` is called when delivery may continue.

        `by_entries`: a batch counts as one message.  `behind` is the number of entries left to
        deliver; if it is given, the rates do not apply while the subscription is caught up.
        `events` are those counted so far.
        """
        self.limits = tuple(limits)
        self._resume = resume
        self._by_entries = by_entries
        self._behind = behind
        self.events = events or ThrottleEvents()

    @property
    def is_spent(self) -> bool:
        """Whether a rate is used up at present."""
        return not self._is_exempt() and not all(limit.admits(self) for limit in self.limits)

    def admit_or_wait(self) -> bool:
        """Return whether the rates admit a delivery; if not, `resume` is called when they do."""
        # False only with dispatchThrottlingOnNonBacklogConsumerEnabled=false: then rates slow down
        # catching up on a backlog, and consumers at the end of the log are as fast as producers.
        if self._is_exempt():
            return True
        for limit in self.limits:
            if not limit.admits(self):
                # Once for each wait, however often the dispatcher asks meanwhile.
                if not limit.has_waiter(self):
                    self.events.count(limit)
                limit.wait(self, self._resume)
                return False
        return True

    def room(self) -> tuple[int, int]:
        """Return messages and bytes that may be delivered at once; a last entry may exceed them."""
        if self._is_exempt():
            return UNLIMITED, UNLIMITED
        # The strictest limit decides for each of the two.
        messages, size = zip(*(limit.left(UNLIMITED) for limit in self.limits), strict=True)
        return min(messages), min(size)

    def count(self, entries: int, messages: int, size: int) -> None:
        """Count delivered messages and bytes."""
        if not self._is_exempt():
            for limit in self.limits:
                # All limits, since each is shared with other subscriptions or topics.
                limit.take(entries if self._by_entries else messages, size)

    def _is_exempt(self) -> bool:
        return self._behind is not None and self._behind() <= CAUGHT_UP_ENTRIES
