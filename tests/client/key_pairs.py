"""Key pairs for tests of encryption."""

from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

import magnetar


def key_pair(name: str, kind: str = "rsa") -> tuple[bytes, bytes]:
    """The public and the private key of this name as PEM, the same at each call."""
    return _pair(name, kind)


@lru_cache
def _pair(name: str, kind: str) -> tuple[bytes, bytes]:
    private: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
    if kind == "rsa":
        private = rsa.generate_private_key(65537, 2048)
    else:
        private = ec.generate_private_key(ec.SECP256R1())
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return public, private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def key_reader(*names: str, kind: str = "rsa") -> magnetar.KeyReader:
    """Has the pairs of these names."""
    pairs = {name: key_pair(name, kind) for name in names}
    return magnetar.KeyReader(
        {name: pair[0] for name, pair in pairs.items()},
        {name: pair[1] for name, pair in pairs.items()},
    )
