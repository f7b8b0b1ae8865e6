"""CONNECT and requests over HTTP where there is an anonymous role."""

from conformance import authenticated
from conformance.authenticated import PASSWORD, connecting, token, with_password, with_token
from conformance.trace import Trace
from credentials import basic
from magnetar_proto import PulsarApi_pb2 as pb

SETTINGS = {**authenticated.SETTINGS, "anonymousUserRole": "anonymous"}


def no_credentials(t: Trace) -> None:
    connecting(t)
    connecting(t, auth_method_name="none")
    connecting(t, auth_method_name="")
    connecting(t, auth_method=pb.AuthMethodAthens)


def methods_without_a_provider(t: Trace) -> None:
    connecting(t, auth_method_name="tls")
    connecting(t, auth_method_name="sasl", auth_data=b"x")
    connecting(t, auth_method_name="TOKEN", auth_data=token())


def wrong_credentials(t: Trace) -> None:
    connecting(t, auth_method_name="token")
    with_token(t, b"no token")
    with_token(t, token(exp=1))
    with_password(t, "alice:x")
    connecting(t, auth_method_name="basic")


def right_credentials(t: Trace) -> None:
    with_token(t, token())
    with_password(t, f"alice:{PASSWORD}")


def requests(t: Trace) -> None:
    t.web("GET", "clusters")
    for value in ("Bearer x", f"Bearer {token(exp=1).decode()}", basic("alice", "x"), "nonsense"):
        t.web("GET", "clusters", headers={"Authorization": value})


def requests_that_name_their_method(t: Trace) -> None:
    for method in ("token", "basic", "tls"):
        t.web("GET", "clusters", headers={"X-Pulsar-Auth-Method-Name": method})
