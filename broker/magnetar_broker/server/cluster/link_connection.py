"""The stream of a link between machines, up to the end of its handshake."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, cast

from magnetar_broker.ipc.handshake import Check, Greeting, Handshake
from magnetar_broker.ipc.keep_alive import KeepAlive
from magnetar_broker.ipc.link import Link
from magnetar_broker.server.cluster.link_security import LinkSecurity, reason_of
from magnetar_broker.server.runtime.link_socket import LinkSocket
from magnetar_broker.server.runtime.loop_timer import LoopTimer
from magnetar_storage.runtime.execution import Clock

HANDSHAKE_SECONDS = 10.0
"""The time in which a connection must become a link, from its beginning, TLS included."""
TLS_SECONDS = 86_400.0
"""A limit that asyncio requires; the effective one is `HANDSHAKE_SECONDS`."""
ENDED = "it has ended the connection without saying why"


class LinkRefused(Exception):
    """A connection has not become a link; the text says why, and has nothing secret."""


@dataclass(frozen=True)
class LinkSide:
    """The side of all links that one process has to other machines."""

    own: Greeting
    security: LinkSecurity
    make: Callable[[Greeting], Link]
    """Makes the link to a peer that is accepted, with its handlers."""
    clock: Clock
    loop_timer: LoopTimer


class LinkConnection(asyncio.Protocol):
    """Shakes hands, and then gives the stream to a new link; await `link`."""

    def __init__(self, side: LinkSide, check: Check = lambda _: "") -> None:
        """`check` refuses a peer for reasons of this connection alone."""
        self.link: asyncio.Future[Link] = asyncio.get_running_loop().create_future()
        """The link; `LinkRefused` if there is none."""
        self._side = side
        self._check = check
        self._transport: asyncio.Transport
        self._handshake = Handshake(side.own, self._write, self._objection)

    # Called by asyncio -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        host = self._transport.get_extra_info("peername")[0]
        reason = "" if self._side.security.uses_tls else self._side.security.why_not(host)
        if reason:
            self._refuse(reason)
        else:
            self._handshake.begin()

    def data_received(self, data: bytes) -> None:
        self._side.loop_timer.run("link", self._receive, data)

    def connection_lost(self, error: Exception | None) -> None:
        self._settle(ENDED if error is None else reason_of(error))

    # The handshake ---------------------------------------------------------------------

    def abort(self) -> None:
        """End the connection at once."""
        self._transport.abort()

    def _receive(self, data: bytes) -> None:
        # promise: nothing of a refused peer is read
        if self.link.done():
            return
        rest = self._handshake.receive(data)
        if self._handshake.refusal:
            self._refuse(self._handshake.refusal)
        elif self._handshake.is_over:
            self._join(rest)

    def _objection(self, peer: Greeting) -> str:
        certificate: Any = self._transport.get_extra_info("peercert")
        return self._side.security.objection_to(certificate or {}) or self._check(peer)

    def _join(self, rest: bytes) -> None:
        assert self._handshake.peer is not None
        socket = WatchedSocket(self._side, self._side.make(self._handshake.peer))
        self._transport.set_protocol(socket)
        socket.connection_made(self._transport)
        if rest:
            socket.data_received(rest)
        self.link.set_result(socket.link)

    def _refuse(self, reason: str) -> None:
        self._settle(reason)
        self._transport.close()  # what was written goes out before

    def _settle(self, reason: str) -> None:
        if not self.link.done():
            self.link.set_exception(LinkRefused(reason))
            self.link.exception()  # whoever has given up the wait is not told that it was lost

    def _write(self, data: bytes) -> None:
        self._transport.write(data)


class WatchedSocket(LinkSocket):
    """The socket of a link to another machine, which may vanish without a sign."""

    def __init__(self, side: LinkSide, link: Link) -> None:
        super().__init__(link, side.loop_timer)
        self.link = link
        self._keep_alive = KeepAlive(link, side.clock, self._give_up)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._keep_alive.start()

    def data_received(self, data: bytes) -> None:
        self._keep_alive.heard()
        super().data_received(data)

    def _give_up(self) -> None:
        self._transport.abort()  # promise: a machine that is gone ends its links


async def in_time(clock: Clock, work: Coroutine[Any, Any, Link]) -> Link:
    """Return the link that `work` makes; `LinkRefused` if it takes too long."""
    task = asyncio.ensure_future(work)
    # promise[_cancel(task) -> None]: a peer that says nothing is given up
    timer = clock.later(HANDSHAKE_SECONDS, lambda: _cancel(task))
    try:
        return await task
    except asyncio.CancelledError:
        own = asyncio.current_task()
        if own is not None and own.cancelling():
            raise
        late = f"it has not completed its handshake within {HANDSHAKE_SECONDS:g} s"
        raise LinkRefused(late) from None
    finally:
        timer.cancel()


def _cancel(task: "asyncio.Future[Link]") -> None:
    task.cancel()


async def made_link(connection: LinkConnection) -> Link:
    """Return the link of a connection; abort the connection if the wait is given up."""
    try:
        return await connection.link
    except asyncio.CancelledError:
        connection.abort()
        raise
