"""The contract of metadata, on the drivers that start no process; see `metadata/conformance.py`.

The drivers of servers run it in `tests/broker/server/metadata_stores/engines`.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakes.links import LinkedMetadata
from fakes.memory_metadata import MemoryMetadata
from fakes.world import InlineWorker, ManualClock, run
from magnetar_storage.interfaces import MetadataStore
from magnetar_storage.metadata.nonces import NonceMetadata
from magnetar_storage.metadata.retrying import RetryingMetadata
from magnetar_storage.metadata.sqlite import SqliteMetadata
from magnetar_storage.runtime.disk import LocalDisk
from storage.metadata.conformance import Conformance

CLOCK = ManualClock()


def sqlite_at(directory: Path) -> SqliteMetadata:
    disk = LocalDisk(str(directory))
    return run(SqliteMetadata.open(disk, InlineWorker(CLOCK), CLOCK), CLOCK)


DRIVERS: dict[str, Callable[[Path], MetadataStore]] = {
    "memory": lambda _: MemoryMetadata(CLOCK),
    "sqlite": sqlite_at,
    "retrying": lambda _: RetryingMetadata(MemoryMetadata(CLOCK), CLOCK),
    "nonces": lambda _: NonceMetadata(MemoryMetadata(CLOCK), lambda: bytes(12)),
}


@pytest.fixture(params=[*DRIVERS, *(f"{driver}, linked" for driver in DRIVERS)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MetadataStore]:
    """Open a store of each kind, in this process and at the other end of a link."""
    driver, _, linked = request.param.partition(", ")
    store = DRIVERS[driver](tmp_path)
    yield LinkedMetadata(store, CLOCK).remote if linked else store
    if isinstance(store, SqliteMetadata):
        store._database.close()


class TestDrivers(Conformance):
    """Everything."""

    clock = CLOCK
