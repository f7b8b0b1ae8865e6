"""Data keys: their encryption with a public key, and decryption with the private key.

RSA keys use OAEP with SHA-1, as in all clients of Pulsar; elliptic curve keys use ECIES as in the
Java client, the only one that supports it.  `cryptography` is imported when it is needed.
"""

import hmac
import re
from functools import lru_cache
from hashlib import sha1
from typing import TYPE_CHECKING, Any

from magnetar.encryption.keys import Key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import (
        EllipticCurvePrivateKey,
        EllipticCurvePublicKey,
    )

DATA_KEY_BYTES = 32
MAC_KEY_BYTES = 16
MAC_BYTES = 20
_PRIVATE_KEY = re.compile(rb"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL)


def encrypt_data_key(data_key: bytes, key: Key) -> bytes:
    """Encrypt a data key for the owner of this public key; ValueError if it is not usable."""
    from cryptography.hazmat.primitives.asymmetric import ec, rsa  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415

    public = load_pem_public_key(_as_bytes(key.pem))
    if isinstance(public, rsa.RSAPublicKey):
        return public.encrypt(data_key, _oaep())
    if isinstance(public, ec.EllipticCurvePublicKey):
        return _encrypt_by_curve(data_key, public)
    raise ValueError("it is neither an RSA key nor one of an elliptic curve")


def decrypt_data_key(encrypted: bytes, key: Key) -> bytes:
    """Decrypt a data key; ValueError if the private key is not usable, or is another one."""
    from cryptography.hazmat.primitives.asymmetric import ec, rsa  # noqa: PLC0415

    private = _load_private(_as_bytes(key.pem))
    if isinstance(private, rsa.RSAPrivateKey):
        return private.decrypt(encrypted, _oaep())
    if isinstance(private, ec.EllipticCurvePrivateKey):
        return _decrypt_by_curve(encrypted, private)
    raise ValueError("it is neither an RSA key nor one of an elliptic curve")


@lru_cache(maxsize=16)
def _load_private(pem: bytes) -> object:
    # Loading checks an RSA key, which takes much longer than using it.
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    found = _PRIVATE_KEY.search(pem)  # the parameters of a curve may stand before it
    if found is None:
        raise ValueError("there is no private key in its PEM")
    try:
        return load_pem_private_key(found[0], password=None)
    except TypeError as error:  # the key has a pass phrase
        raise ValueError(str(error)) from error


def _as_bytes(pem: str | bytes) -> bytes:
    return pem.encode() if isinstance(pem, str) else pem


def _oaep() -> Any:
    from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP  # noqa: PLC0415
    from cryptography.hazmat.primitives.hashes import SHA1  # noqa: PLC0415

    # Other clients support no other digest; OAEP does not depend on its collision resistance.
    return OAEP(MGF1(SHA1()), SHA1(), None)  # nosec B303


def _encrypt_by_curve(data_key: bytes, public: "EllipticCurvePublicKey") -> bytes:
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    ephemeral = ec.generate_private_key(public.curve)
    point = _encode(ephemeral.public_key())
    mac_key, pad = _derive(point, ephemeral.exchange(ec.ECDH(), public), len(data_key))
    sealed = _xor(data_key, pad)
    return point + sealed + _mac(mac_key, sealed)


def _decrypt_by_curve(encrypted: bytes, private: "EllipticCurvePrivateKey") -> bytes:
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    size = 1 + 2 * ((private.curve.key_size + 7) // 8)
    point, sealed, mac = encrypted[:size], encrypted[size:-MAC_BYTES], encrypted[-MAC_BYTES:]
    ephemeral = ec.EllipticCurvePublicKey.from_encoded_point(private.curve, point)
    mac_key, pad = _derive(point, private.exchange(ec.ECDH(), ephemeral), len(sealed))
    # promise: a data key for another key is not taken
    if not hmac.compare_digest(mac, _mac(mac_key, sealed)):
        raise ValueError("the data key was encrypted for another key")
    return _xor(sealed, pad)


def _encode(public: "EllipticCurvePublicKey") -> bytes:
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        Encoding,
        PublicFormat,
    )

    return public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def _derive(point: bytes, shared: bytes, size: int) -> tuple[bytes, bytes]:
    """Return the MAC key and the pad: KDF2 with SHA-1 of the point and the shared secret."""
    derived = b""
    counter = 1
    while len(derived) < MAC_KEY_BYTES + size:
        counted = point + shared + counter.to_bytes(4, "big")
        derived += sha1(counted, usedforsecurity=False).digest()
        counter += 1
    return derived[:MAC_KEY_BYTES], derived[MAC_KEY_BYTES : MAC_KEY_BYTES + size]


def _mac(key: bytes, sealed: bytes) -> bytes:
    # Eight zero bytes are the length of the parameters, which are not used.
    return hmac.digest(key, sealed + bytes(8), "sha1")


def _xor(left: bytes, right: bytes) -> bytes:
    joined = int.from_bytes(left, "big") ^ int.from_bytes(right, "big")
    return joined.to_bytes(len(left), "big")
