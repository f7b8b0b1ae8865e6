"""Opening the metadata store that a URL names."""

import os
from collections.abc import Callable, Mapping
from typing import Final

from magnetar_broker.server.metadata_stores.access import NO_ACCESS, MetadataAccess
from magnetar_broker.server.metadata_stores.engine import MetadataEngine
from magnetar_broker.server.metadata_stores.engine_metadata import EngineMetadata
from magnetar_broker.server.metadata_stores.engine_thread import EngineThread, Post
from magnetar_broker.server.metadata_stores.urls import (
    ETCD_FORM,
    POSTGRES_FORM,
    POSTGRES_SCHEMES,
    MetadataRefused,
    etcd_place,
    postgres_place,
    scheme_of,
)
from magnetar_storage.interfaces import MetadataStore
from magnetar_storage.metadata.nonces import NONCE_BYTES, NonceMetadata
from magnetar_storage.metadata.retrying import RetryingMetadata
from magnetar_storage.runtime.execution import Clock

Uptime = Callable[[], float]


def _etcd(url: str, access: MetadataAccess, _: Uptime) -> MetadataEngine:
    # Here, since it takes memory and time that a broker without etcd does not need.
    from magnetar_broker.server.metadata_stores.etcd_engine import EtcdEngine  # noqa: PLC0415

    return EtcdEngine(etcd_place(url), access)


def _postgres(url: str, access: MetadataAccess, uptime: Uptime) -> MetadataEngine:
    place = postgres_place(url)
    try:
        from magnetar_broker.server.metadata_stores.postgres_engine import (  # noqa: PLC0415
            PostgresEngine,
        )
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "asyncpg":
            raise
        raise MetadataRefused(
            f"{place.text} needs the package asyncpg: run pip install 'magnetar[postgres]'"
        ) from error
    return PostgresEngine(place, access, uptime)


SCHEMES: Final[Mapping[str, Callable[[str, MetadataAccess, Uptime], MetadataEngine]]] = {
    "etcd": _etcd,
    **dict.fromkeys(POSTGRES_SCHEMES, _postgres),
}
"""The function that makes the engine of a URL, by the scheme of the URL."""


async def open_metadata(
    url: str, clock: Clock, post: Post, access: MetadataAccess = NO_ACCESS
) -> MetadataStore:
    """Connect to the server of a URL, and prepare it at its first use.

    `post(call)` makes a call on the thread of `clock`, and may be called from every thread, like
    `call_soon_threadsafe` of a loop; `clock.uptime` is called from other threads, too.  The store
    has a thread of its own until it is closed, so a process must not fork meanwhile.
    `MetadataRefused` if the URL is not one, or cannot be used in this installation; `Unavailable`
    if the server cannot be reached, and `AccessDenied` if it refuses the credentials.
    """
    store = await open_engine(url, clock, post, access)
    return NonceMetadata(RetryingMetadata(store, clock), lambda: os.urandom(NONCE_BYTES))


async def open_engine(
    url: str, clock: Clock, post: Post, access: MetadataAccess = NO_ACCESS
) -> EngineMetadata:
    """Run `open_metadata`, for a store that repeats nothing."""
    engine = engine_of(url, access, clock.uptime)
    store = EngineMetadata(engine, EngineThread("magnetar-metadata-server", post), clock)
    await store.open()
    return store


def engine_of(url: str, access: MetadataAccess, uptime: Uptime) -> MetadataEngine:
    """Return the engine of a URL, which is not connected; `MetadataRefused` as `open_metadata`."""
    scheme = scheme_of(url)
    if scheme not in SCHEMES:
        raise MetadataRefused(
            f"metadataStoreUrl does not name a server of metadata: expected {ETCD_FORM} or"
            f" {POSTGRES_FORM}"
        )
    return SCHEMES[scheme](url, access, uptime)
