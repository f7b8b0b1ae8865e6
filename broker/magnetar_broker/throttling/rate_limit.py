"""A rate limit of messages and bytes that several share, with the queue of those that wait."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from magnetar_broker.base.connection import Connection
from magnetar_broker.throttling.bucket import Bucket
from magnetar_storage.runtime.execution import Clock

TICK_MS = 10
"""The shortest wait: without it, small amounts would be released very often."""
PerSecond = Callable[[], tuple[float, float]]
"""Returns messages and bytes per second."""


class Rate(NamedTuple):
    """A rate of messages and bytes per period; 0 or less means no limit."""

    messages: int
    bytes: int
    period_seconds: int = 1
    relative: bool = False
    """Whether the rate is added to the measured rate of publishing."""

    @property
    def is_limit(self) -> bool:
        """Whether there is any limit."""
        return self.messages > 0 or self.bytes > 0


class RateLimit:
    """A rate limit: a waiter joins its queue while there is a debt, and is called in its turn.

    A waiter that is called may cause the next debt: then those behind it are served before it.
    """

    __slots__ = (
        "_bytes",
        "_clock",
        "_messages",
        "_more",
        "_queue",
        "_timed",
        "_turn",
        "rate",
        "scope",
        "waits",
    )

    def __init__(self, scope: str, rate: Rate, clock: Clock, more: PerSecond | None = None) -> None:
        """`rate` has some limit; the rate that `more` returns is added to it.

        `scope` is "subscription", "topic" or "broker", for explanations and metrics.
        """
        now_ms, period = clock.now_ms(), rate.period_seconds
        self.scope = scope
        self.rate = rate
        self.waits = 0
        """The number of times that a waiter joined the queue."""
        self._clock = clock
        self._more = more
        self._messages = Bucket(rate.messages, period, now_ms) if rate.messages > 0 else None
        self._bytes = Bucket(rate.bytes, period, now_ms) if rate.bytes > 0 else None
        self._queue: dict[object, Callable[[], None]] = {}
        self._turn: object = None  # the waiter that is being called
        self._timed = False

    # Taking ------------------------------------------------------------------------------

    def take(self, messages: int, size: int) -> None:
        """Count messages and bytes, with a debt if need be."""
        now_ms = self._clock.now_ms()
        if self._messages is not None:
            self._messages.take(messages, now_ms)
        if self._bytes is not None:
            self._bytes.take(size, now_ms)

    def left(self, unlimited: int) -> tuple[int, int]:
        """Return messages and bytes available without a debt; `unlimited` where not limited."""
        now_ms = self._clock.now_ms()
        messages = unlimited if self._messages is None else self._messages.left(now_ms)
        size = unlimited if self._bytes is None else self._bytes.left(now_ms)
        return messages, size

    @property
    def wait_ms(self) -> int:
        """The milliseconds until the debt is paid; 0 without a debt."""
        now_ms = self._clock.now_ms()
        messages = 0 if self._messages is None else self._messages.wait_ms(now_ms)
        return max(messages, 0 if self._bytes is None else self._bytes.wait_ms(now_ms))

    @property
    def lacks_messages(self) -> bool:
        """Whether waiters wait for the limit of messages, and not for that of bytes."""
        if self._messages is None:
            return False
        return self._bytes is None or self._messages.wait_ms(self._clock.now_ms()) > 0

    def admits(self, waiter: object) -> bool:
        """Return whether there is no debt, and no other waiter is before `waiter`."""
        # The rate of publishing changes by itself: it is looked up when it matters.
        if self._more is not None:
            self._add(*self._more())
        # promise[(not self._queue or waiter is self._turn) -> True]: who comes later waits behind
        #   those before
        return self.wait_ms == 0 and (not self._queue or waiter is self._turn)

    def _add(self, messages: float, size: float) -> None:
        """Add this rate per second to the limit from now on."""
        now_ms, rate = self._clock.now_ms(), self.rate
        if self._messages is not None:
            self._messages.set_rate(rate.messages + int(messages * rate.period_seconds), now_ms)
        if self._bytes is not None:
            self._bytes.set_rate(rate.bytes + int(size * rate.period_seconds), now_ms)

    # Waiting -----------------------------------------------------------------------------

    def has_waiter(self, waiter: object) -> bool:
        """Return whether `waiter` is in the queue."""
        return waiter in self._queue

    def wait(self, waiter: object, resume: Callable[[], None]) -> None:
        """Call `resume` once when the turn of `waiter` comes; no effect if it is queued already."""
        # One place in the queue for each: a second request must not move it.
        if waiter not in self._queue:
            self.waits += 1
            self._queue[waiter] = resume
        self._arm()

    def release_all(self) -> None:
        """Call every waiter, because the limit is no longer in effect."""
        queue, self._queue = self._queue, {}
        for resume in queue.values():
            resume()

    def _arm(self) -> None:
        if not self._timed:
            self._timed = True
            self._clock.later(max(self.wait_ms, TICK_MS) / 1000, self._release)

    def _release(self) -> None:
        """Call waiters in order until there is a debt again."""
        self._timed = False
        while self._queue and self.wait_ms == 0:
            self._turn = next(iter(self._queue))
            # Out of the queue first: a call that causes a debt joins it again, at the end.
            resume = self._queue.pop(self._turn)
            try:
                resume()
            finally:
                self._turn = None
        if self._queue:  # promise: who still waits when its turn is over is called again
            self._arm()


def throttle(connection: Connection, messages: int, size: int, limits: Sequence[RateLimit]) -> None:
    """Count a published run; while a limit is exceeded, its connection is not read from.

    The run itself is never refused: it was received already, and its client waits for receipts.
    """
    for limit in limits:
        limit.take(messages, size)
        # One hold for each limit and connection: a client with many producers of a topic waits
        # once.
        if limit.wait_ms > 0 and not limit.has_waiter(connection):
            limit.wait(connection, connection.hold_reading())


class BrokerRates:
    """The rate limits that all topics of a broker share."""

    def __init__(self, publish: Rate | None = None, dispatch: Rate | None = None) -> None:
        self._rates = (publish, dispatch)
        self._limits: tuple[RateLimit | None, RateLimit | None] | None = None
        self._former: list[RateLimit] = []

    def change(self, publish: Rate, dispatch: Rate) -> None:
        """Replace the limits; call `release` when all topics have asked for them again."""
        if (publish, dispatch) != self._rates:
            # Kept until all topics have changed: their waiters would wait for ever otherwise.
            self._former += filter(None, self._limits or ())
            self._rates, self._limits = (publish, dispatch), None

    def release(self) -> None:
        """Call the waiters of former limits, which no topic has any more."""
        former, self._former = self._former, []
        for limit in former:
            limit.release_all()

    @property
    def are_any(self) -> bool:
        """Whether anything is limited."""
        return any(rate is not None and rate.is_limit for rate in self._rates)

    def limits(self, clock: Clock) -> tuple[RateLimit | None, RateLimit | None]:
        """Return the limits of publishing and of delivering; None for one that is unlimited."""
        if self._limits is None:
            publish, dispatch = self._rates
            self._limits = (
                RateLimit("broker", publish, clock) if publish and publish.is_limit else None,
                RateLimit("broker", dispatch, clock) if dispatch and dispatch.is_limit else None,
            )
        return self._limits
