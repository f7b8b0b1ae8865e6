"""The interface of providers of authentication."""

import base64
import binascii
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from magnetar_broker.authentication.identity import Identity


class Credentials(NamedTuple):
    """The credentials by which a client proves a role."""

    data: bytes
    """The data that the method defines; for HTTP taken from the header."""
    certificate: bytes = b""
    """The client's verified TLS certificate as DER; empty if it has none."""


class InvalidCredentials(Exception):
    """The credentials prove no role.  The text is for the log, and has nothing of them."""

    def __init__(self, text: str, reason: str) -> None:
        """`reason` is a short fixed label, used for metrics."""
        super().__init__(text)
        self.reason = reason


class Provider(Protocol):
    """Proves roles by one method."""

    @property
    def name(self) -> str:
        """The name of Pulsar's class without the package, for metrics."""

    @property
    def method(self) -> str:
        """The `auth_method_name` that clients send."""

    def data_of(self, headers: Mapping[str, str]) -> bytes:
        """Return the credentials' data in HTTP headers; `InvalidCredentials` if they have none."""

    async def identify(self, credentials: Credentials) -> Identity:
        """Return the identity that the credentials prove.

        Raises `InvalidCredentials` if they prove none.
        """


def bearer_of(headers: Mapping[str, str]) -> bytes:
    """Return the token in the header `Authorization`."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme != "Bearer" or not token:
        raise InvalidCredentials(
            "the header Authorization has no bearer token", "INVALID_AUTH_DATA"
        )
    return token.encode("latin-1")


def basic_of(headers: Mapping[str, str]) -> bytes:
    """Return user and password of the header `Authorization`, joined by a colon."""
    scheme, _, encoded = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic" or not encoded:
        raise InvalidCredentials(
            "the header Authorization has no user and password", "INVALID_HEADER"
        )
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise InvalidCredentials(
            "the header Authorization has no base64 after Basic", "INVALID_HEADER"
        ) from None
