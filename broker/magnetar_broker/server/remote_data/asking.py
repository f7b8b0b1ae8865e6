"""Asking the store of metadata once, for commands."""

import asyncio

from magnetar_broker.config import Settings
from magnetar_broker.server.metadata_stores.opening import open_metadata
from magnetar_broker.server.remote_data.belonging import KEY
from magnetar_broker.server.remote_data.remote_storage import access_in
from magnetar_broker.server.runtime.asyncio_runtime import LoopClock


def ask_metadata(settings: Settings) -> None:
    """Connect to the store, and read a key of it; raises as `open_metadata` does."""
    asyncio.run(_ask(settings))


async def _ask(settings: Settings) -> None:
    loop = asyncio.get_running_loop()
    url, clock = settings.metadata_store_url or "", LoopClock(loop)
    store = await open_metadata(url, clock, loop.call_soon_threadsafe, access_in(settings))
    try:
        await store.get(KEY)
    finally:
        await store.close()
