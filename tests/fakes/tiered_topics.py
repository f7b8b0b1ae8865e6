"""Topics whose closed ledgers are in a store of objects, with the requests that they cause."""

from itertools import count

from fakes.faulty_disk import FaultyDisk
from fakes.faulty_objects import FaultyObjects
from fakes.local_store import SMALL_JOURNAL
from fakes.logs import LogWorld
from fakes.tiered import PLACE
from fakes.topics import TopicWorld
from fakes.world import InlineWorker, InlineWorkers
from magnetar_storage.interfaces import MetadataStore, SegmentStore
from magnetar_storage.local.store import LocalStore
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.log import Log
from magnetar_storage.log.roll_limits import RollLimits
from magnetar_storage.tiered.copies import TieredCopies


class TieredWorld(LogWorld):
    """A world on a local store, without cached entries, and a store of objects."""

    objects: FaultyObjects

    def engine_on(
        self, store: SegmentStore, metadata: MetadataStore, roll: RollLimits, cache_bytes: int
    ) -> Engine:
        self.objects = FaultyObjects(self.clock.now_ms)
        workers = InlineWorkers(self.clock)
        local = self.do(LocalStore.open(FaultyDisk(), workers, self.clock, SMALL_JOURNAL))
        nonces = count()
        copies = TieredCopies(
            local,
            lambda place: self.objects,
            lambda: [InlineWorker(self.clock)],
            cache_bytes=1 << 20,
            prefix=lambda: "data",
            nonce=lambda: str(next(nonces)),
            uptime=self.clock.uptime,
        )
        return Engine(local, metadata, EntryCache(0), self.clock, self.tasks, roll, copies=copies)

    def move(self, log: Log) -> int:
        """Move all settled segments of a log to the objects; return their number."""
        settled = [one.id for one in log.segments if one.entries is not None]
        for segment in settled:
            assert self.do(log.offloading.copy(segment, PLACE))
        self.do(log.offloading.drop(settled))
        self.objects.log.clear()
        return len(settled)

    @property
    def requests(self) -> int:
        """The number of requests since the segments were moved."""
        return len(self.objects.log)


class TieredTopic(TieredWorld, TopicWorld):
    """One topic of such a world."""

    def offloaded(self) -> int:
        """Move all closed ledgers of the topic, and load it again; return their number."""
        moved = self.move(self.topic.log)
        self.do(self.topic.close())
        self.reload()
        return moved
