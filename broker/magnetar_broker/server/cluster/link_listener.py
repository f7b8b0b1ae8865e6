"""Accepts links from processes of other machines."""

import asyncio
import logging
import socket
from typing import Any

from magnetar_broker.base.rare_log import RareLog
from magnetar_broker.config.load import ConfigError
from magnetar_broker.ipc.link import Link
from magnetar_broker.server.cluster.link_connection import (
    TLS_SECONDS,
    LinkConnection,
    LinkRefused,
    LinkSide,
    in_time,
    made_link,
)
from magnetar_broker.server.cluster.link_security import reason_of
from magnetar_broker.server.runtime.accepting import Accepting
from magnetar_broker.server.runtime.descriptors import Descriptors

logger = logging.getLogger(__name__)

HANDSHAKES = 64
"""The most connections that are not links yet; one more ends the oldest of them."""


class LinkListener:
    """Accepts links from one listening socket.  Call `start` once and `stop` once."""

    def __init__(self, listening: socket.socket, side: LinkSide, descriptors: Descriptors) -> None:
        """`listening` is bound.  `ConfigError` if links would leave the machine without TLS."""
        host = listening.getsockname()[0]
        side.security.check()
        if not side.security.uses_tls and (reason := side.security.why_not(host)):
            raise ConfigError(
                f"links between brokers cannot be accepted at {host}: {reason}; set the "
                "certificate, its key and the authority, or allow plaintext"
            )
        self._side = side
        self._accepting = Accepting(listening, self._take, descriptors, side.loop_timer)
        self._handshakes: dict[asyncio.Task[None], None] = {}
        """The connections that are not links yet, in the order of their arrival."""
        self._log = RareLog(logger, logging.WARNING, side.clock)

    def start(self) -> None:
        """Begin to accept links."""
        self._accepting.start()

    def stop(self) -> None:
        """Stop accepting, and end handshakes; links stay."""
        self._accepting.stop()
        for handshake in list(self._handshakes):
            handshake.cancel()

    def _take(self, client: socket.socket, host: str) -> None:
        # promise: connections that are not links yet have a limit
        if len(self._handshakes) >= HANDSHAKES:
            next(iter(self._handshakes)).cancel()
            what = f"more than {HANDSHAKES} connections have not become links: the oldest is closed"
            self._log.write(HANDSHAKES, what, what)
        task = asyncio.ensure_future(self._shake_hands(client, host))
        self._handshakes[task] = None
        task.add_done_callback(self._handshakes.pop)

    async def _shake_hands(self, client: socket.socket, host: str) -> None:
        try:
            await in_time(self._side.clock, self._linked(client))
        except (LinkRefused, ConfigError, OSError) as error:
            self._log.write(
                (host, type(error)),
                f"no link to a broker at {host}: {reason_of(error)}",
                f"no link to a broker at {host}",
            )

    async def _linked(self, client: socket.socket) -> Link:
        connection = LinkConnection(self._side)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, client, **self._tls()
            )
        except (OSError, ConfigError, asyncio.CancelledError):
            client.close()
            raise
        return await made_link(connection)

    def _tls(self) -> dict[str, Any]:
        if not self._side.security.uses_tls:
            return {}
        return {"ssl": self._side.security.accepting(), "ssl_handshake_timeout": TLS_SECONDS}
