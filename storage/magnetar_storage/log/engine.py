"""The store, metadata, caches and clock that all logs share, and their limits."""

from dataclasses import dataclass, field

from magnetar_storage.interfaces import MetadataStore, SegmentCopies, SegmentId, SegmentStore
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.damage import FoundDamage
from magnetar_storage.log.no_copies import NoCopies
from magnetar_storage.log.read_budget import ReadBudget
from magnetar_storage.log.roll_limits import RollLimits
from magnetar_storage.log.run_sizes import RunSizes
from magnetar_storage.runtime.execution import Clock, Tasks
from magnetar_storage.runtime.write_time import WriteTime
from magnetar_storage.space.disk_space import SpaceState


@dataclass(frozen=True)
class Engine:
    """The objects that all logs of a broker share."""

    store: SegmentStore
    metadata: MetadataStore
    cache: EntryCache
    clock: Clock
    tasks: Tasks
    roll: RollLimits = field(default_factory=RollLimits)
    reading: ReadBudget = field(default_factory=ReadBudget)
    reading_copies: ReadBudget = field(default_factory=ReadBudget)
    """The budget of reads from stores of objects, which may not answer for a long time."""
    cached_runs: RunSizes = field(default_factory=RunSizes)
    read_runs: RunSizes = field(default_factory=RunSizes)
    """The sizes of runs that dispatchers took at once: from the cache, and read from disk."""
    write_time: WriteTime = field(default_factory=lambda: WriteTime(()))
    """The counter of write times, if they are measured; set before entries are durable."""
    damage: FoundDamage = field(default_factory=FoundDamage)
    """The damaged entries that reads have met."""
    adds_broker_metadata: bool = False
    """Whether entries of logs that are opened may begin with broker entry metadata from now on."""
    space: SpaceState = field(default_factory=SpaceState)
    """Whether the disk has room."""
    copies: SegmentCopies = field(default_factory=NoCopies)
    """The copies of finished segments in stores of objects."""
    keeps_trash_ms: int = 0
    """How long a segment or a copy stays after a log has stopped listing it, in milliseconds; 0
    means that it is deleted at once.  A log that is deleted keeps nothing."""
    undeleted: dict[str, set[SegmentId]] = field(default_factory=dict)
    """New segments that could not be listed, by the key of their log, while it is unknown whether
    they may be deleted (`StoredRecord.discard_unlisted`)."""
