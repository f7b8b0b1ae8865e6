"""CONNECT and requests over HTTP with credentials; there is no anonymous role."""

import base64

import jwt

from conformance import authenticated
from conformance.authenticated import PASSWORD, connecting, token, with_password, with_token
from conformance.differences import Difference, differs
from conformance.trace import Trace
from credentials import SECRET, basic
from magnetar_proto import PulsarApi_pb2 as pb

SETTINGS = {**authenticated.SETTINGS, "proxyRoles": "proxy"}
ROLE = Difference(
    "tokens without a role",
    "are accepted, and have no permissions",
    "are refused",
)
COLON = Difference(
    "user and password with a colon after them",
    "are accepted",
    "are refused, as with a colon anywhere else",
)


def the_right_token(t: Trace) -> None:
    with_token(t, token())


def tokens_of_longer_hashes(t: Trace) -> None:
    for algorithm in ("HS384", "HS512"):
        with_token(t, token(algorithm=algorithm))


def no_credentials(t: Trace) -> None:
    connecting(t)
    connecting(t, auth_method_name="none")
    connecting(t, auth_method_name="")
    connecting(t, auth_method=pb.AuthMethodNone)


def methods_without_a_provider(t: Trace) -> None:
    connecting(t, auth_method_name="tls")
    connecting(t, auth_method_name="TOKEN", auth_data=token())
    connecting(t, auth_method=pb.AuthMethodYcaV1, auth_data=token())


def no_token(t: Trace) -> None:
    connecting(t, auth_method_name="token")
    with_token(t, b"")
    with_token(t, b"no token")
    with_token(t, b"a.b.c")


def a_token_with_a_wrong_signature(t: Trace) -> None:
    with_token(t, token(key=SECRET[::-1]))
    with_token(t, token()[:-4])


def a_token_without_a_signature(t: Trace) -> None:
    with_token(t, jwt.encode({"sub": "alice"}, "", "none").encode())


def tokens_and_their_times(t: Trace) -> None:
    with_token(t, token(exp=1))
    with_token(t, token(exp=4_000_000_000))
    with_token(t, token(nbf=4_000_000_000))
    with_token(t, token(nbf=1))
    with_token(t, token(iat=4_000_000_000))


@differs(ROLE)
def a_token_without_a_role(t: Trace) -> None:
    with_token(t, token(None, name="alice"))
    with_token(t, token(""))


def passwords(t: Trace) -> None:
    with_password(t, f"alice:{PASSWORD}")
    with_password(t, f"bob:{PASSWORD}")
    with_password(t, "alice:other")
    with_password(t, "bob:other")
    with_password(t, f"carol:{PASSWORD}")


def passwords_that_are_none(t: Trace) -> None:
    with_password(t, "")
    with_password(t, "alice")
    with_password(t, "alice:")
    with_password(t, f":{PASSWORD}")
    with_password(t, f"alice:{PASSWORD}:x")


@differs(COLON)
def a_password_with_a_colon_behind_it(t: Trace) -> None:
    with_password(t, f"alice:{PASSWORD}:")


def new_credentials_that_nobody_asked_for(t: Trace) -> None:
    for data in (token(), token("bob"), b"no token"):
        a = t.connects(version=None)
        a.sends_command(
            pb.CommandConnect(
                client_version="trace",
                protocol_version=21,
                auth_method_name="token",
                auth_data=token(),
            )
        )
        a.is_accepted_or_closed()
        response = pb.AuthData(auth_method_name="token", auth_data=data)
        a.sends_command(pb.CommandAuthResponse(response=response))
        if data == token():
            a.receives_rest()
        else:
            a.is_closed()


def names_of_clients_while_nothing_is_authorized(t: Trace) -> None:
    with_token(t, token("alice"), original_principal="bob")
    with_token(t, token("alice"), proxy_version="x")
    with_token(t, token("proxy"))
    with_token(t, token("proxy"), original_principal="bob", original_auth_data="no token")


def requests_with_tokens(t: Trace) -> None:
    for value in (f"Bearer {token().decode()}", "Bearer x", f"bearer {token().decode()}",
                  f"Bearer {token(exp=1).decode()}", token().decode(), "Bearer"):  # fmt: skip
        t.web("GET", "clusters", headers={"Authorization": value})
    t.web("GET", "clusters")


def requests_with_passwords(t: Trace) -> None:
    none = base64.b64encode(b"alice").decode()
    for value in (basic("alice", PASSWORD), basic("bob", PASSWORD), basic("alice", "x"),
                  basic("carol", PASSWORD), f"Basic {none}", "Basic ???", "Basic",
                  basic("alice", PASSWORD).replace("Basic", "bASIC")):  # fmt: skip
        t.web("GET", "clusters", headers={"Authorization": value})


def requests_that_name_their_method(t: Trace) -> None:
    right = {"Authorization": f"Bearer {token().decode()}"}
    for method in ("token", "basic", "tls", "TOKEN", "none"):
        t.web("GET", "clusters", headers={**right, "X-Pulsar-Auth-Method-Name": method})
    t.web("GET", "clusters", headers={"X-Pulsar-Auth-Method-Name": "token"})


def paths_without_credentials(t: Trace) -> None:
    for path in ("tenants", "brokers/version", "brokers/health", "no/such/path"):
        t.web("GET", path)
    t.web("GET", "/lookup/v2/topic/persistent/public/default/x")
    t.web("PUT", "tenants/T", {"adminRoles": [], "allowedClusters": ["standalone"]})
