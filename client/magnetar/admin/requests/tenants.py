"""Requests about tenants."""

from collections.abc import Iterable

from magnetar.admin.requests.request import ROOT, Request, forced, names_of, nothing, quoted


def names() -> Request[list[str]]:
    """All tenants."""
    return Request("GET", f"{ROOT}/tenants", result=names_of)


def create(
    tenant: str, *, clusters: Iterable[str] = ("standalone",), admins: Iterable[str] = ()
) -> Request[None]:
    """A tenant that may use these clusters, administered by these roles."""
    body = {"adminRoles": list(admins), "allowedClusters": list(clusters)}
    return Request("PUT", f"{ROOT}/tenants/{quoted(tenant)}", body, result=nothing)


def delete(tenant: str, *, force: bool = False) -> Request[None]:
    """Delete a tenant, with `force` all that it has as well."""
    path = f"{ROOT}/tenants/{quoted(tenant)}"
    return Request("DELETE", path, query=forced(force), result=nothing)
