"""Stores over one server for tests that run on an event loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from magnetar_broker.server.metadata_stores.access import NO_ACCESS, MetadataAccess
from magnetar_broker.server.metadata_stores.opening import open_metadata
from magnetar_broker.server.runtime.asyncio_runtime import LoopClock
from magnetar_storage.interfaces import MetadataStore


@asynccontextmanager
async def opened(url: str, access: MetadataAccess = NO_ACCESS) -> AsyncIterator[MetadataStore]:
    """Open a store on the running loop, and close it in the end."""
    loop = asyncio.get_running_loop()
    store = await open_metadata(url, LoopClock(loop), loop.call_soon_threadsafe, access)
    try:
        yield store
    finally:
        await store.close()
