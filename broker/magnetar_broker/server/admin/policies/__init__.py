"""Policies over HTTP: of namespaces, of topics, and where each value comes from."""

from collections.abc import Iterator

from magnetar_broker.server.admin.policies import explain, namespace, quotas, rates, topic
from magnetar_broker.server.admin.site import Handler
from magnetar_broker.server.http.table import Route


def policy_routes() -> Iterator[Route[Handler]]:
    """The lines of all policies."""
    for part in (explain, namespace, topic, quotas, rates):
        yield from part.routes()
