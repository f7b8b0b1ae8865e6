"""Sockets of upstreams: one end of a pair is passed to another worker like a client."""

import asyncio
import socket
from collections.abc import Callable, Mapping
from typing import cast

from magnetar_broker.limits.held_bytes import HeldBytes
from magnetar_broker.server.clients.origin import Origin
from magnetar_broker.server.clients.socket_pair import attach, connected_pair
from magnetar_broker.server.runtime.descriptors import Descriptors
from magnetar_broker.server.runtime.loop_timer import LoopTimer
from magnetar_broker.server.runtime.socket_writes import write_pieces
from magnetar_broker.session.handlers import HANDLERS
from magnetar_broker.session.relay import Upstream
from magnetar_broker.session.relaying import OwnerOf, relaying
from magnetar_broker.session.session import Handler
from magnetar_storage.runtime.execution import Tasks

WRITE_BUFFER = 64 << 10
"""The buffered bytes for a worker above which they are counted and the client is not read."""
CLOSE_SECONDS = 5.0
"""The seconds in which a worker may read the rest of a departed client's input."""

Send = Callable[[int, socket.socket, bytes, Origin], None]
"""A function that passes a client, its first frame and its origin to a worker."""


class Upstreams:
    """Connects sessions to the other workers; `handlers` handle the sessions' commands."""

    def __init__(
        self,
        owner_of: OwnerOf,
        send: Send,
        descriptors: Descriptors,
        tasks: Tasks,
        loop_timer: LoopTimer,
        receiving: HeldBytes,
        handlers: Mapping[int, Handler] = HANDLERS,
    ) -> None:
        """`handlers` serve commands that stay here; `receiving` counts bytes for other workers."""
        self.handlers = relaying(owner_of, handlers)
        self._descriptors = descriptors
        self._send = send
        self._tasks = tasks
        self._run = loop_timer.run
        self._receiving = receiving
        self._loop = asyncio.get_running_loop()

    def connect(
        self, first_frame: bytes, origin: Origin, worker: int, upstream: Upstream
    ) -> "UpstreamSocket":
        """Return a connection to a worker for the client with this first frame and origin."""
        made = UpstreamSocket(upstream, self._run, origin.address, self._receiving)
        pair = connected_pair(self._descriptors)
        if pair is None:
            # promise: without descriptors requests are refused
            # promise[made.connection_lost, None -> upstream.ended]: a socket that never opened lets
            #   go of its upstream
            self._loop.call_soon(made.connection_lost, None)
            return made
        own, passed = pair
        self._send(worker, passed, first_frame, origin)
        self._tasks.spawn(attach(lambda: made, own))
        return made


class UpstreamSocket(asyncio.Protocol):
    """The end of a socket pair that this worker keeps; implements the upstream's `Channel`."""

    def __init__(
        self, upstream: Upstream, run: Callable[..., None], address: str, receiving: HeldBytes
    ) -> None:
        """`address` is the client's address."""
        self.address = address
        self._upstream: Upstream | None = upstream
        """The upstream until the socket is closed or has ended: the two refer to each other."""
        self._run = run
        self._receiving = receiving
        self._full = self._holds = False
        self._early: list[bytes] = []
        """The frames written before the transport exists."""
        self._reading = True
        self._closing = False
        self._transport: asyncio.Transport | None = None
        self._abort_timer: asyncio.TimerHandle | None = None

    # Called by asyncio -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)
        write_pieces(self._transport, self._early)
        self._early = []
        if self._closing:
            self._close(self._transport)
            return
        if not self._reading:
            self._transport.pause_reading()
        self.resume_writing()

    def data_received(self, data: bytes) -> None:
        if self._upstream is not None:
            self._run("read", self._upstream.received, data)

    def pause_writing(self) -> None:
        self._full = True
        asyncio.get_running_loop().call_soon(self._hold)  # after all that this turn writes
        if self._upstream is not None:
            # promise: a worker that reads nothing is written to up to a limit
            self._upstream.wrote(full=True)

    def resume_writing(self) -> None:
        self._drained()
        if self._upstream is not None:
            self._run("write", self._upstream.wrote, False)

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        self._drained()
        self._transport = None
        if self._abort_timer is not None:
            self._abort_timer.cancel()
        # promise[, self._upstream = self._upstream, None -> = self._upstream]: a socket lets go of
        #   an upstream that ended
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            self._run("read", upstream.ended)

    # Called by the upstream --------------------------------------------------------------

    def write(self, pieces: list[bytes]) -> None:
        """Send complete frames."""
        if self._closing:
            return
        if self._transport is None:
            self._early += pieces  # promise: what is written before there is a transport is kept
        else:
            write_pieces(self._transport, pieces)
            if self._holds:
                self._receiving.hold(self, self._transport.get_write_buffer_size())

    def pause_reading(self) -> None:
        """Stop reading from the worker."""
        self._reading = False
        if self._transport is not None and not self._closing:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Continue to read from the worker."""
        self._reading = True
        if self._transport is not None and not self._closing:
            self._transport.resume_reading()

    def close(self) -> None:
        """Write the rest; the worker closes when it has read it, or is cut off."""
        if not self._closing:
            self._closing = True
            self._upstream = None  # promise: a socket lets go of its upstream at once
            if self._transport is not None:
                self._close(self._transport)

    def _close(self, transport: asyncio.Transport) -> None:
        # Closed at once, the worker's next write would fail, and it would read no more.
        # promise[write_eof -> abort]: what a client sent before it left arrives
        transport.write_eof()
        if not self._reading:
            transport.resume_reading()
        loop = asyncio.get_running_loop()
        self._abort_timer = loop.call_later(CLOSE_SECONDS, transport.abort)

    # Bytes that wait ----------------------------------------------------------------------

    def _hold(self) -> None:
        if self._full and self._transport is not None:
            begins, self._holds = not self._holds, True
            # promise: what waits for another worker is in the budget
            self._receiving.hold(self, self._transport.get_write_buffer_size(), begins)

    def _drained(self) -> None:
        self._full = False
        if self._holds:
            self._holds = False
            self._receiving.hold(self, 0)

    def give_up(self) -> None:
        """Disconnect the client, so that its memory is free for others."""
        upstream = self._upstream
        self._upstream, self._closing = None, True
        if upstream is not None:
            # Not at once: the caller may be within a call of the client's session.
            # promise: a client that holds the budget is disconnected
            asyncio.get_running_loop().call_soon(self._run, "read", upstream.give_up)
        if self._transport is not None:
            self._transport.abort()
