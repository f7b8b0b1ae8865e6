"""Requests about namespaces, named tenant/namespace."""

from typing import Any

from magnetar.admin.requests.request import (
    Figures,
    Request,
    ask,
    forced,
    names_of,
    nothing,
)


def names(tenant: str) -> Request[list[str]]:
    """List the namespaces of a tenant."""
    return ask("namespaces.namespaces", tenant, result=names_of)


def create(namespace: str) -> Request[None]:
    """Create a namespace with the policies of the broker."""
    return ask("namespaces.create", namespace, result=nothing)


def delete(namespace: str, *, force: bool = False) -> Request[None]:
    """Delete a namespace, with `force` its topics as well."""
    return ask("namespaces.delete", namespace, query=forced(force), result=nothing)


def policies(namespace: str) -> Request[dict[str, Any]]:
    """Get the policies that are set, by their names in the REST API."""
    return ask("namespaces.namespace", namespace, result=dict)


def topics(namespace: str) -> Request[list[str]]:
    """List the full names of the topics, with partitions in place of partitioned topics."""
    return ask("topics.topics_of_namespace", namespace, result=names_of)


def explain_policies(namespace: str) -> Request[dict[str, Figures]]:
    """Get every policy in effect, with its value and the level that sets it."""
    return ask("policies.explain.of_namespace", namespace, result=dict)


def properties(namespace: str) -> Request[dict[str, str]]:
    """Get the properties that administrators have attached to the namespace."""
    return ask("namespace_properties.properties", namespace, result=dict)


def set_properties(namespace: str, properties: dict[str, str]) -> Request[None]:
    """Add properties, or change their values."""
    return ask("namespace_properties.add_properties", namespace, body=properties, result=nothing)


def remove_properties(namespace: str) -> Request[None]:
    """Remove all properties of the namespace."""
    return ask("namespace_properties.clear_properties", namespace, result=nothing)


def bundles(namespace: str) -> Request[Figures]:
    """Get the bundles of the namespace: `boundaries` are the limits of their hash ranges."""
    return ask("bundles.bundles", namespace, result=dict)


def unload(namespace: str, bundle: str | None = None) -> Request[None]:
    """Close the topics of the namespace or of one bundle; each is opened again when it is used."""
    if bundle is None:
        return ask("bundles.unload_namespace", namespace, result=nothing)
    return ask("bundles.unload", namespace, bundle, result=nothing)


def clear_backlog(namespace: str, subscription: str | None = None) -> Request[None]:
    """Acknowledge the backlog of all subscriptions of the namespace, or of those of one name."""
    parts = (namespace, subscription) if subscription else (namespace,)
    return ask("messages.backlogs.clear", *parts, result=nothing)


def unsubscribe(namespace: str, subscription: str) -> Request[None]:
    """Delete all subscriptions of this name in the namespace."""
    return ask("messages.backlogs.unsubscribe", namespace, subscription, result=nothing)
