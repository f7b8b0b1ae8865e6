"""All policies that have their own path, derived from their declarations."""

from collections.abc import Iterator
from typing import Any

from magnetar_broker.policies.policy import Policy
from magnetar_broker.policies.table import RETENTION, TABLE
from magnetar_broker.policies.without_effect import ALLOWED_CLUSTERS, REPLICATION_CLUSTERS
from magnetar_broker.server.admin.context import AdminContext, Handler, serving
from magnetar_broker.server.admin.policies.cluster_lists import (
    check_allowed,
    check_replication,
    check_replication_of_topic,
)
from magnetar_broker.server.admin.policies.policy_handlers import (
    Check,
    PolicyHandlers,
    topic_with_policies,
)
from magnetar_broker.server.admin.policies.quotas import (
    check_namespace_retention,
    check_topic_retention,
)
from magnetar_broker.server.http.messages import Request
from magnetar_broker.server.http.table import Route
from magnetar_proto.admin.policy import Level

CHECKS: dict[str, dict[Policy[Any], Check[Any]]] = {
    "namespace": {
        RETENTION: check_namespace_retention,
        REPLICATION_CLUSTERS: check_replication,
        ALLOWED_CLUSTERS: check_allowed,
    },
    "topic": {
        RETENTION: check_topic_retention,
        REPLICATION_CLUSTERS: check_replication_of_topic,
    },
}
"""The functions that compare values with other policies, by level."""
HANDLERS: dict[str, list[PolicyHandlers[Any]]] = {
    level: [
        PolicyHandlers(policy, path, checks.get(policy))
        for policy in TABLE.values()
        if isinstance(path := getattr(policy.declared, level), Level)
    ]
    for level, checks in CHECKS.items()
}


async def delete_all(context: AdminContext, request: Request) -> None:
    """Delete all policies of a topic."""
    directory = serving(context)
    topic = await topic_with_policies(directory, request)
    await directory.enforcement.set(topic, dict.fromkeys(TABLE.values()))


def routes() -> Iterator[Route[Handler]]:
    """Yield the routes of all these policies."""
    for level, found in HANDLERS.items():
        for handlers in found:
            yield from handlers.routes(level)
