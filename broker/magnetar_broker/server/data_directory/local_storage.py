"""The storage of a broker that has all data in a data directory."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from magnetar_broker.config import Durability, Settings
from magnetar_broker.config.offload_places import offloads_by_itself, place_in
from magnetar_broker.expiry.listed_objects import ObjectAccess
from magnetar_broker.metrics.journal import JournalStats
from magnetar_broker.server.data_directory import addresses
from magnetar_broker.server.data_directory.copies import access_to, copies_of
from magnetar_broker.server.data_directory.object_names import object_prefix
from magnetar_broker.server.data_directory.parts import (
    data_disk,
    metadata_of,
    metadata_url,
    reserves_of,
    retrying,
    space_of,
    store_of,
)
from magnetar_broker.server.data_directory.snapshots.making import Snapshots
from magnetar_broker.server.data_directory.snapshots.part import LocalPart
from magnetar_broker.server.engine import engine_of
from magnetar_broker.server.runtime.phases import recovery
from magnetar_broker.server.runtime.ports import PortNumbers
from magnetar_broker.server.runtime.process_runtime import ProcessRuntime
from magnetar_storage.errors import StorageError
from magnetar_storage.log.engine import Engine
from magnetar_storage.metadata.sqlite import SqliteMetadata
from magnetar_storage.multi_store.belonging import Noted, take
from magnetar_storage.multi_store.multi_store import JoinedStore
from magnetar_storage.runtime.disk import LocalDisk, Lock
from magnetar_storage.space.disk_space import DiskSpace, SpaceState

if TYPE_CHECKING:
    from magnetar_broker.server.data_directory.shared_storage import LocalSharedStorage


class LocalSoleStorage:
    """The `SoleStorage` of a data directory."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        journal: JournalStats,
        part: LocalPart,
        snapshots: Snapshots,
        objects: ObjectAccess,
    ) -> None:
        self.metadata_url = metadata_url(settings)
        self.engine = engine
        self.journal = journal
        self.snapshots = snapshots
        self.objects = objects
        self._part = part

    async def stop(self) -> None:
        self._part.stop()
        await self.snapshots.stop()


def _offload(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the line that says where closed ledgers are offloaded to, if a driver is set."""
    if place := place_in(settings):
        yield (
            "offload",
            place + ("" if offloads_by_itself(settings) else ": on request or by policy"),
        )


class LocalStorage:
    """The `Storage` of a data directory."""

    is_waiting = False

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @property
    def described(self) -> Sequence[tuple[str, str]]:
        durable = self._settings.durability is Durability.FSYNC
        return (
            ("data", self._settings.data_dir),
            (
                "durability",
                "fsync: a receipt or ack response is sent when the data is on disk"
                if durable
                else "RELAXED: responses are sent before the data is on disk; "
                "a power failure can lose acknowledged data (magnetarDurability)",
            ),
            *_offload(self._settings),
        )

    @asynccontextmanager
    async def open(self, process: ProcessRuntime) -> AsyncIterator[LocalSoleStorage]:
        settings, clock, journal = self._settings, process.clock, JournalStats()
        disk = data_disk(settings)
        lock, noted = await process.threads.background.run(partial(take, disk))
        self.withdraw()
        metadata, store, space = await _open(settings, process, disk, journal, lock, noted)
        try:
            process.phases.end(recovery(store.replayed_bytes))
            store.belong(lambda: metadata.identity)
            part = LocalPart(store, settings.data_dir)
            snapshots = Snapshots(metadata, lambda: [part], settings, clock)
            prefix = await object_prefix(disk, metadata, process.threads.background)
            await snapshots.clear()
            copies = copies_of(settings, store, process.threads, lambda: prefix.own, clock.uptime)
            engine = engine_of(
                settings,
                store,
                retrying(settings, metadata, clock),
                clock,
                process.tasks,
                journal,
                space,
                copies,
            )
            objects = access_to(settings, process.threads, prefix, metadata)
            yield LocalSoleStorage(settings, engine, journal, part, snapshots, objects)
        finally:
            space.stop()
            # The store's lock is that of the directory: it is given up last.
            try:
                await metadata.close()
            finally:
                await store.close()

    def share(self, workers: int) -> "LocalSharedStorage":
        # A broker of one process does without these imports.
        from magnetar_broker.server.data_directory.shared_storage import (  # noqa: PLC0415
            LocalSharedStorage,
        )

        lock, noted = take(data_disk(self._settings), workers)
        self.withdraw()
        return LocalSharedStorage(lock, noted)

    def announce(self, ports: PortNumbers) -> None:
        addresses.announce(self._settings, ports)

    def withdraw(self) -> None:
        addresses.forget(self._settings.data_dir)


async def _open(
    settings: Settings,
    process: ProcessRuntime,
    disk: LocalDisk,
    journal: JournalStats,
    lock: Lock,
    noted: Noted,
) -> tuple[SqliteMetadata, JoinedStore, DiskSpace]:
    """Open metadata and store; all are closed if one is refused."""
    threads, clock = process.threads, process.clock
    reserves = reserves_of(disk, store=0, has_metadata=True)
    try:
        metadata = await metadata_of(disk, noted, threads.metadata, clock, reserves)
    except BaseException:
        lock.close()
        raise
    process.phases.end("metadata")
    measured = SpaceState()
    try:
        measured = space = await space_of(settings, disk, reserves, threads.reads, clock)
        store = await store_of(settings, disk, threads, clock, journal, space, lock=lock)
        try:
            store.compare(metadata.identity)
            await metadata.count_start()  # only now: a refused start is not counted
        except StorageError:
            await store.close()
            raise
    except BaseException:
        measured.stop()
        await metadata.close()
        await threads.background.run(measured.set_aside)
        raise
    return metadata, store, space
