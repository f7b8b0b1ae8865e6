"""The table of all routes: the endpoints of the admin API, each with its handler.

An endpoint is named after the module and the function that answer it: `topics.grow` is answered by
`grow` of `topics.py`.  Those of policies are answered as the policies' declarations say.
"""

import asyncio
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from magnetar_broker.server.admin.context import AdminContext, Handler
from magnetar_broker.server.admin.policies.regular import routes as policies
from magnetar_broker.server.http.errors import refusal
from magnetar_broker.server.http.messages import Request, Response, json_response
from magnetar_broker.server.http.table import Route, Table
from magnetar_proto.admin.table import ENDPOINTS

PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def metrics(context: AdminContext, request: Request) -> Response:
    """Return the page for Prometheus."""
    page = await context.page.scrape(request)
    if page is None:
        return refusal(503, "the client closed the connection before the page was made")
    return Response(content_type=PROMETHEUS_TYPE, rest=page)


async def openapi(context: AdminContext, request: Request) -> Response:
    """Return the description of all routes, as OpenAPI 3.1."""
    return json_response(_description())


@cache
def _description() -> dict[str, Any]:
    from magnetar_broker.server.admin.openapi import described  # noqa: PLC0415 (rarely needed)

    return described(ROUTES.routes)


class NamedHandler:
    """The handler of an endpoint by its name, whose module is imported when it is first needed.

    All of these modules take a megabyte, and most brokers are asked a few things only.
    """

    __slots__ = ("_handler", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._handler: Handler | None = None

    async def __call__(self, context: AdminContext, request: Request) -> Response | None:
        handler = self._handler
        if handler is None:
            # In a thread, because the event loop serves clients meanwhile.
            handler = await asyncio.to_thread(self.load)
        return await handler(context, request)

    def load(self) -> Handler:
        """Return the function that answers; AttributeError or ImportError if there is none."""
        module, _, function = self._name.rpartition(".")
        handler: Handler = getattr(import_module(f"{__package__}.{module}"), function)
        self._handler = handler
        return handler


def _routes() -> Iterator[Route[Handler]]:
    for endpoint in ENDPOINTS:
        yield Route(endpoint, NamedHandler(endpoint.name))
    yield from policies()


ROUTES: Table[Handler] = Table(_routes())
