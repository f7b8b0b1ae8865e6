"""The processes of one life of a broker: a store each, and what they ask of each other."""

from crash.disk_world import World
from fakes.faulty_disk import FaultyDisk
from fakes.worker_stores import Link
from fakes.world import ManualTasks
from magnetar_storage.errors import StorageError
from magnetar_storage.interfaces import MetadataStore
from magnetar_storage.local import directories
from magnetar_storage.local.index_file import segment_of as index_of
from magnetar_storage.local.limits import Limits
from magnetar_storage.local.recovery import Finding
from magnetar_storage.local.segment_file import segment_of
from magnetar_storage.local.store import LocalStore
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.roll_limits import RollLimits
from magnetar_storage.multi_store.multi_store import JoinedStore
from magnetar_storage.multi_store.opening import Share, open_store

CACHE_BYTES = 200
"""So little that most reads go to the files."""


class Processes:
    """`open` them together; `engines` has one of each."""

    def __init__(self, disk: FaultyDisk, world: World, limits: Limits) -> None:
        self.engines: list[Engine] = []
        self._disk = disk
        self._world = world
        self._limits = limits
        self._stores: dict[int, JoinedStore] = {}

    def open(self, count: int, alone: bool, metadata: MetadataStore, roll: RollLimits) -> None:
        """Recover; `alone` if there never was more than one process."""
        if not alone:
            directories.prepare(self._disk, count)
        links = {number: Link(self._stores, number) for number in range(count)}
        clock = self._world.clock
        for number in range(count):
            others = {other: link for other, link in links.items() if other != number}
            opening = open_store(
                self._disk, self._world.workers_of(number), clock, self._limits,
                share=Share(number, count, others),
            )  # fmt: skip
            store = self._stores[number] = self._world.drive(opening)
            cache, tasks = EntryCache(CACHE_BYTES), ManualTasks(clock)
            self.engines.append(Engine(store, metadata, cache, clock, tasks, roll))
        largest = max(store.last_id for store in self._stores.values())
        for store in self._stores.values():
            self._world.drive(store.advance_beyond(largest))

    @property
    def findings(self) -> list[Finding]:
        return [finding for store in self._stores.values() for finding in store.findings]

    @property
    def trouble(self) -> StorageError | None:
        found = [store.trouble for store in self._opened().values()]
        return next((trouble for trouble in found if trouble is not None), None)

    def hand_over(self, before: int, after: int) -> None:
        """A topic that one process has closed will be opened by another."""
        self._world.drive(self._stores[after].advance_beyond(self._stores[before].last_id))

    async def checkpoint(self, number: int) -> None:
        await self._stores[number]._own.checkpoint()

    def close(self) -> None:
        """Stop in good order; no file is left that is not needed."""
        for store in self._stores.values():
            self._world.drive(store.close())
        while self._world.step():
            pass
        assert not self._disk.open_files, "files were left open"
        for directory, opened in self._opened().items():
            names = self._disk.list(directories.path_of(directory, "segments"))
            present = set(self._world.drive(_segments(opened)))
            segments, indexes = (set(map(of, names)) - {None} for of in (segment_of, index_of))
            assert segments <= present, "files of deleted segments are left"
            assert indexes <= set(opened._rows) | set(opened._segments), "indexes are left"

    def _opened(self) -> dict[int, LocalStore]:
        """The store of each directory."""
        return {
            directory: opened
            for store in self._stores.values()
            for directory, opened in store._opened.items()
        }


async def _segments(store: LocalStore) -> list[int]:
    return [segment async for segment in store.segments()]
