"""Authenticates requests over HTTP: each proves a role, unless its route is open to everyone."""

from dataclasses import replace
from typing import Any, Final

from magnetar_broker.authentication.authenticator import Authenticator
from magnetar_broker.config import Settings
from magnetar_broker.server.http.messages import Request
from magnetar_broker.server.http.table import NoRoute, Route
from magnetar_proto.admin.endpoint import Permission

METRICS: Final = ("/metrics", "/metrics/")


class HttpAuthentication:
    """Authenticates each request, also on a connection that has already been authenticated."""

    def __init__(self, authenticator: Authenticator, with_metrics: bool) -> None:
        """`with_metrics` says that the metrics need authentication, too."""
        self._authenticator = authenticator
        self._with_metrics = with_metrics

    async def admitted(self, request: Request, route: Route[Any] | NoRoute) -> Request:
        """Return the request with the roles of its client; raises `NotAuthenticated`."""
        if self._is_open(route):  # promise[always]: requests are authenticated
            return request
        roles = await self._authenticator.of_request(request.headers, request.certificate)
        return replace(request, roles=roles)

    def _is_open(self, route: Route[Any] | NoRoute) -> bool:
        if isinstance(route, NoRoute) or route.endpoint.permission is not Permission.OPEN:
            return False
        return not (self._with_metrics and route.endpoint.path in METRICS)


def http_authentication_of(
    settings: Settings, authenticator: Authenticator | None
) -> HttpAuthentication | None:
    """Return the authentication of the HTTP ports; None while authentication is off."""
    if authenticator is None:
        return None
    return HttpAuthentication(authenticator, settings.authenticate_metrics_endpoint is not False)
