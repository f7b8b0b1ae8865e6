"""Brokers that authenticate, and clients with credentials of all kinds, for traces."""

from typing import Any, Final

import jwt
from passlib.hash import apr_md5_crypt, des_crypt

from conformance.trace import Trace
from credentials import SECRET, in_setting
from magnetar_proto import PulsarApi_pb2 as pb

_PACKAGE: Final = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
PASSWORD: Final = "password"
USERS: Final = (
    f"alice:{apr_md5_crypt.using(salt='saltsalt').hash(PASSWORD)}\n"
    f"bob:{des_crypt.using(salt='ab').hash(PASSWORD)}\n"
)


def token(role: str | None = "alice", key: bytes | str = SECRET, algorithm: str = "HS256",
          **claims: Any) -> bytes:  # fmt: skip
    """A token, always the same one."""
    if role is not None:
        claims["sub"] = role
    return jwt.encode(claims, key, algorithm).encode()


SETTINGS: Final = {
    "authenticationEnabled": "true",
    "authenticationProviders": f"{_PACKAGE}Token,{_PACKAGE}Basic",
    "tokenSecretKey": in_setting(SECRET),
    "basicAuthConf": in_setting(USERS.encode()),
    "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
    "brokerClientAuthenticationParameters": f"token:{token('broker').decode()}",
}
"""The original has a client of its own, which needs credentials."""


def connecting(t: Trace, **fields: Any) -> None:
    """A client that connects, and whether it is accepted."""
    a = t.connects(version=None)
    a.sends_command(pb.CommandConnect(client_version="trace", protocol_version=21, **fields))
    a.is_accepted_or_closed()


def with_token(t: Trace, data: bytes, **fields: Any) -> None:
    """A client that connects with a token."""
    connecting(t, auth_method_name="token", auth_data=data, **fields)


def with_password(t: Trace, data: str) -> None:
    """A client that connects with user and password."""
    connecting(t, auth_method_name="basic", auth_data=data.encode())
