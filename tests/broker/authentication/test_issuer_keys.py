"""Tokens of issuers: discovery, which tokens are accepted, and when keys are fetched."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from magnetar_broker.authentication.issuer_keys import CacheRules, IssuerKeys, keys_of
from magnetar_broker.authentication.oidc import OpenIdTokens
from magnetar_broker.authentication.provider import Credentials, InvalidCredentials
from magnetar_broker.authentication.tokens import TokenRules

ISSUER = "https://issuer.example/realm"
KEYS = {name: rsa.generate_private_key(65537, 2048) for name in ("one", "two")}
CURVE = ec.generate_private_key(ec.SECP256R1())


def jwk(name: str, private: Any, **others: Any) -> dict[str, Any]:
    kind = (
        jwt.algorithms.RSAAlgorithm
        if isinstance(private, rsa.RSAPrivateKey)
        else (jwt.algorithms.ECAlgorithm)
    )
    made: dict[str, Any] = kind.to_jwk(private.public_key(), as_dict=True)
    return {**made, "kid": name, "use": "sig", **others}


class Issuer:
    """An issuer without a network, and the clock of the broker."""

    def __init__(self) -> None:
        self.document: Any = {"issuer": ISSUER, "jwks_uri": "https://keys.example/jwks"}
        self.keys: list[Any] = [jwk("one", KEYS["one"])]
        self.fetched: list[str] = []
        self.is_down = self.hangs = False
        self.now = 1_700_000_000.0

    async def fetch(self, url: str) -> bytes:
        self.fetched.append(url)
        if self.hangs:
            await asyncio.Event().wait()
        if self.is_down:
            raise OSError("it is down")
        found = {
            f"{ISSUER}/.well-known/openid-configuration": self.document,
            "https://keys.example/jwks": {"keys": self.keys},
        }
        return json.dumps(found[url]).encode()

    def provider(self, **rules: Any) -> OpenIdTokens:
        return OpenIdTokens(
            frozenset((ISSUER,)),
            IssuerKeys(self.fetch, CacheRules(**rules), lambda: self.now, asyncio.create_task),
            TokenRules("sub", "aud", frozenset(("broker", "other"))),
            lambda: self.now,
        )

    def token(self, key: str = "one", algorithm: str = "RS256", **claims: Any) -> str:
        default = {"iss": ISSUER, "sub": "alice", "aud": "broker", "exp": self.now + 60}
        claims = {name: v for name, v in {**default, **claims}.items() if v is not None}
        return jwt.encode(claims, KEYS.get(key, CURVE), algorithm, {"kid": key})


def role(provider: OpenIdTokens, token: str) -> str:
    """Who the token belongs to; what was begun in the background has ended on return."""

    async def identify() -> str:
        found = await provider.identify(Credentials(token.encode()))
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))
        return found.role

    return asyncio.run(identify())


def reason(provider: OpenIdTokens, token: str) -> str:
    with pytest.raises(InvalidCredentials) as refused:
        role(provider, token)
    return refused.value.reason


def test_a_token_of_the_issuer_is_accepted_with_one_fetch_of_its_keys() -> None:
    issuer = Issuer()
    provider = issuer.provider()
    assert (
        role(provider, issuer.token())
        == role(provider, issuer.token(aud=["x", "other"]))
        == "alice"
    )
    assert len(issuer.fetched) == 2


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"iss": "https://evil.example"}, "UNSUPPORTED_ISSUER"),
        ({"iss": ISSUER + "/"}, "UNSUPPORTED_ISSUER"),
        ({"iss": None}, "UNSUPPORTED_ISSUER"),
        ({"aud": "x"}, "INVALID_AUDIENCES"),
        ({"aud": None}, "INVALID_AUDIENCES"),
        ({"exp": None}, "ERROR_VERIFYING_JWT"),
        ({"exp": 1}, "INVALID_TOKEN"),
        ({"sub": None}, "INVALID_TOKEN"),
    ],
)
def test_claims_that_prove_nothing(claims: dict[str, Any], why: str) -> None:
    issuer = Issuer()
    assert reason(issuer.provider(), issuer.token(**claims)) == why


def test_signatures_that_prove_nothing() -> None:
    issuer = Issuer()
    issuer.keys.append(jwk("curve", CURVE))
    provider = issuer.provider()
    assert role(provider, issuer.token("curve", "ES256")) == "alice"
    assert reason(provider, issuer.token("one", "PS256")) == "UNSUPPORTED_ALGORITHM"
    claims = {"iss": ISSUER, "sub": "a", "aud": "broker", "exp": issuer.now + 9}
    for token in (
        jwt.encode(claims, "", "none", {"kid": "one"}),
        jwt.encode(claims, "x" * 32, "HS256", {"kid": "one"}),
    ):
        assert reason(provider, token) == "UNSUPPORTED_ALGORITHM"
    assert reason(provider, jwt.encode(claims, KEYS["two"], "RS256", {"kid": "one"})) == (
        "INVALID_TOKEN"
    )
    assert reason(provider, jwt.encode(claims, KEYS["one"], "RS256")) == "INVALID_PUBLIC_KEY"
    assert reason(provider, "no.token.at.all") == "ERROR_DECODING_JWT"
    values: list[Any] = [[], {}, 7, True]
    for of_any_type in values:
        head = jwt.encode({**claims, "iss": "x"}, KEYS["one"], "RS256").split(".")
        body = jwt.utils.base64url_encode(json.dumps({"iss": of_any_type}).encode()).decode()
        reason(provider, f"{head[0]}.{body}.{head[2]}")


def test_a_new_key_is_fetched_when_a_token_names_it_but_not_again_and_again() -> None:
    issuer = Issuer()
    provider = issuer.provider(miss_seconds=300)
    role(provider, issuer.token())
    issuer.keys = [jwk("two", KEYS["two"])]
    assert reason(provider, issuer.token("two")) == "INVALID_PUBLIC_KEY"  # fetched just now
    assert len(issuer.fetched) == 2
    issuer.now += 300
    assert role(provider, issuer.token("two")) == "alice"
    assert reason(provider, issuer.token("one")) == "INVALID_PUBLIC_KEY"  # it was withdrawn
    assert len(issuer.fetched) == 4


def test_known_keys_are_used_while_the_issuer_is_down_until_they_expire() -> None:
    issuer = Issuer()
    provider = issuer.provider(refresh_seconds=100, expire_seconds=1000)
    role(provider, issuer.token())
    issuer.is_down = True
    issuer.now += 500
    for _ in range(5):
        assert role(provider, issuer.token()) == "alice"
    assert len(issuer.fetched) == 3  # one attempt, and a pause
    issuer.now += 500
    assert reason(provider, issuer.token()) == "ERROR_RETRIEVING_PUBLIC_KEY"
    reason(provider, issuer.token())
    assert len(issuer.fetched) == 4
    issuer.is_down = False
    issuer.now += 10
    assert role(provider, issuer.token()) == "alice"


def test_an_issuer_that_hangs_holds_up_nobody_whose_key_is_known() -> None:
    issuer = Issuer()
    provider = issuer.provider(refresh_seconds=100, expire_seconds=1000)
    role(provider, issuer.token())
    issuer.hangs, issuer.now = True, issuer.now + 500

    async def identify() -> list[str]:
        token = issuer.token().encode()
        return [(await provider.identify(Credentials(token))).role for _ in range(5)]

    assert asyncio.run(identify()) == ["alice"] * 5


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://evil.example", "jwks_uri": "https://keys.example/jwks"},
        {"issuer": ISSUER, "jwks_uri": "http://keys.example/jwks"},
        {"issuer": ISSUER, "jwks_uri": "file:///etc/passwd"},
        {"issuer": ISSUER, "jwks_uri": 7},
        {"issuer": ISSUER},
        [],
        None,
    ],
)
def test_a_document_that_is_not_the_issuers_is_refused(document: object) -> None:
    issuer = Issuer()
    issuer.document = document
    assert reason(issuer.provider(), issuer.token()) == "ERROR_RETRIEVING_PUBLIC_KEY"
    assert len(issuer.fetched) == 1


def test_keys_that_cannot_verify_are_left_out() -> None:
    good, weak = jwk("good", KEYS["one"]), jwk("weak", rsa.generate_private_key(65537, 1024))
    found = keys_of(
        json.dumps(
            {
                "keys": [
                    good,
                    weak,
                    {**good, "kid": "enc", "use": "enc"},
                    {**good, "kid": 7},
                    {**good, "kid": "alg", "alg": "HS256"},
                    {**good, "kid": "one", "alg": "RS384"},
                    {"kty": "oct", "kid": "oct", "k": "c2VjcmV0"},
                    {"kty": "RSA", "kid": "broken"},
                    7,
                    None,
                ]
            }
        ).encode()
    )
    assert {name: key.algorithms for name, key in found.items()} == {
        "good": ("RS256", "RS384", "RS512"),
        "one": ("RS384",),
    }


@given(st.binary(max_size=50) | st.text(max_size=50).map(str.encode))
def test_any_key_set_is_read_or_refused(content: bytes) -> None:
    with suppress(ValueError):
        keys_of(content)
