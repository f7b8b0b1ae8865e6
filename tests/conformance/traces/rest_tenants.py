"""Tenants over REST: headers, types and bad input."""

from conformance.differences import differs
from conformance.rest_differences import CONTENT_TYPE, REDIRECTED, ROLES
from conformance.trace import Trace

HERE = {"allowedClusters": ["standalone"], "adminRoles": ["me"]}


def the_answers_about_a_tenant(t: Trace) -> None:
    t.web("PUT", f"tenants/{t.token}", HERE)
    t.web("GET", f"tenants/{t.token}")
    t.web("POST", f"tenants/{t.token}", HERE)
    t.web("DELETE", f"tenants/{t.token}")
    t.web("GET", "tenants", types=True)
    t.web("GET", "tenants/", types=True)


def bodies_that_are_no_tenant(t: Trace) -> None:
    t.web("PUT", f"tenants/{t.token}", b"null")
    t.web("PUT", f"tenants/{t.token}", b'"text"')
    t.web("PUT", f"tenants/{t.token}", b"7")
    t.web("PUT", f"tenants/{t.token}", b"true")
    t.web("PUT", f"tenants/{t.token}", b'{"adminRoles": ')
    t.web("PUT", f"tenants/{t.token}", {"adminRoles": "me", "allowedClusters": ["standalone"]})
    t.web("PUT", f"tenants/{t.token}", {"adminRoles": {}, "allowedClusters": ["standalone"]})
    t.web("GET", f"tenants/{t.token}")


def members_of_a_tenant_that_nobody_knows(t: Trace) -> None:
    t.web("PUT", f"tenants/{t.token}", {**HERE, "colour": "green", "more": {"a": [1]}})
    t.web("GET", f"tenants/{t.token}")


@differs(ROLES)
def a_tenant_with_null_members(t: Trace) -> None:
    t.web("PUT", f"tenants/{t.token}", {"adminRoles": None, "allowedClusters": ["standalone"]})
    t.web("GET", f"tenants/{t.token}")
    t.web("POST", f"tenants/{t.token}", {"adminRoles": ["a"], "allowedClusters": None})


@differs(CONTENT_TYPE)
def a_tenant_in_another_content_type(t: Trace) -> None:
    t.web("PUT", f"tenants/{t.token}", HERE, media="text/plain")
    t.web("PUT", f"tenants/{t.token}", HERE, media="application/xml")
    t.web("GET", f"tenants/{t.token}")


def the_same_cluster_twice(t: Trace) -> None:
    twice = ["standalone", "standalone"]
    t.web("PUT", f"tenants/{t.token}", {"allowedClusters": twice, "adminRoles": ["me", "me"]})
    t.web("GET", f"tenants/{t.token}")


def changes_of_a_tenant_that_are_refused(t: Trace) -> None:
    t.web("PUT", f"tenants/{t.token}", HERE)
    t.web("POST", f"tenants/{t.token}")
    t.web("POST", f"tenants/{t.token}", b"{")
    t.web("POST", f"tenants/{t.token}", {"allowedClusters": []})
    t.web("POST", f"tenants/{t.token}", {"allowedClusters": ["nowhere"]})
    t.web("GET", f"tenants/{t.token}")
    t.web("DELETE", f"tenants/{t.token}?force=perhaps")


def methods_that_tenants_do_not_have(t: Trace) -> None:
    t.web("POST", "tenants")
    t.web("DELETE", "tenants")
    t.web("PATCH", f"tenants/{t.token}")


def paths_that_are_none(t: Trace) -> None:
    t.web("GET", "tenant")
    t.web("GET", f"tenants/{t.token}/more/and/more")
    t.web("GET", "")
    t.web("GET", "/admin")
    t.web("GET", "/nothing/here")


@differs(REDIRECTED)
def the_root_of_the_api(t: Trace) -> None:
    t.web("GET", "/admin/v2")
