"""Moves bytes between a TLS connection and a worker that cannot have it.

TLS has its state in the process that accepted the connection.  So that one keeps the connection and
passes on one end of a pair of sockets: what it decrypts it writes to the other end, and what it
reads there it encrypts.  It looks at none of it.  What waits for a side that does not read is
counted: what is for the client as its output, what is for the worker as its input.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from magnetar_broker.limits.held_bytes import HeldBytes
from magnetar_broker.limits.slow_readers import SlowReaders
from magnetar_broker.server.pieces import write_pieces

WRITE_BUFFER = 64 << 10
"""Bytes that wait for one side above which they are counted, and the other is not read from."""
CLOSE_SECONDS = 5.0
"""How long a side may take to read what is left when the other has ended."""

Run = Callable[..., None]


class Pump:
    """The two sides of one client: `client` has the TLS connection, `worker` the socket pair."""

    def __init__(
        self,
        run: Run,
        pumps: "set[Pump]",
        address: str,
        receiving: HeldBytes,
        readers: SlowReaders,
    ) -> None:
        """It is in `pumps` until both sides have ended; `address` is the client's.

        `receiving` and `readers` count what waits for the worker, and for the client.
        """
        self.client = ClientSide(run, self, address, readers)
        self.worker = WorkerSide(run, self, address, receiving)
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

    def give_up(self) -> None:
        """Disconnect the client at once, and free what waits for either side."""
        self.client.abort()
        self.worker.abort()

    def side_ended(self) -> None:
        """One of the sides has."""
        self._left -= 1
        if not self._left:
            self._pumps.discard(self)
            if self._over is not None:
                self._over.set_result(None)
            self.client.other = self.worker.other = None


class Side(asyncio.Protocol):
    """One side."""

    def __init__(self, run: Run, pump: Pump, address: str) -> None:
        self.other: Side | None = None
        self.address = address
        self._run = run
        self._pump = pump
        self._is_full = self._is_counted = False
        """Whether more waits than may, and whether that is counted already."""
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
        self._is_full = True
        asyncio.get_running_loop().call_soon(self._count)  # after what this turn writes
        if self.other is not None:
            self.other.pause_reading()  # promise: a side that does not read holds up the other

    def resume_writing(self) -> None:
        self._drained()
        if self.other is not None and not self.is_finishing:
            # promise: a side is read from again when the other has room
            self.other.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._over = True
        self._drained()
        self._transport = None
        if self._abort_timer is not None:
            self._abort_timer.cancel()
        if self.other is not None:
            self._run("read", self.other.finish)  # promise: the end of one side is passed on
        self._pump.side_ended()

    # Called for the other side ------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send this."""
        if self._over or self.is_finishing:
            return
        if self._transport is None:
            # promise: what is written before there is a connection is kept
            self._early.append(data)
        else:
            self._transport.write(data)
            if self._is_counted:
                self.grew(len(data))

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

    def abort(self) -> None:
        """Close at once."""
        self.is_finishing = True
        if self._transport is not None:
            self._transport.abort()

    # What waits ---------------------------------------------------------------------------

    def give_up(self) -> None:
        """Disconnect the client: it holds memory that others need, or does not read."""
        self._pump.give_up()

    @property
    def waiting(self) -> int:
        """The bytes that wait."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def _count(self) -> None:
        if self._is_full and not self._over and not self._is_counted:
            self._is_counted = True
            self.began()

    def _drained(self) -> None:
        self._is_full = False
        if self._is_counted:
            self._is_counted = False
            self.ended()

    def began(self) -> None:
        """More waits than may: count it."""

    def grew(self, size: int) -> None:
        """So much more waits."""

    def ended(self) -> None:
        """What waits is little, or nothing."""


class ClientSide(Side):
    """The side of the client."""

    def __init__(self, run: Run, pump: Pump, address: str, readers: SlowReaders) -> None:
        super().__init__(run, pump, address)
        self._readers = readers
        self._queued = 0
        """Bytes that waited when they were counted first, and those added since."""

    def began(self) -> None:
        self._queued = self.waiting
        # promise: what waits for a client is in the budget of slow readers
        self._readers.full(self)

    def grew(self, size: int) -> None:
        self._queued += size
        self._readers.grew(self)

    def ended(self) -> None:
        self._readers.drained(self)

    def unread(self) -> tuple[int, int]:
        """What the client has taken since it was counted, and what waits."""
        return self._queued - self.waiting, self.waiting


class WorkerSide(Side):
    """The side of the worker, which closes when it has read all."""

    def __init__(self, run: Run, pump: Pump, address: str, receiving: HeldBytes) -> None:
        super().__init__(run, pump, address)
        self._receiving = receiving

    def began(self) -> None:
        # promise: what waits for a worker is in the budget of received bytes
        self._receiving.hold(self, self.waiting, begins=True)

    def grew(self, size: int) -> None:
        self._receiving.hold(self, self.waiting)

    def ended(self) -> None:
        self._receiving.hold(self, 0)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.resume_writing()

    def _close(self, transport: asyncio.Transport) -> None:
        # Closed at once, the worker's next write would fail, and it would read no more.  What it
        # writes still goes to the client as long as that can be.
        if transport.is_closing():
            return
        transport.write_eof()  # promise[write_eof -> abort]: what the worker answers last arrives
        if not self.reads:
            self.resume_reading()
