"""A way to a broker's port on which connections are cut, held up, half closed and fall silent."""

import asyncio
from random import Random
from typing import cast

from frame_proxy import FrameProxy

CUT, DELAY, HALF_CLOSE, SILENCE = "cut", "delay", "half-close", "silence"
TROUBLES = (CUT, DELAY, HALF_CLOSE, SILENCE)


class ChaosProxy(FrameProxy):
    """Does `most` times one of the troubles to a connection, then none."""

    def __init__(self, port: int, seed: int, most: int) -> None:
        super().__init__(port)
        self.random = Random(seed)
        self.left = most
        self.done: set[str] = set()

    def tasks(self) -> set[asyncio.Task[None]]:
        """Those of the proxy itself."""
        return self._copying

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

    async def drain(self) -> None:
        """Wait until it is forwarded; in the case of a delay for some milliseconds more."""
        if self._late:
            await asyncio.sleep(self._proxy.random.random() / 50)
            late, self._late = self._late, b""
            self._target.write(late)
        await self._target.drain()

    def close(self) -> None:
        """End the direction."""
        self._target.close()
