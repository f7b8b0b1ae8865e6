"""The client's connections: one for each broker, opened on first use."""

import asyncio

from magnetar.connection import Connection
from magnetar.errors import Closed, MagnetarError
from magnetar.settings import Address, Settings, parse_service_url


class Pool:
    """Shares connections among all producers, consumers and lookups of a client."""

    def __init__(self, service_url: str, settings: Settings) -> None:
        self._service = parse_service_url(service_url)
        self._settings = settings
        self._opening: dict[tuple[Address, str], asyncio.Task[Connection]] = {}
        self._is_closed = False

    async def service(self) -> Connection:
        """A connection to any of the addresses in the service URL."""
        failure: MagnetarError | None = None
        for address in self._service:
            try:
                return await self._get(address)
            except MagnetarError as error:
                failure = error
        assert failure is not None  # a service URL holds at least one address
        raise failure

    async def broker(self, url: str, proxy: Address | None) -> Connection:
        """A connection to the broker that a lookup named, by way of `proxy` if there is one."""
        address = parse_service_url(url)[0]
        if proxy is not None:
            return await self._get(proxy, proxy_to=str(address))
        return await self._get(address)

    async def _get(self, address: Address, proxy_to: str = "") -> Connection:
        if self._is_closed:
            raise Closed("the client is closed")
        key = (address, proxy_to)
        opening = self._opening.get(key)
        if opening is None or _is_over(opening):
            opening = asyncio.create_task(Connection.open(address, self._settings, proxy_to))
            self._opening[key] = opening
        # Shielded: others may wait for the same connection when this caller is cancelled.
        return await asyncio.shield(opening)

    async def close(self) -> None:
        """Close every connection; nothing can be opened afterwards."""
        self._is_closed = True
        tasks = list(self._opening.values())
        self._opening.clear()
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Connection):
                outcome.close(Closed("the client was closed"))


def _is_over(opening: asyncio.Task[Connection]) -> bool:
    if not opening.done():
        return False
    if opening.cancelled() or opening.exception() is not None:
        return True
    return not opening.result().is_open
