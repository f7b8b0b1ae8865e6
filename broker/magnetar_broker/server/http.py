"""The HTTP port: health, metrics, and what clients with an http:// service URL ask."""

import asyncio

from aiohttp import web

from magnetar_broker.broker import Broker
from magnetar_broker.metrics.prometheus import JournalStats
from magnetar_broker.server.http_errors import as_json
from magnetar_broker.server.http_routes import BROKER, JOURNAL, ROUTES, SCRAPING

MAX_BODY = 64 * 1024
MAX_CONNECTIONS = 1024
STOP_SECONDS = 1.0
"""How long requests that are under way may still take when the broker stops."""


class HangUp(asyncio.Protocol):
    """For whoever comes when all connections are taken."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class HttpServer:
    """One port; `start` once, `stop` once."""

    def __init__(self, broker: Broker, journal: JournalStats) -> None:
        self._broker = broker
        self._journal = journal
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None

    async def start(self, bind: str, port: int | None) -> int | None:
        """Answer on this port (0: any free one) and return its number; None is off."""
        if port is None:
            return None
        app = web.Application(middlewares=[as_json], client_max_size=MAX_BODY)
        app[BROKER] = self._broker
        app[JOURNAL] = self._journal
        app[SCRAPING] = asyncio.Lock()
        app.add_routes(ROUTES)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_SECONDS)
        await self._runner.setup()
        self._listener = await asyncio.get_running_loop().create_server(self._accept, bind, port)
        return int(self._listener.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Close the port; requests that are under way have a moment to end."""
        if self._listener is not None:
            self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def _accept(self) -> asyncio.BaseProtocol:
        assert self._runner is not None and self._runner.server is not None
        if len(self._runner.server.connections) >= MAX_CONNECTIONS:
            return HangUp()
        return self._runner.server()
