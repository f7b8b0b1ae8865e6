"""The commands reach the routes of the admin API: all of them but those that are named here."""

import re
from collections.abc import Iterator

from magnetar.cli.admin.commands import GROUPS, commands_of
from magnetar.cli.admin.declarations import Command
from magnetar_broker.server.admin.routes import ROUTES

NO_COMMANDS = (
    "/metrics",  # for Prometheus
    "/admin/v2/openapi.json",  # for tools
    "/admin/v2/brokers/ready",  # for supervisors
    "/admin/v2/brokers/snapshots",  # `magnetar snapshot`
    "/admin/v2/bookies/",  # there are none
    "/admin/v2/resource-quotas",  # without effect
    "/admin/v2/clusters/{}/namespaceIsolationPolicies",  # without effect
    "/admin/v2/namespaces/{}/{}/allowedTopicPropertyKeysForMetrics",  # without effect
    "/admin/v2/namespaces/{}/{}/migration",  # shown by `policies`
    "/admin/v2/namespaces/{}/{}/offloadThresholdInSeconds",  # shown by `policies`
    "/admin/v2/namespaces/grantPermissionsOnTopics",  # of many topics at once
    "/admin/v2/namespaces/revokePermissionsOnTopics",
    "/admin/v2/{}/{}/{}/{}/search",  # over REST only, as what follows
    "/admin/v2/{}/{}/{}/{}/subscription/{}/deadLetters",
    "/admin/v2/schemas/{}/{}/{}/version",  # for clients
)
"""What their paths begin with."""
OTHERWISE = {
    "/admin/v2/broker-stats/destinations",  # another name of topics
    "/admin/v2/non-persistent/{}/{}/{}",  # `topics list` with a bundle
    "/admin/v2/brokers",  # `brokers list` without a cluster
    "/admin/v2/schemas/{}/{}/{}/schema/{}",  # `schemas get --version`
    "/admin/v2/schemas/{}/{}/{}/schemas",  # `schemas get --all-version`
    "/admin/v2/{}/{}/{}/{}/subscription/{}/expireMessages/{}",  # by age
    "/admin/v2/{}/{}/{}/{}/subscription/{}/resetcursor/{}",  # by time
    "/admin/v2/namespaces/{}/{}/{}",  # deletes topics; pulsar-admin has no command for it either
    "/admin/v2/namespaces/{}/{}/clearBacklog/{}",
    "/admin/v2/namespaces/{}/{}/{}/clearBacklog",
    "/admin/v2/namespaces/{}/{}/{}/clearBacklog/{}",
}
"""Most are paths that a command has beside the one that it is declared with."""


def plain(method: str, path: str) -> tuple[str, str]:
    return method, re.sub(r"\{[^}]*\}", "{}", path)


def paths(command: Command) -> Iterator[tuple[str, str]]:
    endpoint = command.endpoint
    yield plain(endpoint.method, endpoint.pattern)
    if endpoint.instead is not None:
        yield plain(endpoint.method, endpoint._replace(path=endpoint.instead[1]).pattern)


COMMANDS = {path for group in GROUPS for one in commands_of(group) for path in paths(one)}
PATHS = {plain(one.method, one.pattern) for one, _ in ROUTES.routes}


def test_every_route_has_a_command() -> None:
    left = {
        (method, path)
        for method, path in PATHS - COMMANDS
        if not path.endswith("/") and path not in OTHERWISE and not path.startswith(NO_COMMANDS)
    }
    assert not left
