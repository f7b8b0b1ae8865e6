"""Roles of connections and requests: chains of providers, anonymous clients, and proxies."""

import asyncio
from typing import Any

import pytest
from passlib.hash import apr_md5_crypt

from credentials import PASSWORD, SECRET, at_once, basic, token
from magnetar_broker.authentication.authenticator import (
    AuthenticationRules,
    Authenticator,
    Proof,
)
from magnetar_broker.authentication.identity import Roles
from magnetar_broker.authentication.passwords import Passwords
from magnetar_broker.authentication.token_keys import secret_key
from magnetar_broker.authentication.tokens import TokenRules, Tokens
from magnetar_broker.base.errors import NotAuthenticated, NotAuthorized, RoleChanged
from magnetar_proto import PulsarApi_pb2 as pb

USERS = {"alice": apr_md5_crypt.hash(PASSWORD)}
OTHER_SECRET = b"another secret of at least 32 bytes"


def made(*, other: bool = False, **rules: Any) -> Authenticator:
    def now() -> float:
        return 0.0

    providers: list[Any] = [Tokens(secret_key(SECRET), TokenRules(), now)]
    if other:
        providers.append(Tokens(secret_key(OTHER_SECRET), TokenRules(), now))
    providers.append(Passwords(lambda: USERS, at_once))
    rules["proxies"] = frozenset(rules.get("proxies", ("proxy",)))
    return Authenticator(providers, AuthenticationRules(**rules))


def connect(authenticator: Authenticator, role: str | None = None, **fields: Any) -> Proof:
    if role is not None:
        fields = {"auth_method_name": "token", "auth_data": token(role).encode(), **fields}
    command = pb.CommandConnect(client_version="test", **fields)
    return asyncio.run(authenticator.of_connect(command, b""))


def request(authenticator: Authenticator, **headers: str) -> Roles:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return asyncio.run(authenticator.of_request(named, b""))


def test_connections_with_each_method() -> None:
    authenticator = made()
    assert connect(authenticator, "bob").roles == Roles("bob")
    proof = connect(
        authenticator, None, auth_method_name="basic", auth_data=b"alice:" + PASSWORD.encode()
    )
    assert proof == Proof(Roles("alice"), "basic", None, "basic")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"auth_method_name": "none"},
        {"auth_method_name": ""},
        {"auth_method_name": "TOKEN", "auth_data": token("bob").encode()},
        {"auth_method": pb.AuthMethodAthens, "auth_data": token("bob").encode()},
    ],
)
def test_a_method_without_a_provider_is_the_anonymous_role_or_refused(
    fields: dict[str, Any],
) -> None:
    assert connect(made(anonymous="anonymous"), **fields).roles == Roles("anonymous")
    with pytest.raises(NotAuthenticated, match=r"^Failed to authenticate$"):
        connect(made(), **fields)


def test_wrong_credentials_are_refused_though_there_is_an_anonymous_role() -> None:
    for method, data in (("token", b"x"), ("token", b""), ("basic", b"alice:x")):
        with pytest.raises(NotAuthenticated, match=r"^Failed to authenticate$"):
            connect(made(anonymous="anonymous"), auth_method_name=method, auth_data=data)


def test_of_two_providers_with_one_method_the_first_that_accepts_counts() -> None:
    import jwt

    authenticator = made(other=True)
    for secret in (SECRET, OTHER_SECRET):
        data = jwt.encode({"sub": "bob"}, secret).encode()
        proof = connect(authenticator, auth_method_name="token", auth_data=data)
        assert proof.roles == Roles("bob")
    assert sum(authenticator.outcomes.accepted.values()) == 2
    assert not authenticator.outcomes.refused
    with pytest.raises(NotAuthenticated):
        connect(authenticator, auth_method_name="token", auth_data=b"x")
    assert authenticator.outcomes.refused == {
        ("AuthenticationProviderToken", "token", "INVALID_TOKEN"): 2
    }


# Proxies --------------------------------------------------------------------------------


def test_a_proxy_names_its_client() -> None:
    authenticator = made(checks_originals=True)
    proof = connect(authenticator, "proxy", original_principal="bob", proxy_version="1")
    assert proof.roles == Roles("proxy", "bob")
    assert proof.refreshed_method is None


@pytest.mark.parametrize(
    ("role", "fields"),
    [
        ("proxy", {}),
        ("proxy", {"original_principal": " "}),
        ("proxy", {"original_principal": "proxy"}),
        ("bob", {"original_principal": "alice"}),
        ("bob", {"original_principal": "bob"}),
        ("bob", {"original_principal": "admin"}),
    ],
)
def test_only_a_proxy_names_a_client_and_it_must(role: str, fields: dict[str, Any]) -> None:
    with pytest.raises(NotAuthorized, match="a role of proxyRoles must"):
        connect(made(checks_originals=True), role, **fields)


def test_only_a_proxy_states_its_version() -> None:
    with pytest.raises(NotAuthorized, match="proxy_version"):
        connect(made(checks_originals=True), "bob", proxy_version="1")
    assert connect(made(checks_originals=True), "bob", original_principal=" ").roles == Roles("bob")


def test_while_nothing_is_authorized_a_name_that_no_proxy_gives_has_no_effect() -> None:
    assert connect(made(), "bob", original_principal="admin").roles == Roles("bob")
    assert connect(made(), "proxy").roles == Roles("proxy")


def test_the_client_of_a_proxy_proves_its_role_where_it_must() -> None:
    authenticator = made(proves_originals=True, checks_originals=True)
    original = {"original_principal": "ignored", "original_auth_method": "token"}
    proof = connect(authenticator, "proxy", **original, original_auth_data=token("bob", 60))
    assert proof.roles == Roles("proxy", "bob")
    assert proof.refreshed_method == "token" and proof.expires_at is not None
    for data in ("", "x", token("bob", None) + "x"):
        with pytest.raises(NotAuthenticated):
            connect(authenticator, "proxy", **original, original_auth_data=data)
    with pytest.raises(NotAuthenticated):  # no method: no anonymous role
        connect(authenticator, "proxy", original_principal="bob")
    with pytest.raises(NotAuthorized):  # it has credentials of a proxy, and is a client
        connect(authenticator, "proxy", **original, original_auth_data=token("proxy"))
    with pytest.raises(NotAuthorized):
        connect(authenticator, "bob", **original, original_auth_data=token("admin"))


def test_the_anonymous_client_of_a_proxy() -> None:
    authenticator = made(proves_originals=True, checks_originals=True, anonymous="nobody")
    assert connect(authenticator, "proxy", original_principal="x").roles == Roles("proxy", "nobody")
    with pytest.raises(NotAuthenticated):  # the proxy itself is not excused
        connect(
            authenticator, auth_method_name="token", auth_data=b"x", original_principal="nobody"
        )


def test_renewed_credentials_prove_the_same_role() -> None:
    authenticator = made(proves_originals=True)
    proof = connect(authenticator, "bob")
    renewed = asyncio.run(authenticator.renewed(proof, token("bob", 60).encode(), b""))
    assert renewed.roles == proof.roles and renewed.expires_at is not None
    with pytest.raises(RoleChanged):
        asyncio.run(authenticator.renewed(proof, token("admin").encode(), b""))
    with pytest.raises(NotAuthenticated):
        asyncio.run(authenticator.renewed(proof, b"x", b""))
    fields = {"original_principal": "x", "original_auth_method": "token"}
    of_client = connect(authenticator, "proxy", **fields, original_auth_data=token("bob"))
    renewed = asyncio.run(authenticator.renewed(of_client, token("bob", 60).encode(), b""))
    assert renewed.roles == Roles("proxy", "bob")
    with pytest.raises(RoleChanged):
        asyncio.run(authenticator.renewed(of_client, token("proxy").encode(), b""))


def test_what_was_not_proved_by_credentials_cannot_be_renewed() -> None:
    for authenticator, fields in (
        (made(anonymous="nobody"), {}),
        (made(), {"role": "proxy", "original_principal": "bob"}),
    ):
        proof = connect(authenticator, **fields)
        with pytest.raises(NotAuthenticated):
            asyncio.run(authenticator.renewed(proof, token("bob").encode(), b""))


# HTTP -----------------------------------------------------------------------------------


def test_requests_with_each_method() -> None:
    authenticator = made()
    bearer = f"Bearer {token('bob')}"
    assert request(authenticator, authorization=bearer) == Roles("bob")
    assert request(authenticator, authorization=basic("alice", PASSWORD)) == Roles("alice")
    named = {"authorization": bearer, "x_pulsar_auth_method_name": "token"}
    assert request(authenticator, **named) == Roles("bob")
    assert request(made(strict=True), **named) == Roles("bob")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer x"},
        {"authorization": "bearer " + token("bob")},
        {"authorization": token("bob")},
        {"authorization": basic("alice", "x")},
    ],
)
def test_requests_without_proof_are_anonymous_or_refused(headers: dict[str, str]) -> None:
    for authenticator in (made(), made(anonymous="nobody", strict=True)):
        with pytest.raises(NotAuthenticated, match=r"^Authentication required$"):
            request(authenticator, **headers)
    assert request(made(anonymous="nobody"), **headers) == Roles("nobody")


@pytest.mark.parametrize("method", ["token", "basic", "tls", "Token", ""])
def test_a_request_that_names_its_method_is_never_anonymous(method: str) -> None:
    with pytest.raises(NotAuthenticated):
        request(made(anonymous="nobody"), x_pulsar_auth_method_name=method)


def test_requests_of_proxies() -> None:
    authenticator = made(checks_originals=True)

    def ask(role: str, original: str | None) -> Roles:
        headers = {} if original is None else {"x_original_principal": original}
        return request(authenticator, authorization=f"Bearer {token(role)}", **headers)

    assert ask("proxy", "bob") == Roles("proxy", "bob")
    assert ask("bob", "bob") == ask("bob", " ") == ask("bob", None) == Roles("bob")
    for role, original in (("bob", "admin"), ("proxy", None), ("proxy", "proxy"), ("proxy", " ")):
        with pytest.raises(NotAuthenticated, match="a role of proxyRoles must"):
            ask(role, original)
