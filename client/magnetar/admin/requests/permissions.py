"""Requests about the permissions of roles (docs/authorization.md)."""

from collections.abc import Iterable
from typing import Any

from magnetar.admin.requests.request import (
    Request,
    ask,
    names_of,
    nothing,
)

Grants = dict[str, list[str]]
"""Actions by role: produce, consume, functions, sources, sinks, packages."""


def of_namespace(namespace: str) -> Request[Grants]:
    """Get the permissions on all topics of a namespace."""
    return ask("permissions.of_namespace", namespace, result=_grants)


def grant(namespace: str, role: str, actions: Iterable[str]) -> Request[None]:
    """Grant a role these actions on all topics of a namespace, and revoke all others."""
    return ask("permissions.grant", namespace, role, body=list(actions), result=nothing)


def revoke(namespace: str, role: str) -> Request[None]:
    """Revoke the permissions of a role on a namespace."""
    return ask("permissions.revoke", namespace, role, result=nothing)


def of_topic(topic: str) -> Request[Grants]:
    """Get the permissions on a topic, including those of its namespace."""
    return ask("permissions.of_topic", topic, result=_grants)


def grant_on_topic(topic: str, role: str, actions: Iterable[str]) -> Request[None]:
    """Grant a role these actions on a topic."""
    return ask("permissions.grant_on_topic", topic, role, body=list(actions), result=nothing)


def revoke_on_topic(topic: str, role: str) -> Request[None]:
    """Revoke the permissions of a role on a topic."""
    return ask("permissions.revoke_on_topic", topic, role, result=nothing)


def of_subscriptions(namespace: str) -> Request[Grants]:
    """Get the roles that may use each subscription whose use is restricted."""
    return ask("permissions.of_subscriptions", namespace, result=_grants)


def grant_subscription(namespace: str, subscription: str, roles: Iterable[str]) -> Request[None]:
    """Restrict the subscriptions of this name to these roles."""
    return ask(
        "permissions.grant_subscription", namespace, subscription, body=list(roles), result=nothing
    )


def revoke_subscription(namespace: str, subscription: str, role: str) -> Request[None]:
    """Revoke the permission of a role to use the subscriptions of this name."""
    return ask("permissions.revoke_subscription", namespace, subscription, role, result=nothing)


def _grants(found: Any) -> Grants:
    return {name: sorted(names_of(some)) for name, some in found.items()}
