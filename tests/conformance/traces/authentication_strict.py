"""Requests over HTTP where they must name their method."""

from conformance import authenticated
from conformance.authenticated import connecting, token
from conformance.trace import Trace

SETTINGS = {
    **authenticated.SETTINGS,
    "anonymousUserRole": "anonymous",
    "strictAuthMethod": "true",
}


def requests(t: Trace) -> None:
    right = {"Authorization": f"Bearer {token().decode()}"}
    t.web("GET", "clusters")
    t.web("GET", "clusters", headers=right)
    t.web("GET", "clusters", headers={**right, "X-Pulsar-Auth-Method-Name": "token"})
    t.web("GET", "clusters", headers={**right, "X-Pulsar-Auth-Method-Name": "basic"})


def connections_are_anonymous_as_ever(t: Trace) -> None:
    connecting(t)
