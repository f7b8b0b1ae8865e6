"""Keeps a link to one process of another machine."""

import asyncio
import logging
from typing import Any, NamedTuple

from magnetar_broker.base.rare_log import RareLog
from magnetar_broker.config.load import ConfigError
from magnetar_broker.ipc.backoff import LONGEST_SECONDS, Backoff
from magnetar_broker.ipc.handshake import Greeting
from magnetar_broker.ipc.link import Link
from magnetar_broker.ipc.successive import SuccessiveLinks
from magnetar_broker.server.cluster.link_connection import (
    TLS_SECONDS,
    LinkConnection,
    LinkRefused,
    LinkSide,
    in_time,
    made_link,
)
from magnetar_broker.server.cluster.link_security import reason_of
from magnetar_storage.runtime.execution import settling

logger = logging.getLogger(__name__)


class Address(NamedTuple):
    """Where the processes of a broker accept links."""

    broker: str
    """The id of the broker that is expected there."""
    host: str
    port: int

    def __str__(self) -> str:
        return f"broker {self.broker} at {self.host}:{self.port}"


class LinkConnector:
    """Connects to a process, and connects again whenever the link has ended."""

    def __init__(self, address: Address, side: LinkSide, links: SuccessiveLinks) -> None:
        """`links` gets each new link."""
        self._address = address
        self._side = side
        self._links = links
        self._backoff = Backoff()
        self._log = RareLog(logger, logging.WARNING, side.clock)

    async def run(self) -> None:
        """Keep a link until the task is cancelled."""
        clock = self._side.clock
        while True:
            try:
                link = await in_time(clock, self._linked())
            except (LinkRefused, ConfigError, OSError) as error:
                reason = reason_of(error)
                self._log.write(
                    reason,
                    f"no link to {self._address}: {reason}; trying again",
                    f"no link to {self._address}: {reason}",
                )
            else:
                began = clock.uptime()
                self._links.replace(link)
                await link.ended()
                # A peer that accepts each link and then ends it is not asked ever faster.
                if clock.uptime() - began >= LONGEST_SECONDS:
                    self._backoff.succeeded()
            await self._pause()

    async def _pause(self) -> None:
        over = self._side.clock.promise()
        settle = settling(over)
        timer = self._side.clock.later(self._backoff.pause(), lambda: settle(None))
        try:
            await over
        finally:
            timer.cancel()

    async def _linked(self) -> Link:
        connection = LinkConnection(self._side, self._objection)
        await asyncio.get_running_loop().create_connection(
            lambda: connection, self._address.host, self._address.port, **self._tls()
        )
        return await made_link(connection)

    def _objection(self, peer: Greeting) -> str:
        # promise: a link leads to the broker that it is meant for
        if peer.broker != self._address.broker:
            return f"{peer} answers at the address of broker {self._address.broker}"
        return ""

    def _tls(self) -> dict[str, Any]:
        security = self._side.security
        if not security.uses_tls:
            return {}
        return {
            "ssl": security.connecting(),
            "ssl_handshake_timeout": TLS_SECONDS,
            "server_hostname": self._address.host,
        }
