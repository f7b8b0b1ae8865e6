"""The clock of a client: all its timers, timeouts, pauses and times of day."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol


class Timer(Protocol):
    """A call that has been scheduled."""

    def cancel(self) -> None:
        """Cancel the call; no effect if it was made already."""


class Clock(Protocol):
    """The current time, and scheduled calls.

    Every method but `now_ms` is called in the client's event loop, and so is every callback.
    """

    def now_s(self) -> float:
        """Return monotonic seconds since an unspecified time."""

    def now_ms(self) -> int:
        """Return wall-clock milliseconds since 1970."""

    def later(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Call once, `seconds` from now."""

    def at(self, when_s: float, call: Callable[[], object]) -> Timer:
        """Call `call` once, when `now_s` reaches `when_s`."""

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """Return a context that raises TimeoutError after `seconds`; None means never."""


class EventLoopClock:
    """The time of the machine, and timers of the running event loop."""

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def later(self, seconds: float, call: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, call)

    def at(self, when_s: float, call: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_at(when_s, call)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        return asyncio.timeout(seconds)


EVENT_LOOP: Final = EventLoopClock()
"""The default clock of clients."""
