"""Cipher suites: their names in the standard and in OpenSSL."""

import re
from collections.abc import Sequence

OF_TLS_1_3 = frozenset(
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
)
"""The suites of TLS 1.3, among which Python cannot choose."""
_STANDARD = re.compile(r"TLS_(?P<exchange>\w+?)_WITH_(?P<cipher>\w+)_(?P<digest>SHA\d*)")


def openssl_name(name: str) -> str:
    """Return OpenSSL's name of a suite before TLS 1.3; a name that is not standard is returned.

    OpenSSL refuses a name that does not exist.
    """
    found = _STANDARD.fullmatch(name)
    if found is None:
        return name
    cipher = found["cipher"].replace("AES_", "AES").replace("_CBC", "").replace("_", "-")
    if cipher.endswith("-POLY1305"):
        return f"{found['exchange'].replace('_', '-')}-{cipher}"
    parts = [found["exchange"].replace("_", "-"), cipher, found["digest"]]
    return "-".join(parts[1:] if parts[0] == "RSA" else parts)


def divided(names: Sequence[str]) -> tuple[bool, list[str]]:
    """Return whether TLS 1.3 suites are named, and OpenSSL's names of the other suites."""
    others = [openssl_name(name) for name in names if name not in OF_TLS_1_3]
    return len(others) < len(names), others
