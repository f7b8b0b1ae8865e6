"""The table of all routes: the endpoints of the admin API, each with its handler.

An endpoint is named after the module and the function that answer it: `topics.grow` is answered by
`grow` of `topics.py`.  Those of policies are answered as the policies' declarations say.
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from magnetar_broker.server.admin.context import AdminContext, Handler
from magnetar_broker.server.admin.openapi import described
from magnetar_broker.server.admin.policies.regular import routes as policies
from magnetar_broker.server.http.errors import refusal
from magnetar_broker.server.http.messages import Request, Response, json_response
from magnetar_broker.server.http.table import Route, Table
from magnetar_proto.admin.endpoint import Endpoint
from magnetar_proto.admin.table import ENDPOINTS

PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def metrics(context: AdminContext, request: Request) -> Response:
    """The page for Prometheus."""
    page = await context.page.scrape(request)
    if page is None:
        return refusal(503, "the client closed the connection before the page was made")
    return Response(content_type=PROMETHEUS_TYPE, rest=page)


async def openapi(context: AdminContext, request: Request) -> Response:
    """The description of all routes, as OpenAPI 3.1."""
    return json_response(_description())


@cache
def _description() -> dict[str, Any]:
    return described(ROUTES.routes)


def _routes() -> Iterator[Route[Handler]]:
    for endpoint in ENDPOINTS:
        yield Route(endpoint, _handler(endpoint))
    yield from policies()


def _handler(endpoint: Endpoint) -> Handler:
    module, _, function = endpoint.name.rpartition(".")
    handler: Handler = getattr(import_module(f"{__package__}.{module}"), function)
    return handler


ROUTES: Table[Handler] = Table(_routes())
