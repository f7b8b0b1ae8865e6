"""Typed requests reach the routes of the admin API: all of them but those that are named here."""

import inspect
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from magnetar.admin import requests
from magnetar.admin.requests import policies
from magnetar.admin.requests.policies import Policy
from magnetar.admin.requests.request import Request
from magnetar.schema import SchemaInfo
from magnetar_broker.server.admin.routes import ROUTES
from magnetar_proto.admin.endpoint import Endpoint
from magnetar_proto.ids import MessageId

TOPIC, NAMESPACE = "persistent://shop/orders/paid", "shop/orders"
SAMPLES: dict[str, Any] = {
    "topic": TOPIC, "namespace": NAMESPACE, "tenant": "shop", "subscription": "billing",
    "txn_id": (1, 2), "schema": SchemaInfo(1), "message_id": MessageId(3, 4),
    "actions": ["produce"], "roles": ["clerk"], "properties": {"a": "b"},
}  # fmt: skip
"""By the name of the argument; others are numbers, flags or texts as their annotation says."""
NO_REQUESTS = (
    "/metrics",
    "/admin/v2/openapi.json",
    "/admin/v2/brokers/ready",
    "/admin/v2/brokers/shutdown",
    "/admin/v2/brokers/snapshots",
    "/admin/v2/brokers/internal-configuration",
    "/admin/v2/broker-stats/",
    "/admin/v2/bookies/",
    "/admin/v2/clusters",
    "/admin/v2/resource-quotas",
    "/admin/v2/resourcegroups",
    "/admin/v2/namespaces/grantPermissionsOnTopics",
    "/admin/v2/namespaces/revokePermissionsOnTopics",
    "/admin/v2/non-persistent/",
    "/admin/v3/transactions/coordinatorInternalStats",
    "/admin/v3/transactions/pendingAckInternalStats",
    "/admin/v3/transactions/transactionBufferInternalStats",
)
"""What the paths begin with that operators ask, or that have no effect: `Request` asks them."""
NO_POLICIES = {
    "allowedClusters", "allowedTopicPropertyKeysForMetrics", "antiAffinity",
    "deduplicationSnapshotInterval", "dispatcherPauseOnAckStatePersistent", "entryFilters",
    "isAllowAutoUpdateSchema", "migration", "offloadDeletionLagMs", "offloadPolicies",
    "offloadThreshold", "offloadThresholdInSeconds", "persistence", "bookieAffinity",
    "removeOffloadPolicies", "replication", "replicatorDispatchRate", "resourcegroup",
    "schemaAutoUpdateCompatibilityStrategy", "shadowTopics", "subscriptionAuthMode",
}  # fmt: skip
"""Of other policies, most of them without effect."""
OTHERWISE = {
    "/admin/v2/namespaces/{}/{}/resourcegroup/{}",
    "/admin/v2/namespaces/{}/{}/property/{}",  # `properties`
    "/admin/v2/namespaces/{}/{}/property/{}/{}",
    "/admin/v2/namespaces/{}/{}/{}",  # of single bundles
    "/admin/v2/namespaces/{}/{}/{}/clearBacklog",
    "/admin/v2/namespaces/{}/{}/{}/clearBacklog/{}",
    "/admin/v2/namespaces/{}/{}/{}/split",
    "/admin/v2/namespaces/{}/{}/{}/topicHashPositions",
    "/admin/v2/namespaces/{}/{}/{}/unsubscribe/{}",
    "/admin/v2/brokers/{}",  # `names`, of the broker's own cluster
    "/admin/v2/{}/{}/{}",  # `namespaces.topics`
    "/admin/v2/{}/{}/{}/partitioned",
    "/admin/v2/{}/{}/{}/{}/internal-info",  # `internal_stats`
    "/admin/v2/{}/{}/{}/{}/partitioned-internalStats",
    "/admin/v2/{}/{}/{}/{}/terminate/partitions",
    "/admin/v2/{}/{}/{}/{}/{}/dispatchRate",  # of single subscriptions
    "/admin/v2/{}/{}/{}/{}/subscription/{}/expireMessages",  # by id
    "/admin/v2/{}/{}/{}/{}/subscription/{}/replicatedSubscriptionStatus",
}


def modules() -> list[ModuleType]:
    names = [one.name for one in pkgutil.iter_modules(requests.__path__)]
    return [import_module(f"{requests.__name__}.{name}") for name in names if name != "request"]


def sample(parameter: inspect.Parameter) -> Any:
    if parameter.name in SAMPLES:
        return SAMPLES[parameter.name]
    kind = str(parameter.annotation)
    if "MessageId" in kind:
        return MessageId(3, 4)
    if "bool" in kind:
        return True
    return 5 if "int" in kind else "x"


def calls(function: Any) -> Iterator[Request[Any]]:
    """With what must be given, and with everything."""
    parameters = inspect.signature(function).parameters.values()
    needed = [one for one in parameters if one.default is one.empty]
    for some in (needed, list(parameters)):
        yield function(**{one.name: sample(one) for one in some})


def asked() -> Iterator[tuple[str, Request[Any]]]:
    """Every request, with the name of its function."""
    for module in modules():
        for name, function in vars(module).items():
            if not inspect.isfunction(function) or function.__module__ != module.__name__:
                continue
            if name.startswith("_") or "Request[" not in str(function.__annotations__["return"]):
                continue
            for request in calls(function):
                yield f"{module.__name__.rpartition('.')[2]}.{name}", request
    for name, policy in vars(policies).items():
        if isinstance(policy, Policy):
            yield from ((name, request) for request in of_policy(policy))


def of_policy(policy: Policy[Any]) -> Iterator[Request[Any]]:
    for of, segment, removable in zip(
        (NAMESPACE, TOPIC), (policy.of_namespace, policy.of_topic), policy.removable, strict=True
    ):
        if segment is None:
            with pytest.raises(ValueError, match="have no policy"):
                policy.get(of)
            continue
        yield policy.get(of)
        if of == TOPIC or policy.has_applied:
            yield policy.get(of, applied=True)
        yield policy.set(of, POLICY_VALUES.get(policy_name(policy), 5))
        if removable:
            yield policy.remove(of)
        else:
            with pytest.raises(ValueError, match="cannot be removed"):
                policy.remove(of)


POLICY_VALUES: dict[str, Any] = {
    "RETENTION": policies.Retention(60, -1),
    "BACKLOG_QUOTA": policies.Quota(10**6),
    "BACKLOG_AGE": policies.Quota(3600, "consumer_backlog_eviction"),
    "INACTIVE_TOPICS": policies.InactiveTopics(True, 3600, "delete_when_subscriptions_caught_up"),
    "DELAYED_DELIVERY": policies.DelayedDelivery(True, 2000, 60_000),
    "DISPATCH_RATE": policies.Rate(1000, 10**6, 2),
    "SUBSCRIPTION_DISPATCH_RATE": policies.Rate(1000),
    "PUBLISH_RATE": policies.Rate(500, 10**7),
    "SUBSCRIBE_RATE": policies.SubscribeRate(7, 60),
    "DEDUPLICATION": True,
    "AUTO_TOPIC_CREATION": policies.TopicCreation(True, 4),
    "AUTO_SUBSCRIPTION_CREATION": False,
    "SUBSCRIPTION_TYPES": ["Exclusive", "Shared"],
    "SCHEMA_COMPATIBILITY": "BACKWARD",
    "SCHEMA_VALIDATION": True,
    "ENCRYPTION_REQUIRED": True,
}
"""Of the others, which are numbers, 5."""
NAMES = {name: policy for name, policy in vars(policies).items() if isinstance(policy, Policy)}


def policy_name(policy: Policy[Any]) -> str:
    return next(name for name, one in NAMES.items() if one is policy)


def pattern(endpoint: Endpoint) -> re.Pattern[str]:
    text = re.sub(r"\{\w+\}", "[^/]+", re.sub(r"\{\w+:([^}]*)\}", r"(?:\1)", endpoint.pattern))
    return re.compile(text)


def route_of(request: Request[Any]) -> Endpoint:
    """The route that answers it: the most exact one."""
    found = [
        endpoint
        for endpoint, _ in ROUTES.routes
        if endpoint.method == request.method and pattern(endpoint).fullmatch(request.path)
    ]
    assert found, f"{request.method} {request.path} has no route"
    return min(found, key=lambda endpoint: endpoint.pattern.count("{"))


def plain(path: str) -> str:
    return re.sub(r"\{[^}]*\}", "{}", path)


def test_every_request_has_a_route_and_every_route_a_request() -> None:
    reached = set()
    for name, request in asked():
        endpoint = route_of(request)
        reached.add((endpoint.method, plain(endpoint.pattern)))
        unknown = request.query.keys() - {one.name for one in endpoint.query}
        assert not unknown, f"{name}: the route has no {unknown}"
        if request.body is not None:
            assert endpoint.body is not None, f"{name}: the route takes no body"
    left = {
        (endpoint.method, plain(endpoint.pattern))
        for endpoint, _ in ROUTES.routes
        if not endpoint.pattern.startswith(NO_REQUESTS)
        and not endpoint.pattern.endswith("/")
        and plain(endpoint.pattern) not in OTHERWISE
        and endpoint.pattern.rpartition("/")[2] not in NO_POLICIES
    } - reached
    assert not left


def test_namespaces_have_no_values_in_effect_to_ask_for() -> None:
    with pytest.raises(ValueError, match="explain_policies"):
        policies.RETENTION.get(NAMESPACE, applied=True)
