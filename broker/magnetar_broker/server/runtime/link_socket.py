"""The socket under a link."""

import asyncio
from typing import cast

from magnetar_broker.ipc.link import Link
from magnetar_broker.server.runtime.loop_timer import LoopTimer

WRITE_BUFFER = 1 << 20
"""The unread written bytes above which the link queues its output itself."""
CLOSE_SECONDS = 5.0
"""The time that the peer of a closed link may take to read the rest."""


class LinkSocket(asyncio.Protocol):
    """The socket of one link; implements `Wire`."""

    def __init__(self, link: Link, loop_timer: LoopTimer) -> None:
        self._link = link
        self._run = loop_timer.run
        self._transport: asyncio.Transport
        self._abort_timer: asyncio.TimerHandle | None = None

    # Called by asyncio -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)
        self._link.connected(self)

    def data_received(self, data: bytes) -> None:
        self._run("link", self._link.receive, data)

    def pause_writing(self) -> None:
        self._link.pause()

    def resume_writing(self) -> None:
        self._run("link", self._link.resume)

    def connection_lost(self, error: Exception | None) -> None:
        if self._abort_timer is not None:
            self._abort_timer.cancel()
        self._run("link", self._link.lost)

    # Called by the link ----------------------------------------------------------------

    def write(self, data: bytes, /) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Write the rest, then close; abort if the peer does not read it in time."""
        self._transport.close()
        loop = asyncio.get_running_loop()
        self._abort_timer = loop.call_later(CLOSE_SECONDS, self._transport.abort)
