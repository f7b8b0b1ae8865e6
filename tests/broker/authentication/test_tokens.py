"""Which tokens prove a role, and which do not."""

import asyncio
import base64
import json
from datetime import UTC, datetime
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from credentials import SECRET
from magnetar_broker.authentication.identity import Identity
from magnetar_broker.authentication.provider import Credentials, InvalidCredentials
from magnetar_broker.authentication.token_keys import TokenKey, public_key, secret_key
from magnetar_broker.authentication.tokens import TokenRules, Tokens

NOW = 1_700_000_000
RSA = rsa.generate_private_key(65537, 2048)
EC = {
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "ES384": ec.generate_private_key(ec.SECP384R1()),
    "ES512": ec.generate_private_key(ec.SECP521R1()),
}


def der(private: Any) -> bytes:
    found: bytes = private.public_key().public_bytes(
        Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    )
    return found


def pem(private: Any) -> bytes:
    found: bytes = private.public_key().public_bytes(
        Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
    )
    return found


def identify(token: str | bytes, key: TokenKey | None = None, **rules: Any) -> Identity:
    provider = Tokens(key or secret_key(SECRET), TokenRules(**rules), lambda: NOW)
    data = token.encode() if isinstance(token, str) else token
    return asyncio.run(provider.identify(Credentials(data)))


def refusal(token: str | bytes, key: TokenKey | None = None, **rules: Any) -> InvalidCredentials:
    with pytest.raises(InvalidCredentials) as refused:
        identify(token, key, **rules)
    return refused.value


def signed(algorithm: str = "HS256", key: Any = SECRET, **claims: Any) -> str:
    return jwt.encode({"sub": "alice", **claims}, key, algorithm)


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_a_secret_verifies_every_hmac_that_it_is_long_enough_for(algorithm: str) -> None:
    assert identify(signed(algorithm)) == Identity("alice", "token")
    with pytest.warns(jwt.InsecureKeyLengthWarning) if algorithm != "HS256" else nothing():
        short = signed(algorithm, SECRET[:32])
    if algorithm == "HS256":
        assert identify(short, secret_key(SECRET[:32])).role == "alice"
    else:
        refusal(short, secret_key(SECRET[:32]))


class nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
@pytest.mark.parametrize("form", [der, pem])
def test_an_rsa_key_verifies_every_algorithm_of_its_type(algorithm: str, form: Any) -> None:
    key = public_key(form(RSA), "RS256")
    assert identify(signed(algorithm, RSA), key).role == "alice"


@pytest.mark.parametrize("algorithm", EC)
def test_a_key_on_a_curve_verifies_the_algorithm_of_the_curve(algorithm: str) -> None:
    key = public_key(der(EC[algorithm]), algorithm)
    assert identify(signed(algorithm, EC[algorithm]), key).role == "alice"
    assert key.algorithms == (algorithm,)


def test_a_token_without_a_signature_proves_nothing() -> None:
    head, body = part({"alg": "none", "typ": "JWT"}), part({"sub": "admin"})
    for key in (secret_key(SECRET), public_key(der(RSA), "RS256")):
        for token in (f"{head}.{body}.", f"{head}.{body}", jwt.encode({"sub": "a"}, "", "none")):
            assert refusal(token, key).reason == "INVALID_TOKEN"


def test_a_public_key_is_never_taken_for_a_secret() -> None:
    """A token that is signed with the bytes of the public key, which everyone has."""
    import hashlib
    import hmac

    assert {name[:2] for name in public_key(der(RSA), "RS256").algorithms} == {"RS", "PS"}
    for public in (der(RSA), pem(RSA)):
        head, body = part({"alg": "HS256", "typ": "JWT"}), part({"sub": "admin"})
        mac = hmac.new(public, f"{head}.{body}".encode(), hashlib.sha256).digest()
        token = f"{head}.{body}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
        assert refusal(token, public_key(public, "RS256")).reason == "INVALID_TOKEN"


def test_algorithms_of_other_keys_prove_nothing() -> None:
    refusal(signed("ES256", EC["ES256"]), public_key(der(RSA), "RS256"))
    refusal(signed("RS256", RSA), public_key(der(EC["ES256"]), "ES256"))
    refusal(signed("RS256", RSA), secret_key(SECRET))
    refusal(signed("HS256", SECRET + b"x"))


@pytest.mark.parametrize(
    ("data", "algorithm", "why"),
    [
        (der(RSA), "ES256", "tokenPublicAlg is ES256"),
        (der(EC["ES256"]), "RS256", "tokenPublicAlg is RS256"),
        (der(RSA), "HS256", "tokenPublicAlg HS256 is unknown"),
        (der(RSA), "none", "tokenPublicAlg none is unknown"),
        (b"nonsense", "RS256", "expected a public key"),
        (b"-----BEGIN PUBLIC KEY-----\nx", "RS256", "expected a public key"),
        (der(rsa.generate_private_key(65537, 1024)), "RS256", "1024 bits"),
        (der(ec.generate_private_key(ec.SECP256K1())), "ES256", "on a curve of ES256"),
    ],
    ids=range(8),
)
def test_a_key_that_does_not_fit_is_refused(data: bytes, algorithm: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        public_key(data, algorithm)


@pytest.mark.parametrize("secret", [b"", b"x" * 31, b"-----BEGIN PUBLIC KEY-----" + b"x" * 40])
def test_a_secret_that_is_none_is_refused_without_showing_it(secret: bytes) -> None:
    with pytest.raises(ValueError, match=r"bytes|PEM") as refused:
        secret_key(secret)
    assert "xxx" not in str(refused.value)


def test_times_of_a_token() -> None:
    assert identify(signed(exp=NOW + 1)).expires_at == NOW + 1
    assert identify(signed(exp=NOW)).expires_at == NOW
    assert str(refusal(signed(exp=NOW - 1))) == "it has expired"
    assert identify(signed(exp=NOW - 5), skew_seconds=5).expires_at == NOW
    refusal(signed(exp=NOW - 6), skew_seconds=5)
    assert identify(signed(nbf=NOW)).expires_at is None
    assert str(refusal(signed(nbf=NOW + 1))) == "it is not valid yet"
    identify(signed(nbf=NOW + 5), skew_seconds=5)
    identify(signed(iat=NOW + 3600))  # only says when it was made
    assert datetime.fromtimestamp(NOW, UTC).year == 2023


@pytest.mark.parametrize("value", ["soon", True, [NOW + 9], float("nan")])
@pytest.mark.parametrize("claim", ["exp", "nbf"])
def test_a_time_that_is_none_proves_nothing(claim: str, value: object) -> None:
    claims: dict[str, Any] = {claim: value}
    refusal(signed(**claims))


def test_a_time_beyond_all_times_is_one() -> None:
    assert identify(signed(exp=10**300)).expires_at is not None
    refusal(signed(exp=-(10**300)))


@pytest.mark.parametrize(
    ("claims", "role"),
    [({"sub": "alice"}, "alice"), ({"sub": ["first", "second"]}, "first"), ({"sub": "ä b"}, "ä b")],
)
def test_the_role_is_a_text_or_the_first_of_a_list(claims: dict[str, Any], role: str) -> None:
    assert identify(jwt.encode(claims, SECRET)).role == role


@pytest.mark.parametrize("value", [None, "", "  ", 7, [], [7], {"a": "b"}, [["alice"]]])
def test_a_token_without_a_role_proves_nothing(value: object) -> None:
    body = part({"sub": value})
    head = part({"alg": "HS256", "typ": "JWT"})
    mac = jwt.get_algorithm_by_name("HS256").sign(f"{head}.{body}".encode(), SECRET)
    signature = base64.urlsafe_b64encode(mac).rstrip(b"=").decode()
    assert refusal(f"{head}.{body}.{signature}").reason == "INVALID_TOKEN"


def test_the_role_is_in_the_claim_of_the_setting() -> None:
    assert identify(signed(name="bob"), role_claim="name").role == "bob"
    refusal(signed(), role_claim="name")


@pytest.mark.parametrize(
    ("audience", "accepted"),
    [
        ("broker", True),
        (["other", "broker"], True),
        ("broker2", False),
        ("brok", False),
        (["other"], False),
        ([], False),
        (None, False),
        (7, False),
        ([["broker"]], False),
    ],
)
def test_audiences(audience: object, accepted: bool) -> None:
    claims: dict[str, Any] = {} if audience is None else {"to": audience}
    rules: dict[str, Any] = {"audience_claim": "to", "audiences": frozenset(("broker",))}
    assert identify(signed(**claims)).role == "alice"
    if accepted:
        assert identify(signed(**claims), **rules).role == "alice"
    else:
        assert refusal(signed(**claims), **rules).reason == "INVALID_AUDIENCES"


def test_no_token() -> None:
    for nothing_at_all in (b"", b"  "):
        assert refusal(nothing_at_all).reason == "INVALID_AUTH_DATA"


@given(st.binary(max_size=200))
def test_bytes_that_are_no_token_prove_nothing_and_are_not_repeated(data: bytes) -> None:
    text = str(refusal(data))
    assert len(data) < 8 or repr(data)[2:-1] not in text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@given(
    st.dictionaries(st.sampled_from(["alg", "typ", "kid", "crit", "b64"]), json_values), st.data()
)
def test_made_up_headers_and_claims_prove_nothing(
    head: dict[str, Any], data: st.DataObject
) -> None:
    claims = data.draw(st.dictionaries(st.sampled_from(["sub", "exp", "nbf", "aud"]), json_values))
    signature = data.draw(st.sampled_from(["", "AAAA", part("x")]))
    refusal(f"{part(head)}.{part(claims)}.{signature}")


@given(st.dictionaries(st.sampled_from(["sub", "exp", "nbf", "aud", "iat", "iss"]), json_values))
def test_any_claims_that_are_signed_give_a_role_that_is_a_text_or_none(
    claims: dict[str, Any],
) -> None:
    head, body = part({"alg": "HS256", "typ": "JWT"}), part(claims)
    mac = jwt.get_algorithm_by_name("HS256").sign(f"{head}.{body}".encode(), SECRET)
    token = f"{head}.{body}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
    try:
        found = identify(token)
    except InvalidCredentials:
        return
    first = claims["sub"][0] if isinstance(claims["sub"], list) else claims["sub"]
    assert found.role == first
    assert found.expires_at is None or found.expires_at >= NOW
