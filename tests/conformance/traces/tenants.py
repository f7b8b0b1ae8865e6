"""Tenants and clusters over REST."""

from typing import Any

from conformance.trace import Trace

HERE = {"allowedClusters": ["standalone"], "adminRoles": []}


def _path(t: Trace) -> str:
    return f"tenants/{t.token}"


def _makes(t: Trace, body: Any = HERE) -> None:
    t.rest("PUT", _path(t), body)


def a_tenant_comes_and_goes(t: Trace) -> None:
    t.rest("GET", _path(t))
    _makes(t)
    t.rest("GET", _path(t))
    t.rest("DELETE", _path(t))
    t.rest("GET", _path(t))


def roles_of_a_tenant(t: Trace) -> None:
    _makes(t, {"allowedClusters": ["standalone"], "adminRoles": ["me", "you"]})
    t.rest("GET", _path(t))
    t.rest("POST", _path(t), {"allowedClusters": ["standalone"], "adminRoles": ["her"]})
    t.rest("GET", _path(t))


def a_tenant_that_is_there(t: Trace) -> None:
    _makes(t)
    _makes(t)


def a_tenant_without_clusters(t: Trace) -> None:
    _makes(t, {"allowedClusters": [], "adminRoles": []})
    _makes(t, {"adminRoles": ["me"]})
    _makes(t, {})
    t.rest("GET", _path(t))


def a_tenant_of_a_cluster_that_is_not_there(t: Trace) -> None:
    _makes(t, {"allowedClusters": ["nowhere"], "adminRoles": []})
    _makes(t)
    t.rest("POST", _path(t), {"allowedClusters": ["nowhere"], "adminRoles": []})


def a_tenant_without_a_body(t: Trace) -> None:
    t.rest("PUT", _path(t))
    t.rest("GET", _path(t))


def a_tenant_whose_body_is_broken(t: Trace) -> None:
    _makes(t, b"{nonsense")
    _makes(t, [])
    _makes(t, {"allowedClusters": "standalone"})


def names_that_are_no_tenants(t: Trace) -> None:
    for name in ("a%20b", "a%2Fb", "%C3%A4", "a*b"):
        t.rest("PUT", f"tenants/{name}", HERE)


def a_tenant_that_is_not_there(t: Trace) -> None:
    t.rest("POST", _path(t), HERE)
    t.rest("DELETE", _path(t))
    t.rest("GET", f"namespaces/{t.token}")


def a_tenant_with_a_namespace(t: Trace) -> None:
    _makes(t)
    t.rest("PUT", f"namespaces/{t.token}/ns")
    t.rest("GET", f"namespaces/{t.token}")
    t.rest("DELETE", _path(t))
    t.rest("DELETE", f"namespaces/{t.token}/ns")
    t.rest("DELETE", _path(t))


def a_tenant_with_a_namespace_goes_by_force(t: Trace) -> None:
    _makes(t)
    t.rest("PUT", f"namespaces/{t.token}/ns")
    t.rest("DELETE", f"{_path(t)}?force=true")
    t.rest("GET", _path(t))


def more_than_is_known_of_a_tenant(t: Trace) -> None:
    _makes(t, HERE | {"colour": "green"})
    t.rest("GET", _path(t))


def clusters(t: Trace) -> None:
    t.rest("GET", "clusters")
    t.rest("GET", "clusters/nowhere")


def the_list_of_tenants(t: Trace) -> None:
    _makes(t)
    listed = t.rest("GET", "tenants/")
    t.lines[-1] = f"rest < {'a list with T' if t.token in listed else listed}"
