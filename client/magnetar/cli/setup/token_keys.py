"""Keys for tokens, and tokens, in the formats of `pulsar tokens`.

A secret key is its raw bytes, a private key PKCS8 in DER, a public key SPKI in DER.
"""

import binascii
import json
import secrets
from base64 import b64decode, urlsafe_b64decode
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, unquote_to_bytes, urlsplit

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import (
        EllipticCurvePrivateKey,
        EllipticCurvePublicKey,
    )
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

    PrivateKey = RSAPrivateKey | EllipticCurvePrivateKey
    PublicKey = RSAPublicKey | EllipticCurvePublicKey

SECRET_BYTES: Final = {"HS256": 32, "HS384": 48, "HS512": 64}
RSA_BITS: Final = {"RS256": 2048, "RS384": 3072, "RS512": 4096}
RSA_BITS_OF_PSS: Final = {f"P{name[1:]}": bits for name, bits in RSA_BITS.items()}
CURVES: Final = {"ES256": "SECP256R1", "ES384": "SECP384R1", "ES512": "SECP521R1"}
PAIR_ALGORITHMS: Final = (*RSA_BITS, *RSA_BITS_OF_PSS, *CURVES)


class TokenProblem(Exception):
    """A key or a token cannot be used; the text has the reason, and contains neither of them."""


def new_secret(algorithm: str) -> bytes:
    """Create a secret key as long as the algorithm's digest."""
    return secrets.token_bytes(SECRET_BYTES[algorithm])


def new_pair(algorithm: str) -> tuple[bytes, bytes]:
    """Create a private and a public key, in their stored form."""
    from cryptography.hazmat.primitives.asymmetric import ec, rsa  # noqa: PLC0415 (heavy)
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    key: PrivateKey
    if algorithm in CURVES:
        key = ec.generate_private_key(getattr(ec, CURVES[algorithm])())
    else:
        key = rsa.generate_private_key(65537, (RSA_BITS | RSA_BITS_OF_PSS)[algorithm])
    return (
        key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
        key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
    )


def read_key(text: str) -> bytes:
    """Return the bytes of a key: `data:;base64,...`, `file:///path`, a path, or plain base64."""
    if text.startswith("data:"):
        head, separator, body = text.partition(",")
        if not separator:
            raise TokenProblem("the data: URL of the key has no comma")
        return _decoded(body) if head.endswith(";base64") else unquote_to_bytes(body)
    path = unquote(urlsplit(text).path) if text.startswith("file:") else text
    try:
        if text.startswith("file:") or Path(path).is_file():
            return Path(path).read_bytes()
    except OSError as error:
        raise TokenProblem(f"the key {path}: {error.strerror}") from None
    return _decoded(text)


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise TokenProblem(
            "the key is neither a file that exists nor base64: give a path, file:///PATH, "
            "data:;base64,TEXT or base64"
        ) from None


def signed_with_secret(
    secret: bytes, claims: dict[str, Any], headers: dict[str, str], algorithm: str | None = None
) -> str:
    """Create a token; without an algorithm, use the strongest that the secret's length allows."""
    fitting = [name for name, length in SECRET_BYTES.items() if len(secret) >= length]
    if not fitting:
        raise TokenProblem(f"the secret key has {len(secret)} bytes: expected at least 32")
    return _signed(secret, claims, headers, _among(algorithm, fitting, "the secret key"))


def signed_with_private(
    stored: bytes, claims: dict[str, Any], headers: dict[str, str], algorithm: str | None = None
) -> str:
    """Create a token; without an algorithm, use the strongest of RS or ES that fits the key."""
    key = _private(stored)
    fitting = _algorithms_of(key.public_key())
    usual = [name for name in fitting if not name.startswith("PS")]
    chosen = _among(algorithm, fitting if algorithm else usual, "the private key")
    return _signed(key, claims, headers, chosen)


def _among(algorithm: str | None, fitting: list[str], what: str) -> str:
    if algorithm is None:
        return fitting[-1]
    if algorithm not in fitting:
        raise TokenProblem(f"{algorithm} does not fit {what}: expected {', '.join(fitting)}")
    return algorithm


def _signed(key: Any, claims: dict[str, Any], headers: dict[str, str], algorithm: str) -> str:
    import jwt  # noqa: PLC0415 (heavy)

    return jwt.encode(claims, key, algorithm, headers={"typ": None, **headers})


def claims_with_secret(token: str, secret: bytes) -> dict[str, Any]:
    """Return the claims of a token that this secret key signed and that is valid now."""
    return _verified(token, secret, list(SECRET_BYTES))


def claims_with_public(token: str, stored: bytes) -> dict[str, Any]:
    """Return the claims of a token that the private key signed and that is valid now."""
    key = _public(stored)
    return _verified(token, key, _algorithms_of(key))


def _verified(token: str, key: Any, algorithms: list[str]) -> dict[str, Any]:
    import jwt  # noqa: PLC0415 (heavy)

    try:
        # The audience is checked by the broker, which knows its name.
        return jwt.decode(token, key, algorithms, options={"verify_aud": False})
    except jwt.ExpiredSignatureError:
        raise TokenProblem("the token has expired") from None
    except jwt.InvalidAlgorithmError:
        allowed = ", ".join(algorithms)
        raise TokenProblem(
            f"the algorithm of the token does not fit the key: expected {allowed}"
        ) from None
    except jwt.PyJWTError as error:
        raise TokenProblem(f"the token is not valid: {error}") from None


def parts_of(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and claims of a token, without checking its signature."""
    try:
        head, body, _ = token.split(".")
        header, claims = (json.loads(urlsafe_b64decode(one + "==")) for one in (head, body))
    except (ValueError, binascii.Error):
        raise TokenProblem("expected a token of the form HEADER.CLAIMS.SIGNATURE") from None
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise TokenProblem("expected a token whose header and claims are JSON objects")
    return header, claims


def _algorithms_of(key: "PublicKey") -> list[str]:
    """Return the algorithms of the key's family that its size allows, strongest last."""
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415 (heavy)

    if isinstance(key, rsa.RSAPublicKey):
        fitting = [
            name
            for family in (RSA_BITS_OF_PSS, RSA_BITS)
            for name, bits in family.items()
            if key.key_size >= bits
        ]
        if not fitting:
            raise TokenProblem(f"the RSA key has {key.key_size} bits: expected at least 2048")
        return fitting
    for name, curve in CURVES.items():
        if key.curve.name == curve.lower():
            return [name]
    raise TokenProblem(f"the curve {key.curve.name} is not used for tokens")


def _private(stored: bytes) -> "PrivateKey":
    from cryptography.hazmat.primitives.asymmetric import ec, rsa  # noqa: PLC0415 (heavy)
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        load_der_private_key,
        load_pem_private_key,
    )

    load = load_pem_private_key if stored.startswith(b"-----BEGIN") else load_der_private_key
    try:
        key = load(stored, None)
    except (ValueError, TypeError):
        raise TokenProblem("the private key is not PKCS8 in DER (or PEM, unencrypted)") from None
    if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise TokenProblem(
            f"expected a private key for RSA or an elliptic curve, got {type(key).__name__}: "
            "name another file"
        )
    return key


def _public(stored: bytes) -> "PublicKey":
    from cryptography.hazmat.primitives.asymmetric import ec, rsa  # noqa: PLC0415 (heavy)
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        load_der_public_key,
        load_pem_public_key,
    )

    load = load_pem_public_key if stored.startswith(b"-----BEGIN") else load_der_public_key
    try:
        key = load(stored)
    except ValueError:
        raise TokenProblem("the public key is not SPKI (X.509) in DER or PEM") from None
    if not isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey):
        raise TokenProblem("the public key is neither for RSA nor for an elliptic curve")
    return key
