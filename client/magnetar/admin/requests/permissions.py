"""Requests about what roles may do (docs/authorization.md)."""

from collections.abc import Iterable
from typing import Any

from magnetar.admin.requests.request import (
    Request,
    names_of,
    namespace_path,
    nothing,
    quoted,
    topic_path,
)

Grants = dict[str, list[str]]
"""Actions by role: produce, consume, functions, sources, sinks, packages."""


def of_namespace(namespace: str) -> Request[Grants]:
    """What is granted for all topics of a namespace."""
    return Request("GET", f"{namespace_path(namespace)}/permissions", result=_grants)


def grant(namespace: str, role: str, actions: Iterable[str]) -> Request[None]:
    """Let a role do this with all topics of a namespace, in the place of former actions."""
    path = f"{namespace_path(namespace)}/permissions/{quoted(role)}"
    return Request("POST", path, list(actions), result=nothing)


def revoke(namespace: str, role: str) -> Request[None]:
    """Take back what is granted to a role for a namespace."""
    path = f"{namespace_path(namespace)}/permissions/{quoted(role)}"
    return Request("DELETE", path, result=nothing)


def of_topic(topic: str) -> Request[Grants]:
    """What is granted for a topic, also by its namespace."""
    return Request("GET", f"{topic_path(topic)}/permissions", result=_grants)


def grant_on_topic(topic: str, role: str, actions: Iterable[str]) -> Request[None]:
    """Let a role do this with a topic."""
    path = f"{topic_path(topic)}/permissions/{quoted(role)}"
    return Request("POST", path, list(actions), result=nothing)


def revoke_on_topic(topic: str, role: str) -> Request[None]:
    """Take back what is granted to a role for a topic."""
    path = f"{topic_path(topic)}/permissions/{quoted(role)}"
    return Request("DELETE", path, result=nothing)


def of_subscriptions(namespace: str) -> Request[Grants]:
    """The roles that may use the subscriptions of these names, where that is limited."""
    return Request("GET", f"{namespace_path(namespace)}/permissions/subscription", result=_grants)


def grant_subscription(namespace: str, subscription: str, roles: Iterable[str]) -> Request[None]:
    """Let only these roles use the subscriptions of this name."""
    path = f"{namespace_path(namespace)}/permissions/subscription/{quoted(subscription)}"
    return Request("POST", path, list(roles), result=nothing)


def revoke_subscription(namespace: str, subscription: str, role: str) -> Request[None]:
    """Let a role use the subscriptions of this name no more."""
    path = f"{namespace_path(namespace)}/permissions/{quoted(subscription)}/{quoted(role)}"
    return Request("DELETE", path, result=nothing)


def _grants(found: Any) -> Grants:
    return {name: sorted(names_of(some)) for name, some in found.items()}
