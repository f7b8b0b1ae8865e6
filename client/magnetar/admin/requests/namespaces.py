"""Requests about namespaces, named tenant/namespace."""

from typing import Any

from magnetar.admin.requests.request import (
    ROOT,
    Figures,
    Request,
    forced,
    names_of,
    namespace_path,
    nothing,
    quoted,
)


def names(tenant: str) -> Request[list[str]]:
    """List the namespaces of a tenant."""
    return Request("GET", f"{ROOT}/namespaces/{quoted(tenant)}", result=names_of)


def create(namespace: str) -> Request[None]:
    """Create a namespace with the policies of the broker."""
    return Request("PUT", namespace_path(namespace), result=nothing)


def delete(namespace: str, *, force: bool = False) -> Request[None]:
    """Delete a namespace, with `force` its topics as well."""
    return Request("DELETE", namespace_path(namespace), query=forced(force), result=nothing)


def policies(namespace: str) -> Request[dict[str, Any]]:
    """Get the policies that are set, by their names in the REST API."""
    return Request("GET", namespace_path(namespace), result=dict)


def topics(namespace: str) -> Request[list[str]]:
    """List the full names of the topics; of a partitioned topic, those of its partitions."""
    return Request("GET", f"{namespace_path(namespace)}/topics", result=names_of)


def explain_policies(namespace: str) -> Request[dict[str, Figures]]:
    """Get every policy in effect, with its value and the level that sets it."""
    return Request("GET", f"{namespace_path(namespace)}/policies/explain", result=dict)


def properties(namespace: str) -> Request[dict[str, str]]:
    """Get the properties that administrators have attached to the namespace."""
    return Request("GET", f"{namespace_path(namespace)}/properties", result=dict)


def set_properties(namespace: str, properties: dict[str, str]) -> Request[None]:
    """Add properties, or change their values."""
    return Request("PUT", f"{namespace_path(namespace)}/properties", properties, result=nothing)


def remove_properties(namespace: str) -> Request[None]:
    """Remove all properties of the namespace."""
    return Request("DELETE", f"{namespace_path(namespace)}/properties", result=nothing)


def bundles(namespace: str) -> Request[Figures]:
    """Get the bundles of the namespace: `boundaries` are the limits of their hash ranges."""
    return Request("GET", f"{namespace_path(namespace)}/bundles", result=dict)


def unload(namespace: str, bundle: str | None = None) -> Request[None]:
    """Close the topics of the namespace or of one bundle; each is opened again when it is used."""
    path = namespace_path(namespace) + (f"/{quoted(bundle)}" if bundle else "")
    return Request("PUT", f"{path}/unload", result=nothing)


def clear_backlog(namespace: str, subscription: str | None = None) -> Request[None]:
    """Acknowledge the backlog of all subscriptions of the namespace, or of those of one name."""
    path = f"{namespace_path(namespace)}/clearBacklog"
    return Request(
        "POST", path + (f"/{quoted(subscription)}" if subscription else ""), result=nothing
    )


def unsubscribe(namespace: str, subscription: str) -> Request[None]:
    """Delete all subscriptions of this name in the namespace."""
    path = f"{namespace_path(namespace)}/unsubscribe/{quoted(subscription)}"
    return Request("POST", path, result=nothing)
