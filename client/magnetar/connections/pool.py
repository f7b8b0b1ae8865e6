"""The client's connections: one for each broker, opened on first use."""

import asyncio
import logging

from magnetar.base.errors import Closed, ConnectionLost, Insecure, MagnetarError, OperationTimeout
from magnetar.base.log_fields import about
from magnetar.base.settings import Address, Settings, parse_service_url
from magnetar.connections.connection import Connection
from magnetar.security.security import OPEN, Security

logger = logging.getLogger(__name__)

LEAVE_S = 1.0
"""The seconds that the closing handshake of a connection may take before it is cut off."""


class Pool:
    """The connections that all producers, consumers and lookups of a client share."""

    def __init__(self, service_url: str, settings: Settings, security: Security = OPEN) -> None:
        self._service = parse_service_url(service_url)
        self._settings = settings
        self.listener_name = settings.listener_name
        self._security = security
        self._is_tls = self._service[0].is_tls
        self._preferred = 0
        self._opening: dict[tuple[Address, str], asyncio.Task[Connection]] = {}
        self._failures: dict[Address, str] = {}
        """The last connection error that was logged, by address; removed when the address works."""
        self._closed: Closed | None = None

    async def service(self) -> Connection:
        """Return a connection to an address of the service URL: the one that worked last, or else
        the next one that works."""
        failure: MagnetarError | None = None
        for index in range(len(self._service)):
            turn = (self._preferred + index) % len(self._service)
            try:
                connection = await self._get(self._service[turn])
            except MagnetarError as error:
                failure = error
            else:
                self._preferred = turn
                return connection
        assert failure is not None  # a service URL holds at least one address
        raise failure

    async def broker(
        self, plain_url: str, tls_url: str, proxy: Address | None = None
    ) -> Connection:
        """Return a connection to the broker that a lookup named, through `proxy` if given.

        `plain_url` and `tls_url` are its addresses without TLS and with it, "" if it has none.  A
        client of an address with TLS never uses one without.
        """
        # promise[tls_url or plain_url -> plain_url or tls_url]: a client with TLS follows addresses
        #   with TLS
        url = (tls_url or plain_url) if self._is_tls else (plain_url or tls_url)
        address = parse_service_url(url)[0]
        if proxy is not None:  # `address` is only a name, for the proxy
            return await self._get(proxy, proxy_to=str(address))
        if self._is_tls and not address.is_tls:  # promise: a lookup never leads from TLS to plain
            raise Insecure(
                f"{self._service[0]} leads to {url}, which has no TLS, and the service URL is "
                "pulsar+ssl://: give that broker a TLS port (brokerServicePortTls), or a listener "
                "with TLS (advertisedListeners)"
            )
        try:
            return await self._get(address)
        except (ConnectionLost, OperationTimeout) as error:
            if address in self._service:
                raise
            raise ConnectionLost(
                f"{error} (the broker named this address: if it cannot be reached from here, "
                "correct advertisedAddress or advertisedListeners there)"
            ) from error

    async def _get(self, address: Address, proxy_to: str = "") -> Connection:
        if self._closed is not None:
            raise self._closed
        key = (address, proxy_to)
        opening = self._opening.get(key)
        if opening is None or _is_over(opening):
            opening = asyncio.create_task(self._open(address, proxy_to))
            self._opening[key] = opening
        # Shielded: other callers may wait for the same connection when this one is cancelled.
        return await asyncio.shield(opening)

    async def _open(self, address: Address, proxy_to: str) -> Connection:
        try:
            connection = await Connection.open(address, self._settings, proxy_to, self._security)
        except MagnetarError as error:
            if error.retriable:
                self._log(address, str(error))
            raise
        if self._failures.pop(address, None) is not None:
            logger.info("connected to %s", address, extra=about(address=address))
        return connection

    def _log(self, address: Address, failure: str) -> None:
        """Log a failed attempt, as a warning if the reason is new."""
        # promise[always]: attempts that fail for the same reason are one warning
        is_new = self._failures.get(address) != failure
        self._failures[address] = failure
        level = logging.WARNING if is_new else logging.DEBUG
        logger.log(level, "%s; trying again", failure, extra=about(address=address))

    def forked(self, error: Closed) -> None:
        """Leave the connections to the parent in a forked child; none can be opened."""
        self._closed = error
        self._opening.clear()

    async def close(self) -> None:
        """Close every connection; none can be opened afterwards."""
        self._closed = self._closed or Closed("the client is closed")
        tasks = list(self._opening.values())
        self._opening.clear()
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        open_ones = [one for one in outcomes if isinstance(one, Connection)]
        for connection in open_ones:
            connection.close(Closed("the client was closed"))
        await asyncio.gather(*(connection.ended(LEAVE_S) for connection in open_ones))


def _is_over(opening: asyncio.Task[Connection]) -> bool:
    if not opening.done():
        return False
    if opening.cancelled() or opening.exception() is not None:
        return True
    return not opening.result().is_open
