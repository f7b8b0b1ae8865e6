"""Keys that verify tokens, each with the algorithms that it supports.

A token names its algorithm itself.  It is verified only with the algorithms of the key's type, so
that a public key is never accepted as a secret, nor a missing signature as one.
"""

from typing import Any, Final, NamedTuple

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key

LEAST_SECRET: Final = 32
LEAST_RSA_BITS: Final = 2048
_HMAC: Final = {"HS256": 32, "HS384": 48, "HS512": 64}
"""The least bytes of a secret for each algorithm."""
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
PUBLIC_ALGORITHMS: Final = (*_RSA, *_CURVES.values())


class TokenKey(NamedTuple):
    """A key with the algorithms that tokens may be signed with."""

    key: Any
    algorithms: tuple[str, ...]


def secret_key(secret: bytes) -> TokenKey:
    """Return a secret that signs and verifies; `ValueError` if it is malformed or too short."""
    if b"-----BEGIN" in secret:
        raise ValueError("it is a key in PEM, not a secret: use tokenPublicKey for public keys")
    if len(secret) < LEAST_SECRET:
        raise ValueError(
            f"the secret has {len(secret)} bytes: at least {LEAST_SECRET} are required"
        )
    # promise[without len(secret) >=]: a hash needs a secret of its length
    return TokenKey(secret, tuple(name for name, least in _HMAC.items() if len(secret) >= least))


def public_key(data: bytes, algorithm: str) -> TokenKey:
    """Return a public key as DER or PEM; `ValueError` if it is malformed or of another kind."""
    if algorithm not in PUBLIC_ALGORITHMS:
        known = ", ".join(PUBLIC_ALGORITHMS)
        raise ValueError(f"tokenPublicAlg {algorithm} is unknown: expected one of {known}")
    is_pem = data.lstrip().startswith(b"-----BEGIN")
    try:
        key = load_pem_public_key(data) if is_pem else load_der_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("expected a public key in DER (SubjectPublicKeyInfo) or PEM") from None
    made = of_public(key)
    family = algorithm[0]  # E, or R and P, which have keys of one type
    if (made.algorithms[0][0] == "E") != (family == "E"):
        raise ValueError(
            f"the key is for {', '.join(made.algorithms)}, and tokenPublicAlg is {algorithm}"
        )
    return made


def of_public(key: object) -> TokenKey:
    """Return a public key that was read; `ValueError` if it cannot verify tokens safely."""
    if isinstance(key, RSAPublicKey):
        if key.key_size < LEAST_RSA_BITS:
            raise ValueError(
                f"the RSA key has {key.key_size} bits: at least {LEAST_RSA_BITS} are required"
            )
        return TokenKey(key, _RSA)  # promise[_RSA -> (*_RSA, *_HMAC)]: a public key is not a secret
    if isinstance(key, EllipticCurvePublicKey) and key.curve.name in _CURVES:
        return TokenKey(key, (_CURVES[key.curve.name],))
    raise ValueError("expected an RSA key, or one on a curve of ES256, ES384 or ES512")
