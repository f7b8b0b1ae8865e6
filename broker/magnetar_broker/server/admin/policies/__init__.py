"""Policies over HTTP: of namespaces, of topics, and where each value comes from."""

from collections.abc import Iterator

from magnetar_broker.server.admin.policies.explain import routes as explanations
from magnetar_broker.server.admin.policies.namespace import routes as namespaces
from magnetar_broker.server.admin.policies.quotas import routes as quotas
from magnetar_broker.server.admin.policies.rates import routes as rates
from magnetar_broker.server.admin.policies.topic import routes as topics
from magnetar_broker.server.admin.site import Handler
from magnetar_broker.server.http.table import Route


def policy_routes() -> Iterator[Route[Handler]]:
    """The lines of all policies."""
    for routes in (explanations, namespaces, topics, quotas, rates):
        yield from routes()
