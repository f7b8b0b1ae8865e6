"""A clock of the asyncio client that the test advances."""

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, TypeVar

from fakes.waiting import LOOK_SECONDS

T = TypeVar("T")

ROUNDING_S = 1e-6
"""The tolerance within which a timer is due: sums of seconds are not exact."""
FOR_EVER_S = 1e9
PATIENT: dict[str, Any] = {
    "connect_timeout_s": FOR_EVER_S,
    "operation_timeout_s": FOR_EVER_S,
    "keepalive_s": FOR_EVER_S,
}
"""Settings of a client whose clock may run ahead of the machine: no time limit expires early."""


class ManualTimer:
    """A call that `ManualClock.advance` makes unless it is cancelled."""

    def __init__(self, when_s: float, call: Callable[[], object]) -> None:
        self.when_s = when_s
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        self.call = None


class ManualClock:
    """A `magnetar.clock.Clock` that stands still until `advance`, in a real event loop."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._began_ms = now_ms
        self._now_s = 0.0
        self._made = 0
        self._timers: list[tuple[float, int, ManualTimer]] = []

    # -- for the client

    def now_s(self) -> float:
        return self._now_s

    def now_ms(self) -> int:
        return self._began_ms + round(self._now_s * 1000)

    def later(self, seconds: float, call: Callable[[], object]) -> ManualTimer:
        return self.at(self._now_s + seconds, call)

    def at(self, when_s: float, call: Callable[[], object]) -> ManualTimer:
        timer = ManualTimer(when_s, call)
        self._made += 1
        heapq.heappush(self._timers, (when_s, self._made, timer))
        return timer

    async def sleep(self, seconds: float) -> None:
        over = asyncio.Event()
        timer = self.later(seconds, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        return asyncio.timeout(None) if seconds is None else self._timeout(seconds)

    @asynccontextmanager
    async def _timeout(self, seconds: float) -> AsyncIterator[None]:
        async with asyncio.timeout(None) as limit:
            timer = self.later(seconds, lambda: limit.reschedule(0))
            try:
                yield
            finally:
                timer.cancel()

    # -- for the test

    def pauses_s(self) -> list[float]:
        """Return the seconds until each timer is due, in order."""
        return [when_s - self._now_s for when_s, _, timer in sorted(self._timers) if timer.call]

    def advance(self, seconds: float) -> None:
        """Let time pass: make the calls that are due, in order.

        Tasks whose sleep or timeout has ended continue when the event loop runs.
        """
        end_s = self._now_s + seconds
        while self._timers and self._timers[0][0] <= end_s + ROUNDING_S:
            when_s, _, timer = heapq.heappop(self._timers)
            self._now_s = max(self._now_s, when_s)
            call, timer.call = timer.call, None
            if call is not None:
                call()
        self._now_s = max(self._now_s, end_s)

    async def drive(self, work: Coroutine[Any, Any, T], longest_s: float = 0.0) -> T:
        """Return the result of `work`, while timers due within `longest_s` fire without delay.

        Time passes by these pauses only: longer ones, such as time limits, do not expire.
        """
        async with self.running(longest_s):
            return await work

    @asynccontextmanager
    async def running(self, longest_s: float = 0.0) -> AsyncIterator[None]:
        """Let timers due within `longest_s` fire as soon as they are set."""
        firing = asyncio.create_task(self._fire(longest_s))
        try:
            yield
        finally:
            firing.cancel()
            with suppress(asyncio.CancelledError):
                await firing

    async def _fire(self, longest_s: float) -> None:
        while True:
            pauses_s = self.pauses_s()
            if pauses_s and pauses_s[0] <= longest_s + ROUNDING_S:
                self.advance(pauses_s[0])
            await asyncio.sleep(LOOK_SECONDS)
