"""Moves bytes between a TLS connection and the worker that serves it, which is another process.

TLS has its state in the process that accepted the connection.  So that process keeps the connection
and passes on one end of a pair of sockets: it decrypts the client's bytes and writes them to the
other end, and encrypts the bytes that it reads there.  It examines none of them.  Bytes that wait
for a side that does not read are counted: those for the client as its output, those for the worker
as its input.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from magnetar_broker.limits.held_bytes import HeldBytes
from magnetar_broker.limits.slow_readers import SlowReaders
from magnetar_broker.server.runtime.socket_writes import write_pieces

WRITE_BUFFER = 64 << 10
"""The waiting bytes of a side above which they are counted and the other side is not read."""
CLOSE_SECONDS = 5.0
"""The seconds in which a side may read the rest after the other side has ended."""

Run = Callable[..., None]


class Pump:
    """The two sides of a client: `client` is the TLS connection, `worker` the socket pair."""

    def __init__(
        self,
        run: Run,
        pumps: "set[Pump]",
        address: str,
        receiving: HeldBytes,
        readers: SlowReaders,
    ) -> None:
        """The pump is in `pumps` until both sides have ended; `address` is the client's.

        `receiving` and `readers` count the bytes that wait for the worker, and for the client.
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
        """Read no more from the client; it is disconnected when the worker has answered."""
        self.client.pause_reading()
        self.worker.finish()

    def over(self) -> asyncio.Future[None]:
        """Return a future that is done when both sides have ended; call it once."""
        self._over = asyncio.get_running_loop().create_future()
        return self._over

    def give_up(self) -> None:
        """Disconnect the client at once, and free the bytes that wait for either side."""
        self.client.abort()
        self.worker.abort()

    def side_ended(self) -> None:
        """Note that one of the sides has ended."""
        self._left -= 1
        if not self._left:
            self._pumps.discard(self)
            if self._over is not None:
                self._over.set_result(None)
            self.client.other = self.worker.other = None


class Side(asyncio.Protocol):
    """One side of a pump."""

    def __init__(self, run: Run, pump: Pump, address: str) -> None:
        self.other: Side | None = None
        self.address = address
        self._run = run
        self._pump = pump
        self._is_full = self._is_counted = False
        """Whether more bytes wait than allowed, and whether they were counted."""
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []
        """The data written before the transport exists."""
        self.reads = True
        """Whether this side is read from."""
        self.is_finishing = False
        """Whether the side closes when all data is written."""
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
        """Send data to this side."""
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
        """Stop reading from this side: the other side has no room."""
        self.reads = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Continue to read from this side: the other side has room."""
        self.reads = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def finish(self) -> None:
        """Close once all data is written, or after `CLOSE_SECONDS`: the other side has ended."""
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
        """Close this side at once."""
        self.is_finishing = True
        if self._transport is not None:
            self._transport.abort()

    # Bytes that wait ----------------------------------------------------------------------

    def give_up(self) -> None:
        """Disconnect the client: it holds memory that others need, or does not read."""
        self._pump.give_up()

    @property
    def waiting(self) -> int:
        """The number of bytes that wait."""
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
        """Begin to count the bytes that wait: there are more than may be."""

    def grew(self, size: int) -> None:
        """Count `size` more bytes that wait."""

    def ended(self) -> None:
        """Stop counting: few bytes wait, or none."""


class ClientSide(Side):
    """The side of the client."""

    def __init__(self, run: Run, pump: Pump, address: str, readers: SlowReaders) -> None:
        super().__init__(run, pump, address)
        self._readers = readers
        self._queued = 0
        """The bytes that waited when they were first counted, plus those written since."""

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
        """Return the bytes that the client has taken since they were counted, and the rest."""
        return self._queued - self.waiting, self.waiting


class WorkerSide(Side):
    """The side of the worker, which closes once the worker has read everything."""

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
        # Closed at once, the worker's next write would fail, and it would read no more.  Its output
        # still goes to the client as long as possible.
        if transport.is_closing():
            return
        transport.write_eof()  # promise[write_eof -> abort]: what the worker answers last arrives
        if not self.reads:
            self.resume_reading()
