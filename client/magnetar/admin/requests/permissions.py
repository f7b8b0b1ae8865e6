"""Requests about the permissions of roles (docs/authorization.md)."""

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
    """Get the permissions on all topics of a namespace."""
    return Request("GET", f"{namespace_path(namespace)}/permissions", result=_grants)


def grant(namespace: str, role: str, actions: Iterable[str]) -> Request[None]:
    """Grant a role these actions on all topics of a namespace, and revoke all others."""
    path = f"{namespace_path(namespace)}/permissions/{quoted(role)}"
    return Request("POST", path, list(actions), result=nothing)


def revoke(namespace: str, role: str) -> Request[None]:
    """Revoke the permissions of a role on a namespace."""
    path = f"{namespace_path(namespace)}/permissions/{quoted(role)}"
    return Request("DELETE", path, result=nothing)


def of_topic(topic: str) -> Request[Grants]:
    """Get the permissions on a topic, including those of its namespace."""
    return Request("GET", f"{topic_path(topic)}/permissions", result=_grants)


def grant_on_topic(topic: str, role: str, actions: Iterable[str]) -> Request[None]:
    """Grant a role these actions on a topic."""
    path = f"{topic_path(topic)}/permissions/{quoted(role)}"
    return Request("POST", path, list(actions), result=nothing)


def revoke_on_topic(topic: str, role: str) -> Request[None]:
    """Revoke the permissions of a role on a topic."""
    path = f"{topic_path(topic)}/permissions/{quoted(role)}"
    return Request("DELETE", path, result=nothing)


def of_subscriptions(namespace: str) -> Request[Grants]:
    """Get the roles that may use each subscription whose use is restricted."""
    return Request("GET", f"{namespace_path(namespace)}/permissions/subscription", result=_grants)


def grant_subscription(namespace: str, subscription: str, roles: Iterable[str]) -> Request[None]:
    """Restrict the subscriptions of this name to these roles."""
    path = f"{namespace_path(namespace)}/permissions/subscription/{quoted(subscription)}"
    return Request("POST", path, list(roles), result=nothing)


def revoke_subscription(namespace: str, subscription: str, role: str) -> Request[None]:
    """Revoke the permission of a role to use the subscriptions of this name."""
    path = f"{namespace_path(namespace)}/permissions/{quoted(subscription)}/{quoted(role)}"
    return Request("DELETE", path, result=nothing)


def _grants(found: Any) -> Grants:
    return {name: sorted(names_of(some)) for name, some in found.items()}
