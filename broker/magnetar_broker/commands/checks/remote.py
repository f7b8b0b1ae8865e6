"""The stores of data that is not in a data directory: whether a broker can use them."""

import os
import time
from collections.abc import Iterator

from magnetar_broker.commands.checks.finding import Finding
from magnetar_broker.commands.checks.offload import LIMITS, use
from magnetar_broker.config import Settings
from magnetar_broker.server.metadata_stores.urls import MetadataRefused, place_text
from magnetar_broker.server.object_stores.credentials import credentials_in
from magnetar_broker.server.object_stores.opening import open_objects
from magnetar_broker.server.object_stores.places import PlaceRefused
from magnetar_broker.server.remote_data.asking import ask_metadata
from magnetar_broker.server.remote_data.belonging import PROBES
from magnetar_storage.errors import StorageError

OBJECTS, METADATA = "objects", "metadata"
DOCUMENTED = "docs/cluster.md says what is needed"


def check(settings: Settings) -> Iterator[Finding]:
    """Use an object at the place of the settings, and read a key of the metadata."""
    yield _objects(settings)
    yield _metadata(settings)


def _objects(settings: Settings) -> Finding:
    text, began = settings.magnetar_segment_store or "", time.perf_counter()
    try:
        objects = open_objects(text, credentials_in(settings), LIMITS)
        use(objects, f"{PROBES}doctor-{os.urandom(8).hex()}")
    except (PlaceRefused, StorageError) as error:
        return Finding("error", OBJECTS, str(error), DOCUMENTED)
    took_ms = (time.perf_counter() - began) * 1000
    did = f"{text}: an object was written, read, listed and deleted in {took_ms:.0f} ms"
    return Finding("ok", OBJECTS, did)


def _metadata(settings: Settings) -> Finding:
    url, began = settings.metadata_store_url or "", time.perf_counter()
    try:
        ask_metadata(settings)
        took_ms = (time.perf_counter() - began) * 1000
        return Finding("ok", METADATA, f"{place_text(url)}: answered in {took_ms:.0f} ms")
    except (MetadataRefused, StorageError) as error:
        return Finding("error", METADATA, str(error), DOCUMENTED)
