"""Accepts TLS clients of a broker of several workers, and connects each to its worker.

It does for TLS what `client_router` does without.  A client of this worker is served on its
connection, and a client of another worker through a `Pump`.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from typing import Protocol, cast

from magnetar_broker.base.errors import BrokerError, NotReady
from magnetar_broker.limits.admission import Admission, AdmittedConnection
from magnetar_broker.limits.held_bytes import HeldBytes
from magnetar_broker.limits.slow_readers import SlowReaders
from magnetar_broker.server.clients.client_router import unknown
from magnetar_broker.server.clients.client_socket import Take, refusal_frame
from magnetar_broker.server.clients.origin import Origin
from magnetar_broker.server.clients.socket_pair import attach, connected_pair
from magnetar_broker.server.runtime.descriptors import Descriptors
from magnetar_broker.server.runtime.loop_timer import LoopTimer
from magnetar_broker.server.tls.contexts import Contexts
from magnetar_broker.server.tls.port import END_SECONDS, TlsPort, certificate_of
from magnetar_broker.server.tls.pump import Pump
from magnetar_broker.session.first_frame import FirstFrame, named_broker

logger = logging.getLogger(__name__)


class Serve(Protocol):
    """Serves a client on its connection."""

    def __call__(
        self,
        transport: asyncio.Transport,
        first: bytes,
        rest: bytes,
        origin: Origin,
        place: AdmittedConnection,
    ) -> None:
        """Serve a client by its first frame and the rest of its input; takes over `place`."""


class TlsClientRouter:
    """Accepts TLS clients from one listening socket.  Call `start` once and `stop` once."""

    def __init__(
        self,
        listening: socket.socket,
        contexts: Contexts,
        others: Mapping[str, Take],
        descriptors: Descriptors,
        loop_timer: LoopTimer,
    ) -> None:
        """`listening` is bound; `others` take the clients of other workers, by their names."""
        self._port = TlsPort(
            listening, lambda: contexts.clients, self._open, contexts, descriptors, loop_timer
        )
        self._others = others
        self._descriptors = descriptors
        self._run = loop_timer.run
        self._loop = asyncio.get_running_loop()
        self._serve: Serve | None = None
        self._own: frozenset[str] = frozenset()
        self._pumps: set[Pump] = set()
        self._connecting: set[asyncio.Task[object]] = set()
        self._receiving: HeldBytes
        self._readers: SlowReaders

    def start(
        self,
        admission: Admission,
        serve: Serve,
        own: str,
        receiving: HeldBytes,
        readers: SlowReaders,
    ) -> None:
        """Accept clients within these limits; `serve` gets those for `own` or for any worker."""
        self._serve, self._own = serve, frozenset(("", own))
        self._receiving, self._readers = receiving, readers
        self._port.start(admission)

    def stop(self) -> None:
        """Stop accepting; clients of other workers are disconnected after their last answers."""
        self._port.stop()
        for pump in list(self._pumps):
            pump.stop()

    async def ended(self) -> None:
        """Wait until the clients of other workers are disconnected, or a time limit has passed."""
        if self._pumps:
            await asyncio.wait([pump.over() for pump in self._pumps], timeout=END_SECONDS)

    def _open(self, place: AdmittedConnection) -> "_Opening":
        return _Opening(self._give, self._run, place)

    def _give(
        self,
        transport: asyncio.Transport,
        first: bytes,
        rest: bytes,
        origin: Origin,
        place: AdmittedConnection,
    ) -> None:
        name = named_broker(first)
        if name in self._own and self._serve is not None:
            self._serve(transport, first, rest, origin, place)
            return
        place.leave()
        if name in self._others:
            self._pass_on(self._others[name], transport, first, rest, origin)
        else:
            _refuse(transport, unknown(name))

    def _pass_on(
        self, take: Take, transport: asyncio.Transport, first: bytes, rest: bytes, origin: Origin
    ) -> None:
        pair = connected_pair(self._descriptors)
        if pair is None:
            _refuse(transport, NotReady("the broker is short of file descriptors: try again"))
            return
        own, passed = pair
        pump = Pump(self._run, self._pumps, origin.address, self._receiving, self._readers)
        pump.worker.write(rest)
        transport.set_protocol(pump.client)
        pump.client.connection_made(transport)
        take(passed, first, origin)
        task = self._loop.create_task(attach(lambda: pump.worker, own))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)


class _Opening(asyncio.Protocol):
    """A connection from the end of its handshake until its first frame is complete."""

    def __init__(self, give: Serve, run: Callable[..., None], place: AdmittedConnection) -> None:
        self._give = give
        self._run = run
        self._place = place
        self._frame = FirstFrame()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        host, port, *_ = transport.get_extra_info("peername") or ("?", 0)
        self._address = f"{host}:{port}"
        self._place.take_over(self._transport.abort)

    def data_received(self, data: bytes) -> None:
        self._run("read", self._receive, data)

    def connection_lost(self, error: Exception | None) -> None:
        self._place.leave()

    def _receive(self, data: bytes) -> None:
        at = 0
        while at < len(data) and (size := self._frame.lacks):
            self._frame.add(data[at : at + size])
            at += size
        if self._frame.lacks or self._transport.is_closing():
            return
        origin = Origin(self._address, certificate=certificate_of(self._transport))
        self._give(self._transport, self._frame.data, data[at:], origin, self._place)


def _refuse(transport: asyncio.Transport, refusal: BrokerError) -> None:
    logger.info("closing a connection: a client was refused: %s", refusal)
    transport.write(refusal_frame(refusal))
    transport.close()
