"""Creation of a client."""

from ssl import SSLContext
from typing import Any

from magnetar.auth import Authentication
from magnetar.client import Client
from magnetar.security import security_of
from magnetar.settings import Settings
from magnetar.tls import Tls


def connect(
    service_url: str,
    *,
    auth: Authentication | None = None,
    tls: Tls | SSLContext | None = None,
    **settings: Any,
) -> Client:
    """Create a client for `pulsar://host:port` or `pulsar+ssl://host:port`.

    It connects when a connection is first needed.  `auth` is one of `magnetar.auth`; `tls` names
    the authorities to trust for pulsar+ssl://, by default those of the system.  `settings` are
    fields of Settings: timeouts, pauses and the listener's name.  Use it as
    `async with connect(...)`.
    """
    return Client(
        service_url,
        Settings(**settings),
        security_of(service_url, auth, tls),
    )
