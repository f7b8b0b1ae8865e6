"""A rate of messages and bytes that several share, and who waits for it."""

from collections.abc import Callable
from typing import NamedTuple

from magnetar_broker.rates.bucket import Bucket
from magnetar_storage.world import Clock

TICK_MS = 10
"""Whoever waits does so at least this long, so that little is not done very often."""
PerSecond = Callable[[], tuple[float, float]]
"""Messages and bytes a second."""


class Rate(NamedTuple):
    """What may happen in a period; 0 or less is no limit."""

    messages: int
    bytes: int
    period_seconds: int = 1
    relative: bool = False
    """Whether it comes on top of the rate of publishing."""

    @property
    def is_limit(self) -> bool:
        """Whether there is any limit."""
        return self.messages > 0 or self.bytes > 0


class RateLimit:
    """Whoever meets a debt waits in line, and is called when it is gone and its turn has come.

    Who goes then may run into debt again: those behind it go on waiting, and come before it.
    """

    __slots__ = (
        "_bytes",
        "_clock",
        "_line",
        "_messages",
        "_more",
        "_timed",
        "_turn",
        "rate",
        "scope",
        "waits",
    )

    def __init__(self, scope: str, rate: Rate, clock: Clock, more: PerSecond | None = None) -> None:
        """`rate` has some limit; what `more` says comes on top of it.

        `scope` says whose it is, for people: of a subscription, a topic, or the broker.
        """
        now_ms, period = clock.now_ms(), rate.period_seconds
        self.scope = scope
        self.rate = rate
        self.waits = 0
        """How often somebody had to wait."""
        self._clock = clock
        self._more = more
        self._messages = Bucket(rate.messages, period, now_ms) if rate.messages > 0 else None
        self._bytes = Bucket(rate.bytes, period, now_ms) if rate.bytes > 0 else None
        self._line: dict[object, Callable[[], None]] = {}
        self._turn: object = None  # who is being called
        self._timed = False

    # What goes ----------------------------------------------------------------------------

    def take(self, messages: int, size: int) -> None:
        """So much happened."""
        now_ms = self._clock.now_ms()
        if self._messages is not None:
            self._messages.take(messages, now_ms)
        if self._bytes is not None:
            self._bytes.take(size, now_ms)

    def left(self, unlimited: int) -> tuple[int, int]:
        """Messages and bytes that may go without a debt."""
        now_ms = self._clock.now_ms()
        messages = unlimited if self._messages is None else self._messages.left(now_ms)
        size = unlimited if self._bytes is None else self._bytes.left(now_ms)
        return messages, size

    @property
    def wait_ms(self) -> int:
        """How long it takes until something may go; 0: it may now."""
        now_ms = self._clock.now_ms()
        messages = 0 if self._messages is None else self._messages.wait_ms(now_ms)
        return max(messages, 0 if self._bytes is None else self._bytes.wait_ms(now_ms))

    def admits(self, who: object) -> bool:
        """Whether something may go, and nobody else's turn comes first."""
        if self._more is not None:
            self._add(*self._more())
        return self.wait_ms == 0 and (not self._line or who is self._turn)

    def _add(self, messages: float, size: float) -> None:
        """So much a second comes on top from now on."""
        now_ms, rate = self._clock.now_ms(), self.rate
        if self._messages is not None:
            self._messages.become(rate.messages + int(messages * rate.period_seconds), now_ms)
        if self._bytes is not None:
            self._bytes.become(rate.bytes + int(size * rate.period_seconds), now_ms)

    # Who waits ----------------------------------------------------------------------------

    def is_awaited_by(self, who: object) -> bool:
        """Whether it stands in line."""
        return who in self._line

    def wait(self, who: object, go: Callable[[], None]) -> None:
        """Call `go` once when the turn of `who` has come; it may stand in line already."""
        if who not in self._line:
            self.waits += 1
            self._line[who] = go
        self._arm()

    def let_go(self) -> None:
        """The limit holds no longer: nobody waits for it any more."""
        line, self._line = self._line, {}
        for go in line.values():
            go()

    def _arm(self) -> None:
        if not self._timed:
            self._timed = True
            self._clock.later(max(self.wait_ms, TICK_MS) / 1000, self._go_on)

    def _go_on(self) -> None:
        """Let them go, one after the other, until there is a debt again."""
        self._timed = False
        while self._line and self.wait_ms == 0:
            self._turn = next(iter(self._line))
            go = self._line.pop(self._turn)
            try:
                go()
            finally:
                self._turn = None
        if self._line:
            self._arm()


class BrokerRates:
    """What all topics of a broker share."""

    def __init__(self, publish: Rate | None = None, dispatch: Rate | None = None) -> None:
        self._rates = (publish, dispatch)
        self._limits: tuple[RateLimit | None, RateLimit | None] | None = None

    @property
    def are_any(self) -> bool:
        """Whether anything is limited."""
        return any(rate is not None and rate.is_limit for rate in self._rates)

    def limits(self, clock: Clock) -> tuple[RateLimit | None, RateLimit | None]:
        """Those of publishing and of delivering, where there are any."""
        if self._limits is None:
            publish, dispatch = self._rates
            self._limits = (
                RateLimit("broker", publish, clock) if publish and publish.is_limit else None,
                RateLimit("broker", dispatch, clock) if dispatch and dispatch.is_limit else None,
            )
        return self._limits
