"""The port of the binary protocol: connects each client's socket to a session."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from mmap import mmap
from socket import socket
from typing import cast

from magnetar_broker.base.connection import host_of
from magnetar_broker.base.errors import BrokerError
from magnetar_broker.broker import Broker
from magnetar_broker.limits.admission import AdmittedConnection
from magnetar_broker.server.clients.origin import ON_ITS_OWN, Origin
from magnetar_broker.server.clients.upstreams import Upstreams, UpstreamSocket
from magnetar_broker.server.runtime.descriptors import Descriptors
from magnetar_broker.server.runtime.loop_timer import LoopTimer, timed
from magnetar_broker.server.runtime.ports import named_in_errors
from magnetar_broker.server.runtime.socket_writes import write_pieces
from magnetar_broker.server.tls.contexts import Contexts
from magnetar_broker.server.tls.port import END_SECONDS, TlsPort, certificate_of
from magnetar_broker.session.authorizing import handlers_of
from magnetar_broker.session.relay import Upstream
from magnetar_broker.session.session import Session

logger = logging.getLogger(__name__)

WRITE_BUFFER = 1 << 20
"""The bytes buffered for a socket above which its client counts as slow."""
CLOSE_SECONDS = 5.0
"""The time that a client that is being disconnected may take to read its remaining output."""
RECEIVE_BYTES = 256 << 10
"""The most bytes that one read takes from a socket."""
JOIN_BELOW = 64 * 1024
"""The size up to which buffers are joined into one write; larger ones are not copied."""


class ClientConnection(asyncio.BufferedProtocol):
    """One client's socket; implements the session's `Outbox`."""

    __slots__ = (
        "__weakref__",
        "_abort_timer",
        "_broker",
        "_buffer",
        "_closing",
        "_connections",
        "_early",
        "_full",
        "_is_slow",
        "_loop",
        "_origin",
        "_over",
        "_place",
        "_queued",
        "_timer",
        "_transport",
        "_upstreams",
        "address",
        "is_tls",
        "loop_timer",
        "session",
    )

    def __init__(
        self,
        broker: Broker,
        loop_timer: LoopTimer,
        connections: set["ClientConnection"],
        buffer: memoryview,
        upstreams: Upstreams | None = None,
        early: bytes = b"",
        origin: Origin = ON_ITS_OWN,
        place: AdmittedConnection | None = None,
    ) -> None:
        """`buffer` receives the input; all connections share it.

        `early` was already read from the socket: the session receives it first.  With `upstreams`
        it is exactly the first frame.  `place` is the place that the connection already has;
        without one, it takes a place.
        """
        self._broker = broker
        self._buffer = buffer
        self.loop_timer = loop_timer
        self._connections = connections
        self._upstreams = upstreams
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._full = self._is_slow = False
        self._queued = 0
        """For a slow client: the bytes that waited when it became slow, and those added since."""
        self._closing = False
        self._early = early
        self._origin = origin
        self._timer: asyncio.TimerHandle | None = None
        self._abort_timer: asyncio.TimerHandle | None = None
        self._over: asyncio.Future[None] | None = None
        self.address = "?"
        self.is_tls = False
        self._place = place
        """The place of a client; None for an upstream, whose client another process counts."""
        self.session: Session  # from `connection_made` on

    # Called by asyncio -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # The transport keeps what the system does not take, and says when that is too much.
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)
        self._connections.add(self)
        self.is_tls = transport.get_extra_info("ssl_object") is not None
        self.address = self._origin.address or _address_of_peer(transport) or self.address
        if not self._origin.is_upstream:  # counted where the client is connected
            self._take_place(self._transport.abort)
            self._broker.connected()
        self.session = self._new_session()
        self.session.is_upstream = self._origin.is_upstream
        self.session.certificate = self._origin.certificate or certificate_of(transport)
        self.session.roles = self._origin.roles
        self._schedule_tick()
        if self._early:
            # promise: what was read before there is a session is handled
            self.receive(self._early)
            self._early = b""

    def _take_place(self, end: Callable[[], None]) -> None:
        if self._place is None:
            self._place = self._broker.admission.enter(host_of(self.address), end)
        else:
            self._place.take_over(end)

    def _new_session(self) -> Session:
        if self._upstreams is None:
            return Session(self._broker, self, handlers_of(self._broker.access))
        connect = partial(self._connect_to, self._upstreams, self._early)
        return Session(self._broker, self, self._upstreams.handlers, connect)

    def _connect_to(
        self, upstreams: Upstreams, first_frame: bytes, worker: int, upstream: Upstream
    ) -> UpstreamSocket:
        # promise[without roles=self.session.roles,]: a relayed client keeps its roles
        origin = Origin(
            self.address,
            is_upstream=True,
            certificate=self.session.certificate,
            roles=self.session.roles,
        )
        return upstreams.connect(first_frame, origin, worker, upstream)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    @timed("read")
    def buffer_updated(self, count: int) -> None:
        if not self._closing:
            self.session.receive(self._buffer[:count])

    @timed("read")
    def receive(self, data: bytes) -> None:
        """Handle input that was read from the socket before it became this connection's."""
        if data and not self._closing:
            self.session.receive(data)

    def pause_writing(self) -> None:
        self._full = True
        self._loop.call_soon(self._watch)  # after all that this turn writes
        self.session.wrote(peer_full=True)

    def _watch(self) -> None:
        # The system may have taken all of it by now: then the client is not slow.
        if self._full and self._transport is not None and not self._is_slow:
            self._is_slow = True
            self._queued = self._transport.get_write_buffer_size()
            # An upstream's other end is read as fast as its client reads, which is watched there.
            self._broker.slow_readers.full(self, may_wait=self._place is None)

    def _end_watch(self) -> None:
        if self._is_slow:
            self._is_slow = False
            self._broker.slow_readers.drained(self)

    def resume_writing(self) -> None:
        self._full = False
        self._end_watch()
        self.session.wrote(peer_full=False)

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        self._connections.discard(self)
        self._end_watch()
        if self._place is not None:
            self._place.leave()
            self._broker.disconnected()
        for timer in (self._timer, self._abort_timer):
            if timer is not None:
                timer.cancel()
        if self._over is not None:
            self._over.set_result(None)
        self.session.lost()
        # Session and connection refer to each other: without this, only the garbage collector,
        # which runs rarely, would free the two.
        self._transport = None
        del self.session  # promise: a connection lets go of its session

    def over(self) -> asyncio.Future[None]:
        """Return a future that is done when the connection has ended; call it once."""
        self._over = self._loop.create_future()
        return self._over

    # Called by the session ---------------------------------------------------------------

    def flush_soon(self) -> None:
        """Write at the end of this turn of the loop, so that a whole turn's output is one write."""
        # Once a turn, whatever is queued meanwhile: one write for all receipts and messages.
        self._loop.call_soon(self.loop_timer.run, "write", self._flush)

    def pause_reading(self) -> None:
        """Stop reading from the socket."""
        if self._transport is not None and not self._closing:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Continue to read from the socket."""
        if self._transport is not None and not self._closing:
            self._transport.resume_reading()

    def refusal(self) -> BrokerError | None:
        """Return why the client exceeds a limit of connections; None if it does not."""
        return None if self._place is None else self._broker.admission.refusal(self._place.host)

    def accepted(self) -> None:
        """Note that the client has completed its handshake."""
        if self._place is not None:
            self._place.accept()  # promise: a client is accepted once it has connected

    def abort(self) -> None:
        """Close at once, and discard the queued output."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    def give_up(self) -> None:
        """Abort a connection whose client does not read."""
        self.abort()

    def unread(self) -> tuple[int, int]:
        """Return the bytes that the socket has taken since it was full, and those that wait."""
        waiting = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return self._queued - waiting, waiting

    def close(self) -> None:
        """Write the queued output, then close; abort if the client does not read it in time."""
        self._closing = True
        self._flush()
        if self._transport is not None:
            self._transport.close()
            # A client that does not read would keep the connection, and what it holds, for ever.
            self._abort_timer = self._loop.call_later(CLOSE_SECONDS, self._transport.abort)

    def _flush(self) -> None:
        if self._transport is None:  # the connection is lost
            return
        queue = self.session.take_output()
        # What is left is for nobody; a write would only log a warning.
        if not queue or self._transport.is_closing():
            return
        if len(queue) == 1:
            self._transport.write(queue[0])
        # Small pieces: a copy costs less than a system call for each of them.
        elif sum(map(len, queue)) <= JOIN_BELOW * 16 and max(map(len, queue)) <= JOIN_BELOW:
            self._transport.write(b"".join(queue))
        else:
            write_pieces(self._transport, queue)
        if self._is_slow:
            self._queued += sum(map(len, queue))
            self._broker.slow_readers.grew(self)
        self.session.wrote(self._full)

    def _schedule_tick(self) -> None:
        interval = self._broker.settings.keep_alive_interval_seconds
        if interval > 0:
            self._timer = self._loop.call_later(interval, self.loop_timer.run, "timer", self._tick)

    def _tick(self) -> None:
        self.session.tick()
        if not self._closing:
            self._schedule_tick()


class Listener:
    """Serves clients: those of the ports that it opens, and those that it is given.

    `connections` are the open connections.
    """

    def __init__(
        self,
        broker: Broker,
        loop_timer: LoopTimer,
        descriptors: Descriptors,
        upstreams: Upstreams | None = None,
    ) -> None:
        """`upstreams` lead to the other workers of the broker, if it has any."""
        self._tasks = broker.engine.tasks
        self._admission = broker.admission
        self._descriptors = descriptors
        self._loop_timer = loop_timer
        self._servers: list[asyncio.Server] = []
        self._tls_ports: list[TlsPort] = []
        self.connections: set[ClientConnection] = set()
        # A read is handled before the next one begins, on whichever connection.
        # Its pages take memory when a read first fills them.
        buffer = memoryview(mmap(-1, RECEIVE_BYTES))
        self._connect = partial(
            ClientConnection, broker, loop_timer, self.connections, buffer, upstreams
        )

    async def bind(self, sockets: Sequence[socket]) -> None:
        """Take bound sockets, without accepting clients yet."""
        loop = asyncio.get_running_loop()
        guarded = self._descriptors.guarded(self._connect)
        for bound in sockets:
            # Not serving yet: the process still recovers, and clients would wait for nothing.
            server = await loop.create_server(guarded, sock=bound, start_serving=False)
            self._servers.append(server)

    def bind_tls(self, sockets: Sequence[socket], contexts: Contexts) -> None:
        """Take bound sockets for clients with TLS, without accepting clients yet."""
        for bound in sockets:
            self._tls_ports.append(
                TlsPort(
                    bound,
                    lambda: contexts.clients,
                    lambda place: self._connect(place=place),
                    contexts,
                    self._descriptors,
                    self._loop_timer,
                )
            )

    async def start(self) -> None:
        """Begin to accept clients."""
        for server in self._servers:
            with named_in_errors(server.sockets[0].getsockname()):
                await server.start_serving()
        for port in self._tls_ports:
            port.start(self._admission)

    def serve(
        self,
        transport: asyncio.Transport,
        first: bytes,
        rest: bytes,
        origin: Origin,
        place: AdmittedConnection,
    ) -> None:
        """Serve a connected client; `first` and `rest` were already read from it."""
        connection = self._connect(first, origin, place)
        # The transport is connected already, so that the loop does not call `connection_made`.
        transport.set_protocol(connection)
        connection.connection_made(transport)
        connection.receive(rest)

    def adopt(self, client: socket, early: bytes, origin: Origin) -> None:
        """Serve a client that another process accepted; `early` was already read from it."""
        self._tasks.spawn(self._adopt(client, early, origin))

    async def _adopt(self, client: socket, early: bytes, origin: Origin) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(partial(self._connect, early, origin), client)
        except OSError as error:
            logger.info("closing a connection: it cannot be served: %s", error)
            client.close()

    def stop(self) -> None:
        """Close the ports; open connections stay."""
        for server in self._servers:
            server.close()
        for port in self._tls_ports:
            port.stop()

    def disconnect(self) -> None:
        """Close every connection after writing its queued output."""
        # A copy: each removes itself.
        for connection in list(self.connections):
            connection.session.close("the broker stops")

    async def ended(self) -> None:
        """Wait until TLS has ended on every connection, or for `END_SECONDS`.

        The end of TLS tells a client that nothing was cut off.
        """
        left = [one.over() for one in self.connections if one.is_tls]
        if left:
            await asyncio.wait(left, timeout=END_SECONDS)


def _address_of_peer(transport: asyncio.BaseTransport) -> str:
    """Return `host:port` of the peer; empty if the client has already left."""
    peer = transport.get_extra_info("peername")
    return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else ""
