"""Policies over HTTP: of namespaces, of topics, and the source of each value."""

from collections.abc import Iterator

from magnetar_broker.server.admin.context import Handler
from magnetar_broker.server.admin.policies.explain import routes as explanations
from magnetar_broker.server.admin.policies.quotas import routes as quotas
from magnetar_broker.server.admin.policies.rates import routes as rates
from magnetar_broker.server.admin.policies.regular import routes as regular
from magnetar_broker.server.http.table import Route


def policy_routes() -> Iterator[Route[Handler]]:
    """Yield the routes of all policies."""
    for routes in (explanations, regular, quotas, rates):
        yield from routes()
