"""All endpoints of the admin API."""

from functools import cache

from magnetar_proto.admin.endpoint import Endpoint
from magnetar_proto.admin.endpoints import (
    absent,
    brokers,
    clusters,
    messages,
    namespaces,
    policies,
    schemas,
    statistics,
    subscriptions,
    topics,
    transactions,
)
from magnetar_proto.admin.policies import POLICIES
from magnetar_proto.admin.policy import ROOTS

ENDPOINTS = (
    *namespaces.ENDPOINTS,
    *clusters.ENDPOINTS,
    *topics.ENDPOINTS,
    *messages.ENDPOINTS,
    *subscriptions.ENDPOINTS,
    *schemas.ENDPOINTS,
    *statistics.ENDPOINTS,
    *transactions.ENDPOINTS,
    *brokers.ENDPOINTS,
    *absent.ENDPOINTS,
    *policies.ENDPOINTS,
)
"""All but those that the declaration of one policy makes."""


@cache
def endpoints_named(name: str) -> tuple[Endpoint, ...]:
    """Return the endpoints with a name: more than one if their paths have different parts."""
    return tuple(one for one in all_endpoints() if one.name == name)


@cache
def all_endpoints() -> tuple[Endpoint, ...]:
    """Return every endpoint."""
    made = (one for policy in POLICIES for level in ROOTS for one in policy.endpoints(level))
    return (*ENDPOINTS, *made)
