"""The storage of a broker of several processes that has all data in a data directory.

The controller has the metadata, and each worker has store directories.  They reach each other's
parts over links.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

from magnetar_broker.base.errors import NotReady
from magnetar_broker.config import Settings
from magnetar_broker.ipc.link import Link
from magnetar_broker.ipc.metadata_server import MetadataServer, settled
from magnetar_broker.ipc.segments import RemoteHolder, serve_segments
from magnetar_broker.ipc.successive import SuccessiveLinks
from magnetar_broker.ipc.successive_metadata import SuccessiveMetadata
from magnetar_broker.metrics.journal import JournalStats
from magnetar_broker.placement.worker_links import WorkerLinks
from magnetar_broker.server.data_directory.copies import access_to, copies_of
from magnetar_broker.server.data_directory.last_ids import LastIds
from magnetar_broker.server.data_directory.object_names import ObjectPrefix, object_prefix
from magnetar_broker.server.data_directory.parts import (
    data_disk,
    metadata_of,
    metadata_url,
    reserves_of,
    retrying,
    space_of,
    store_of,
)
from magnetar_broker.server.data_directory.shared_looks import serve_looks, share_looks
from magnetar_broker.server.data_directory.snapshots.making import Snapshots
from magnetar_broker.server.data_directory.snapshots.part import (
    LinkedPart,
    LocalPart,
    serve_snapshots,
)
from magnetar_broker.server.engine import engine_of
from magnetar_broker.server.runtime.phases import recovery
from magnetar_broker.server.runtime.process_runtime import ProcessRuntime
from magnetar_broker.server.supervision.children import name_of
from magnetar_storage.identity import Identity
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.metadata.sqlite import SqliteMetadata
from magnetar_storage.multi_store.belonging import Noted
from magnetar_storage.multi_store.multi_store import JoinedStore
from magnetar_storage.multi_store.opening import Share
from magnetar_storage.runtime.disk import Lock
from magnetar_storage.runtime.execution import Clock
from magnetar_storage.runtime.mutex import Mutex
from magnetar_storage.space.disk_space import SpaceState


class LocalControllerStorage:
    """The `ControllerStorage` of a data directory: the metadata."""

    def __init__(
        self,
        settings: Settings,
        metadata: SqliteMetadata,
        space: SpaceState,
        snapshots: Snapshots,
        process: ProcessRuntime,
        workers: int,
        prefix: ObjectPrefix,
    ) -> None:
        self._prefix = prefix
        self.metadata_url = metadata_url(settings)
        self.metadata = retrying(settings, metadata, process.clock)
        self.objects = access_to(settings, process.threads, prefix, self.metadata)
        # Served as it is: workers wait themselves, and a write of theirs ends with their link.
        self._stored = metadata
        self.space = space
        self.snapshots = snapshots
        self._process = process
        self._links: dict[int, Link] = {}
        self._last_ids = LastIds(workers, process.clock)
        self._counting = Mutex(process.clock)
        self._is_counted = False
        share_looks(space, self._links.values)

    async def before_giving(self, worker: int) -> None:
        await self._last_ids.advance(worker)

    def serve(self, worker: int, link: Link, may_write: Callable[[str], bool]) -> None:
        clock, tasks = self._process.clock, self._process.tasks
        MetadataServer(link, self._stored, may_write, clock, tasks)
        join = partial(self._join, worker, self._links.get(worker))
        link.serve(
            {
                "segments.join": join,
                "segments.rejoin": partial(self._rejoin, worker),
                "identity": lambda: tuple(self._stored.identity),
                "objects.prefix": lambda: self._prefix.own,
            }
        )
        serve_looks(self.space, link)
        self._last_ids.follow(worker, link)
        self._links[worker] = link

    async def stop(self) -> None:
        await self.snapshots.stop()

    async def _join(
        self, worker: int, before: Link | None, last: SegmentId
    ) -> tuple[SegmentId, tuple[object, ...]]:
        """Answer a worker that has opened its store; `before` is the link of its former process.

        The answer is the id above which its new segments begin, and the identity to be noted.
        """
        if before is not None:
            # Else it could delete as orphans what a late write of that process is about to list.
            await settled(before, self._stored)
        beyond = await self._last_ids.join(worker, last)
        async with self._counting.held():
            # All workers have compared their parts by now: a refused start is not counted.
            if not self._is_counted:
                await self._stored.count_start()
                self._is_counted = True
        return beyond, tuple(self._stored.identity)

    def _rejoin(self, worker: int, last: SegmentId) -> None:
        """Take the last id of a worker that has served a former controller."""
        self._is_counted = True  # when that one started
        self._last_ids.rejoin(worker, last)


class LocalWorkerStorage:
    """The `WorkerStorage` of a data directory: the store directories of one worker."""

    def __init__(
        self,
        settings: Settings,
        process: ProcessRuntime,
        store: JoinedStore,
        space: SpaceState,
        journal: JournalStats,
        controllers: SuccessiveLinks,
    ) -> None:
        self.journal = journal
        self._metadata = SuccessiveMetadata(controllers, process.clock)
        self._prefix = ""
        copies = copies_of(
            settings, store, process.threads, lambda: self._prefix, process.clock.uptime
        )
        self.engine = engine_of(
            settings,
            store,
            retrying(settings, self._metadata, process.clock),
            process.clock,
            process.tasks,
            journal,
            space,
            copies,
        )
        self._process = process
        self._store = store
        self._controllers = controllers
        self._part = LocalPart(store, settings.data_dir)
        share_looks(space, lambda: filter(None, [controllers.latest]))

    def serve_controller(self, link: Link) -> None:
        store = self._store
        self._metadata.follow(link)
        serve_snapshots(self._part, link)
        serve_looks(self.engine.space, link)
        link.serve(
            {"segments.last_id": lambda: store.last_id, "segments.advance": store.advance_beyond}
        )

    def serve(self, link: Link) -> None:
        serve_segments(self._store.opened, link)

    async def join(self) -> None:
        controller = await self._controllers.present()
        metadata, store = self._metadata, self._store
        metadata.identity = Identity(*await controller.request("identity"))
        self._prefix = await controller.request("objects.prefix")
        # Before joining: no worker continues until all have joined, so none notes what is refused.
        store.compare(metadata.identity)
        last, identity = await controller.request("segments.join", store.last_id)
        metadata.identity = Identity(*identity)
        self._process.phases.end("recovery of the other workers")
        await store.advance_beyond(last)
        store.belong(lambda: metadata.identity)

    async def rejoin(self, link: Link) -> None:
        await link.request("segments.rejoin", self._store.last_id)

    def stop(self) -> None:
        self._part.stop()


class LocalSharedStorage:
    """The `SharedStorage` of a data directory, whose lock this process has taken."""

    def __init__(self, lock: Lock, noted: Noted) -> None:
        """`noted` are the identities that were read before any process was started."""
        self._lock = lock
        self._noted = noted

    @asynccontextmanager
    async def controller(
        self,
        settings: Settings,
        process: ProcessRuntime,
        links: WorkerLinks,
        workers: int,
        is_first: bool,
    ) -> AsyncIterator[LocalControllerStorage]:
        threads, clock = process.threads, process.clock
        disk = data_disk(settings)
        reserves = reserves_of(disk, store=None, has_metadata=True)
        # After the first start brokers have gone on from what was noted.
        noted = self._noted if is_first else None
        metadata = await metadata_of(disk, noted, threads.metadata, clock, reserves)
        process.phases.end("metadata")
        space = SpaceState()
        try:
            space = await space_of(settings, disk, reserves, threads.reads, clock)
            snapshots = Snapshots(metadata, partial(_parts, links, clock), settings, clock)
            prefix = await object_prefix(disk, metadata, threads.background)
            await snapshots.clear()
            yield LocalControllerStorage(
                settings, metadata, space, snapshots, process, workers, prefix
            )
        finally:
            space.stop()
            try:
                await metadata.close()
            finally:
                await threads.metadata.run(space.set_aside)

    @asynccontextmanager
    async def worker(
        self,
        settings: Settings,
        process: ProcessRuntime,
        number: int,
        controllers: SuccessiveLinks,
        others: Mapping[int, SuccessiveLinks],
    ) -> AsyncIterator[LocalWorkerStorage]:
        threads, clock, journal = process.threads, process.clock, JournalStats()
        holders = {other: RemoteHolder(links) for other, links in others.items()}
        share = Share(number, len(others) + 1, holders)
        disk = data_disk(settings)
        reserves = reserves_of(disk, number, has_metadata=False)
        space = await space_of(settings, disk, reserves, threads.reads, clock)
        lock = self._lock if number == 0 else None
        store = await store_of(settings, disk, threads, clock, journal, space, share, lock)
        process.phases.end(recovery(store.replayed_bytes))
        try:
            yield LocalWorkerStorage(settings, process, store, space, journal, controllers)
        finally:
            space.stop()
            await store.close()


def _parts(links: WorkerLinks, clock: Clock) -> list[LinkedPart]:
    if missing := links.missing():
        raise NotReady(f"{', '.join(map(name_of, missing))}: starting or stopping: retry")
    return [LinkedPart(link, clock) for link in links.all()]
