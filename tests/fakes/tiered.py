"""A log on a local store whose segments are moved to a store of objects."""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from copy import deepcopy
from itertools import count
from typing import Any, TypeVar

from fakes.faulty_disk import FaultyDisk
from fakes.faulty_objects import FaultyObjects
from fakes.local_store import SMALL_JOURNAL
from fakes.logs import BY_THREE, KEY
from fakes.memory_metadata import MemoryMetadata
from fakes.runs import append
from fakes.world import InlineWorker, InlineWorkers, ManualClock, ManualTasks, run
from magnetar_broker.expiry.listed_objects import ObjectAccess
from magnetar_storage.interfaces import SegmentCopy, Versioned
from magnetar_storage.local.store import LocalStore
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.left_objects import LEFT, LeftObjects
from magnetar_storage.log.log import Log
from magnetar_storage.log.log_record import LogRecord
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.runtime.execution import Worker
from magnetar_storage.tiered.copies import AWAY_SECONDS, TieredCopies

T = TypeVar("T")

PLACE, OTHER = "s3://bucket/first", "s3://bucket/second"


class TieredWorld:
    """A store, metadata and two stores of objects, which all survive `restart`."""

    clock: ManualClock
    store: LocalStore

    def __init__(self, original: "TieredWorld | None" = None) -> None:
        """Begin a new world, or a copy of one whose logs are closed: the objects are shared."""
        self.clock = ManualClock() if original is None else original.clock
        self.metadata = MemoryMetadata(self.clock)
        self._nonces = count()
        self.new_workers: Callable[[], Sequence[Worker]] = lambda: [
            InlineWorker(self.clock) for _ in range(2)
        ]
        self.prefix = "data"
        """The prefix of the names of the data directory's objects."""
        if original is None:
            self.disk = FaultyDisk()
            self.places = {place: FaultyObjects(self.clock.now_ms) for place in (PLACE, OTHER)}
        else:
            self.do(original.store.close())
            self.disk = deepcopy(original.disk)
            original.start()
            self.places = original.places
            self.prefix = "copy"
            for key, found in self.do(original.metadata.read_under("")):
                assert isinstance(found, Versioned)
                self.do(self.metadata.put(key, found.value))
        self.start()

    @property
    def objects(self) -> FaultyObjects:
        return self.places[PLACE]

    def start(self) -> None:
        """Open the store, and make what a process has in memory."""
        self.workers = InlineWorkers(self.clock)
        opening = LocalStore.open(self.disk, self.workers, self.clock, SMALL_JOURNAL)
        self.store = self.do(opening)
        copies = TieredCopies(
            self.store,
            self._open,
            lambda: self.new_workers(),  # noqa: PLW0108  (a test replaces it)
            cache_bytes=1 << 20,
            prefix=lambda: self.prefix,
            nonce=lambda: str(next(self._nonces)),
            uptime=self.clock.uptime,
        )
        self.engine = Engine(
            self.store, self.metadata, EntryCache(0), self.clock, ManualTasks(self.clock),
            BY_THREE, copies=copies,
        )  # fmt: skip

    def access(self, *formers: str) -> ObjectAccess:
        """Return the access to all objects; `formers` are the prefixes of originals."""

        async def forget_formers() -> None:
            await self.metadata.put("/forgotten", b"")

        return ObjectAccess(
            self.prefix, self._open, InlineWorker(self.clock), formers, forget_formers
        )

    def _open(self, place: str) -> Objects:
        return self.places[place]

    def do(self, coro: Coroutine[Any, Any, T]) -> T:
        return run(coro, self.clock)

    def open(self) -> Log:
        """Open the log for writing."""
        log = self.do(Log.open(KEY, self.engine, create=True))
        assert log is not None
        self.do(log.rollover.start_writing())
        return log

    def append(self, log: Log, *payloads: bytes) -> None:
        """Append entries one by one, so that each third one fills a segment."""
        for payload in payloads:
            outcome: list[BaseException | None] = []
            append(log, [payload], [1], outcome.append)
            self.clock.pump()
            assert outcome == [None]

    def read_all(self, log: Log, first: int | None = None) -> list[bytes]:
        """Return every entry from `first` on, or from the first one kept."""
        offset, found = log.first_offset if first is None else first, list[bytes]()
        while (part := self.do(log.entries.read(offset, 2, 1 << 20))).payloads:
            assert part.first == offset
            found += part.payloads
            offset += len(part.payloads)
        assert offset == log.end
        return found

    def move(self, log: Log) -> None:
        """Copy all settled segments, and delete them from the store."""
        settled = [segment.id for segment in log.segments if segment.entries is not None]
        for segment in settled:
            assert self.do(log.offloading.copy(segment, PLACE))
        self.do(log.offloading.drop(settled))

    def mend(self) -> None:
        """End all faults, and the time for which a place that failed is left alone."""
        for objects in self.places.values():
            objects.fault = None
        self.clock.advance(AWAY_SECONDS)

    def record(self) -> LogRecord | None:
        """Return the record as it is stored."""
        found = self.do(self.metadata.get(KEY))
        return None if found is None else LogRecord.decode(KEY, found.value)

    def listed(self) -> set[tuple[str, str]]:
        """Return the places and names of all objects that the stored record lists."""
        return {(copy.place, copy.name) for copy in copies_in(self.record())}

    def left(self) -> set[tuple[str, str]]:
        """Return the places and names of the objects of deleted logs that are listed."""
        found = set[tuple[str, str]]()
        for key, value in self.do(self.metadata.read_under(LEFT)):
            assert isinstance(value, Versioned)
            for place, names in LeftObjects.decode(key, value.value).places.items():
                found |= {(place, name) for name in names}
        return found

    def stored(self) -> set[tuple[str, str]]:
        """Return the places and names of all objects that exist."""
        return {(place, name) for place, one in self.places.items() for name in one.names()}


def copies_in(record: LogRecord | None) -> Iterator[SegmentCopy]:
    """Yield the copies that a record lists, those to be deleted included."""
    if record is not None:
        yield from (segment.copy for segment in record.segments if segment.copy is not None)
        yield from record.copy_trash
