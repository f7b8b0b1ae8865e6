"""Requests about namespaces, named tenant/namespace."""

from typing import Any

from magnetar.admin.requests.request import (
    ROOT,
    Request,
    forced,
    names_of,
    namespace_path,
    nothing,
    quoted,
)


def names(tenant: str) -> Request[list[str]]:
    """The namespaces of a tenant."""
    return Request("GET", f"{ROOT}/namespaces/{quoted(tenant)}", result=names_of)


def create(namespace: str) -> Request[None]:
    """A namespace with the policies of the broker."""
    return Request("PUT", namespace_path(namespace), result=nothing)


def delete(namespace: str, *, force: bool = False) -> Request[None]:
    """Delete a namespace, with `force` its topics as well."""
    return Request("DELETE", namespace_path(namespace), query=forced(force), result=nothing)


def policies(namespace: str) -> Request[dict[str, Any]]:
    """The policies that are set, by their names in the REST API."""
    return Request("GET", namespace_path(namespace), result=dict)


def topics(namespace: str) -> Request[list[str]]:
    """The full names of its topics; of partitioned topics those of the partitions."""
    return Request("GET", f"{namespace_path(namespace)}/topics", result=names_of)
