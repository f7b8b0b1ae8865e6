"""Moves bytes between a TLS connection and a worker that cannot have it.

TLS has its state in the process that accepted the connection.  So that one keeps the connection and
passes on one end of a pair of sockets: what it decrypts it writes to the other end, and what it
reads there it encrypts.  It looks at none of it.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from magnetar_broker.server.pieces import write_pieces

WRITE_BUFFER = 1 << 20
"""Bytes that wait for one side above which the other is not read from."""
CLOSE_SECONDS = 5.0
"""How long a side may take to read what is left when the other has ended."""

Run = Callable[..., None]


class Pump:
    """The two sides of one client: `client` has the TLS connection, `worker` the socket pair."""

    def __init__(self, run: Run, pumps: "set[Pump]") -> None:
        """It is in `pumps` until both sides have ended."""
        self.client = Side(run, self._ended)
        self.worker = WorkerSide(run, self._ended)
        self.client.other, self.worker.other = self.worker, self.client
        self.client.pause_reading()  # until the pair is connected
        self._left = 2
        self._over: asyncio.Future[None] | None = None
        self._pumps = pumps
        pumps.add(self)

    def stop(self) -> None:
        """Take no more from the client; it is disconnected when the worker has answered."""
        self.client.pause_reading()
        self.worker.finish()

    def over(self) -> asyncio.Future[None]:
        """Done when both sides have ended; to be called once."""
        self._over = asyncio.get_running_loop().create_future()
        return self._over

    def _ended(self) -> None:
        self._left -= 1
        if not self._left:
            self._pumps.discard(self)
            if self._over is not None:
                self._over.set_result(None)
            self.client.other = self.worker.other = None


class Side(asyncio.Protocol):
    """One side."""

    def __init__(self, run: Run, ended: Callable[[], None]) -> None:
        self.other: Side | None = None
        self._run = run
        self._ended = ended
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []
        """What is written before there is a transport."""
        self.reads = True
        """Whether it is read from."""
        self.is_finishing = False
        """Whether it closes when all is written."""
        self._over = False
        self._abort_timer: asyncio.TimerHandle | None = None

    # Called by asyncio -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)
        if not self.reads:
            self._transport.pause_reading()
        write_pieces(self._transport, self._early)
        self._early = []
        if self.is_finishing:
            self._finish(self._transport)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self._run("read", self.other.write, data)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and not self.is_finishing:
            self.other.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._over = True
        self._transport = None
        if self._abort_timer is not None:
            self._abort_timer.cancel()
        if self.other is not None:
            self._run("read", self.other.finish)
        self._ended()

    # Called for the other side ------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send this."""
        if self._over or self.is_finishing:
            return
        if self._transport is None:
            self._early.append(data)
        else:
            self._transport.write(data)

    def pause_reading(self) -> None:
        """The other side has no room."""
        self.reads = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """The other side has room again."""
        self.reads = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def finish(self) -> None:
        """The other side has ended: close when all is written, or after some time."""
        if self._over or self.is_finishing:
            return
        self.is_finishing = True
        if self._transport is not None:
            self._finish(self._transport)

    def _finish(self, transport: asyncio.Transport) -> None:
        self._close(transport)
        loop = asyncio.get_running_loop()
        self._abort_timer = loop.call_later(CLOSE_SECONDS, transport.abort)

    def _close(self, transport: asyncio.Transport) -> None:
        transport.close()


class WorkerSide(Side):
    """The side of the worker, which closes when it has read all."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.resume_writing()

    def _close(self, transport: asyncio.Transport) -> None:
        # Closed at once, the worker's next write would fail, and it would read no more.  What it
        # writes still goes to the client as long as that can be.
        if transport.is_closing():
            return
        transport.write_eof()
        if not self.reads:
            self.resume_reading()
