"""The copies of finished segments in stores of objects, for a process that has a data directory."""

import os
from collections.abc import Callable
from functools import partial
from typing import Final

from magnetar_broker.config import Settings
from magnetar_broker.expiry.listed_objects import ObjectAccess
from magnetar_broker.server.data_directory.object_names import ObjectPrefix, forget_formers
from magnetar_broker.server.runtime.asyncio_runtime import ThreadWorkers
from magnetar_storage.errors import Unavailable
from magnetar_storage.interfaces import MetadataStore
from magnetar_storage.multi_store.multi_store import JoinedStore
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.tiered.copies import TieredCopies

READ_AHEAD_BYTES: Final = 64 << 20
"""The most bytes of all places that a process keeps in memory to be read soon."""


def copies_of(
    settings: Settings,
    store: JoinedStore,
    threads: ThreadWorkers,
    prefix: Callable[[], str],
    uptime: Callable[[], float],
) -> TieredCopies:
    """Return the copies of segments of the store, which are made and read in threads of their own.

    `prefix` returns the first part of the names of objects (`object_names.py`).
    """
    number = settings.managed_ledger_offload_max_threads
    return TieredCopies(
        store,
        partial(open_place, settings),
        lambda: threads.transfers(number),
        READ_AHEAD_BYTES,
        prefix,
        lambda: os.urandom(8).hex(),
        uptime,
    )


def access_to(
    settings: Settings, threads: ThreadWorkers, prefix: ObjectPrefix, metadata: MetadataStore
) -> ObjectAccess:
    """Return the access to all objects of the data directory, in a thread of its own."""
    return ObjectAccess(
        prefix.own,
        partial(open_place, settings),
        threads.transfers(1)[0],
        prefix.formers,
        partial(forget_formers, metadata, prefix),
    )


def open_place(settings: Settings, place: str) -> Objects:
    """Open the store of objects of a place; called in a thread."""
    # Here: most brokers have no place, and do without these imports.
    from magnetar_broker.server.object_stores.credentials import credentials_in  # noqa: PLC0415
    from magnetar_broker.server.object_stores.opening import open_objects  # noqa: PLC0415
    from magnetar_broker.server.object_stores.places import PlaceRefused  # noqa: PLC0415

    try:
        return open_objects(place, credentials_in(settings))
    except PlaceRefused as error:
        raise Unavailable(str(error)) from error
