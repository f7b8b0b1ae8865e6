"""The admin API for programs, blocking or with asyncio; what to ask is a typed request.

from magnetar.admin.requests import tenants, topics

with connect("http://localhost:8080") as admin:
    admin(topics.create("public/default/orders", partitions=4))
    print(admin(topics.partitions("public/default/orders")))

async with connect_async("http://localhost:8080") as admin:
    await admin(tenants.create("shop"))

A request is a value: it can be kept and asked again.  What has no function here is asked as
`Request("GET", "/admin/v2/...")`.
"""

import asyncio
import threading
from typing import Self, TypeVar

from magnetar.admin.client import AdminClient, AdminError, NoAnswer, Refused
from magnetar.admin.requests.request import Request
from magnetar.admin.settings import DEFAULT_TIMEOUT_S, DEFAULT_URL, AdminSettings
from magnetar.security.authentication import Authentication
from magnetar.security.tls import Tls

T = TypeVar("T")

__all__ = [
    "Admin",
    "AdminError",
    "AsyncAdmin",
    "NoAnswer",
    "Refused",
    "Request",
    "connect",
    "connect_async",
]


class Admin:
    """Asks a broker; may be shared by threads, which then wait for each other."""

    def __init__(self, settings: AdminSettings) -> None:
        self._client = AdminClient(settings)
        self._lock = threading.Lock()

    def __call__(self, request: Request[T]) -> T:
        """Return the result; Refused if the broker refuses, NoAnswer if the outcome is unknown."""
        with self._lock:
            answer = self._client.ask(request.method, request.path, request.body, request.query)
        return request.result_of(answer)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()


class AsyncAdmin:
    """The asyncio form of `Admin`: each request runs in a thread, and blocks no event loop."""

    def __init__(self, settings: AdminSettings) -> None:
        self._admin = Admin(settings)

    async def __call__(self, request: Request[T]) -> T:
        """Return the result; Refused if the broker refuses, NoAnswer if the outcome is unknown."""
        return await asyncio.to_thread(self._admin, request)

    async def close(self) -> None:
        """Close the connection."""
        await asyncio.to_thread(self._admin.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *about: object) -> None:
        await self.close()


def connect(
    url: str = DEFAULT_URL,
    *,
    auth: Authentication | None = None,
    tls: Tls | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> Admin:
    """Create a client of the admin API at `url`, http:// or https://; the first request connects.

    `auth` is one of `magnetar.auth`, `tls` names the authorities to trust for https://.
    """
    return Admin(_settings(url, auth, tls, timeout_s))


def connect_async(
    url: str = DEFAULT_URL,
    *,
    auth: Authentication | None = None,
    tls: Tls | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> AsyncAdmin:
    """Create an asyncio client of the admin API; the parameters are those of `connect`."""
    return AsyncAdmin(_settings(url, auth, tls, timeout_s))


def _settings(
    url: str, auth: Authentication | None, tls: Tls | None, timeout_s: float
) -> AdminSettings:
    tls = tls or Tls()
    if tls.context is not None:
        raise ValueError("the admin API takes files, not a context: Tls(trust_file=...)")
    return AdminSettings(
        url,
        timeout_s=timeout_s,
        tls_allow_insecure=tls.allow_insecure,
        tls_trust_cert_path=str(tls.trust_file or ""),
        tls_hostname_verification=tls.verify_hostname,
        tls_cert_path=str(tls.cert_file or ""),
        tls_key_path=str(tls.key_file or ""),
        auth=auth,
    )
