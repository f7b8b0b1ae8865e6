"""Requests about tenants."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from magnetar.admin.requests.request import Request, ask, forced, names_of, nothing


@dataclass(frozen=True, slots=True)
class Tenant:
    """The administrators of a tenant, and the clusters that it may use."""

    admins: list[str]
    clusters: list[str]


def names() -> Request[list[str]]:
    """List all tenants."""
    return ask("tenants.tenants", result=names_of)


def create(
    tenant: str, *, clusters: Iterable[str] = ("standalone",), admins: Iterable[str] = ()
) -> Request[None]:
    """Create a tenant that may use these clusters, with these roles as administrators."""
    body = {"adminRoles": list(admins), "allowedClusters": list(clusters)}
    return ask("tenants.create", tenant, body=body, result=nothing)


def get(tenant: str) -> Request[Tenant]:
    """Get the administrators and clusters of a tenant."""
    return ask("tenants.tenant", tenant, result=_tenant)


def update(
    tenant: str, *, clusters: Iterable[str] = ("standalone",), admins: Iterable[str] = ()
) -> Request[None]:
    """Replace the clusters and administrators of a tenant."""
    body = {"adminRoles": list(admins), "allowedClusters": list(clusters)}
    return ask("tenants.change", tenant, body=body, result=nothing)


def delete(tenant: str, *, force: bool = False) -> Request[None]:
    """Delete a tenant, with `force` also its namespaces and topics."""
    return ask("tenants.delete", tenant, query=forced(force), result=nothing)


def _tenant(found: Any) -> Tenant:
    return Tenant(sorted(found["adminRoles"]), sorted(found["allowedClusters"]))
