"""The HTTP port: admin REST, health, metrics, and lookups of clients with an http:// URL."""

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from socket import socket

from magnetar_broker.base.errors import CredentialsRefused
from magnetar_broker.expiry.stray_objects import StrayObjects
from magnetar_broker.limits.admission import Admission
from magnetar_broker.metrics.journal import JournalStats
from magnetar_broker.server.admin.authorizing import authorize
from magnetar_broker.server.admin.brokers.features import feature_of
from magnetar_broker.server.admin.context import AdminContext, Handler
from magnetar_broker.server.admin.leader import Leader
from magnetar_broker.server.admin.owners import SoleProcess
from magnetar_broker.server.http.connection import HttpConnection
from magnetar_broker.server.http.errors import refusal_of
from magnetar_broker.server.http.guard import HttpGuard
from magnetar_broker.server.http.messages import NO_CONTENT, Request, Response
from magnetar_broker.server.http.table import NoRoute, Route, Table
from magnetar_broker.server.pages.audit import AuditLog
from magnetar_broker.server.pages.broker_page import BrokerPage
from magnetar_broker.server.pages.health import HealthCheck
from magnetar_broker.server.pages.http_authentication import HttpAuthentication
from magnetar_broker.server.pages.metrics_page import MetricsPage
from magnetar_broker.server.pages.web_pages import ANY_NAME, WebPages
from magnetar_broker.server.runtime.descriptors import Descriptors
from magnetar_broker.server.runtime.loop_timer import LoopTimer
from magnetar_broker.server.runtime.ports import named_in_errors
from magnetar_broker.server.tls.contexts import Contexts
from magnetar_broker.server.tls.port import TlsPort
from magnetar_broker.standalone import Standalone

STOP_SECONDS = 1.0
"""The time that requests in progress may still take when the broker stops."""


class HttpServer:
    """Serves one port; call `start` once, then `stop` once."""

    def __init__(
        self,
        context: AdminContext,
        loop_timer: LoopTimer,
        descriptors: Descriptors,
        audit: AuditLog,
        routes: Table[Handler] | None = None,
        authentication: HttpAuthentication | None = None,
        *,
        guard: HttpGuard,
        pages: WebPages = ANY_NAME,
        leader: Leader | None = None,
    ) -> None:
        """Without `routes`, the routes of the admin API are loaded with the first request.

        `authentication` is None while authentication is off, `leader` for a broker that has the
        directory of names to itself.
        """
        self._leader = leader
        self._authentication = authentication
        self._pages = pages
        self._context = context
        self._guard = guard
        self._audit = audit
        self._routes = routes
        self._loop_timer = loop_timer
        self._descriptors = descriptors
        self._servers: list[asyncio.Server] = []
        self._tls_ports: list[TlsPort] = []
        self._connections: set[HttpConnection] = set()

    async def start(self, sockets: Sequence[socket]) -> None:
        """Accept connections from bound sockets."""
        guarded = self._descriptors.guarded(self._accept)
        for bound in sockets:
            with named_in_errors(bound.getsockname()):
                server = await asyncio.get_running_loop().create_server(guarded, sock=bound)
            self._servers.append(server)

    def start_tls(
        self, sockets: Sequence[socket], contexts: Contexts, admission: Admission
    ) -> None:
        """Accept TLS connections from bound sockets; `admission` limits their handshakes."""
        for bound in sockets:
            port = TlsPort(
                bound,
                lambda: contexts.http,
                lambda place: self._accept(),
                contexts,
                self._descriptors,
                self._loop_timer,
            )
            self._tls_ports.append(port)
            port.start(admission)

    async def stop(self) -> None:
        """Close the port; requests in progress may end within `STOP_SECONDS`."""
        for server in self._servers:
            server.close()
        for port in self._tls_ports:
            port.stop()
        for connection in list(self._connections):
            connection.stop()
        if tasks := [c.task for c in self._connections if c.task is not None]:
            await asyncio.wait(tasks, timeout=STOP_SECONDS)
        for connection in list(self._connections):
            if connection.task is not None:
                connection.abort()
        self._audit.close()

    async def answer(self, request: Request) -> Response:
        """Return the response to a request; an error becomes a refusal, nothing is raised."""
        changes, response, why = request.method not in ("GET", "HEAD"), None, ""
        try:
            self._pages.check(request)  # promise: pages of other sites are refused
            if self._routes is None:
                # In a thread, because the event loop serves clients meanwhile.
                self._routes = await asyncio.to_thread(_admin_routes)
            route, parameters = _found(self._routes, request)
            if self._authentication is not None:
                request = await self._authentication.admitted(request, route)
            if isinstance(route, NoRoute):
                raise route
            if self._leader is not None:
                self._leader.check(request)  # promise: what the leader answers is not answered here
            # promise: reads by POST are not in the audit log
            changes = route.endpoint.changes(request.query)
            request = replace(request, parameters=parameters)
            await authorize(self._context, route.endpoint, request)
            response = await route.handler(self._context, request) or NO_CONTENT
        except NoRoute as error:
            response = refusal_of(request, feature_of(request.path) or error)
        except Exception as error:
            response = refusal_of(request, error)
            why = error.why if isinstance(error, CredentialsRefused) else ""
        finally:  # also for a request that is given up, which may have changed something
            self._audit.record(request, changes, response, why)
        return response

    def _accept(self) -> asyncio.BaseProtocol:
        return HttpConnection(self.answer, self._loop_timer, self._connections, self._guard)


def _found(
    routes: Table[Handler], request: Request
) -> tuple[Route[Handler] | NoRoute, dict[str, str]]:
    """Return the route and its parameters; `NoRoute` for an unknown path."""
    try:
        return routes.find(request.method, request.path)
    except NoRoute as error:
        return error, {}


def _admin_routes() -> Table[Handler]:
    # They take a tenth of the memory of an idle broker, and of the time of its start.
    from magnetar_broker.server.admin.routes import ROUTES  # noqa: PLC0415

    return ROUTES


def sole_context(
    halves: Standalone,
    journal: JournalStats,
    loop_timer: LoopTimer,
    stray: StrayObjects | None = None,
    contexts: Contexts | None = None,
) -> AdminContext:
    """Return the context of a broker of one process."""
    directory, broker = halves
    tls = contexts.figures if contexts is not None else lambda: None
    page = BrokerPage(
        broker,
        directory.ownership,
        journal,
        loop_timer.stats,
        tls=tls,
        schemas=directory.schemas.counts,
        stray=stray,
    )
    return AdminContext(
        directory, SoleProcess(broker), MetricsPage(page.make), HealthCheck(broker), _stop
    )


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
