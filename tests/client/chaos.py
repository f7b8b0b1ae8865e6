"""A way to a broker's port on which connections are cut, held up, half closed and fall silent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any, cast

from fakes.client_clock import FOR_EVER_S, ManualClock
from fakes.waiting import LOOK_SECONDS
from frame_proxy import FrameProxy

CUT, DELAY, HALF_CLOSE, SILENCE = "cut", "delay", "half-close", "silence"
TROUBLES = (CUT, DELAY, HALF_CLOSE, SILENCE)

LEAP_S = 3600.0
QUICK: dict[str, Any] = {
    "backoff_first_ms": 1,
    "backoff_max_ms": 20,
    "keepalive_s": LEAP_S,
    "connect_timeout_s": LEAP_S,
    "operation_timeout_s": FOR_EVER_S,
}
"""Settings of a client that goes on quickly, and whose limits only a leap of the clock ends."""


class ChaosProxy(FrameProxy):
    """Does `most` times one of the troubles to a connection, then none."""

    def __init__(self, port: int, seed: int, most: int) -> None:
        super().__init__(port)
        self.random = Random(seed)
        self.left = most
        self.done: set[str] = set()
        self.silent: set[_Troubled] = set()
        """Directions of open connections in which nothing is forwarded any more."""

    def tasks(self) -> set[asyncio.Task[None]]:
        """Those of the proxy itself."""
        return self._copying

    @asynccontextmanager
    async def leaping(self, clock: ManualClock) -> AsyncIterator[None]:
        """Let a client's clock go with the machine's, and leap when a connection is silent.

        So silence, and nothing else, lasts as long as the client's limits of `LEAP_S`.
        """
        going = asyncio.create_task(self._go(clock))
        try:
            yield
        finally:
            going.cancel()
            with suppress(asyncio.CancelledError):
                await going

    async def _go(self, clock: ManualClock) -> None:
        loop = asyncio.get_running_loop()
        looked_s = loop.time()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now_s = loop.time()
            clock.advance(LEAP_S if self.silent else now_s - looked_s)
            looked_s = now_s

    async def _copy(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, is_client: bool
    ) -> None:
        await super()._copy(source, cast(asyncio.StreamWriter, _Troubled(self, target)), is_client)


class _Troubled:
    """One direction of a connection; what is written goes out when it is drained."""

    def __init__(self, proxy: ChaosProxy, target: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._target = target
        self._frames_left = proxy.random.randrange(1, 40)
        self._is_over = False
        self._late = b""

    def write(self, frame: bytes) -> None:
        """Forward the frame, a part of it, or nothing."""
        if self._is_over:
            return
        self._frames_left -= 1
        if self._frames_left >= 0 or not self._proxy.left:
            self._target.write(frame)
            return
        self._proxy.left -= 1
        self._frames_left = self._proxy.random.randrange(1, 40)
        trouble = self._proxy.random.choice(TROUBLES)
        self._proxy.done.add(trouble)
        if trouble == DELAY:
            self._target.write(frame[:-1])
            self._late = frame[-1:]
            return
        self._is_over = True
        if trouble == CUT:
            self._target.write(frame[: self._proxy.random.randrange(len(frame))])
            self._target.close()
        elif trouble == HALF_CLOSE:
            self._target.write(frame)
            self._target.write_eof()
        else:
            self._proxy.silent.add(self)

    async def drain(self) -> None:
        """Wait until it is forwarded; in the case of a delay for some milliseconds more."""
        if self._late:
            await asyncio.sleep(self._proxy.random.random() / 50)
            late, self._late = self._late, b""
            self._target.write(late)
        await self._target.drain()

    def close(self) -> None:
        """End the direction."""
        self._proxy.silent.discard(self)
        self._target.close()
