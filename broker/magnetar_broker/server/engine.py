"""The engine on open stores, configured by the settings."""

from typing import Final

from magnetar_broker.config import Settings
from magnetar_broker.metrics.journal import JournalStats
from magnetar_storage.interfaces import MetadataStore, SegmentCopies, SegmentStore
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.read_budget import DEFAULT_LIMIT, ReadBudget
from magnetar_storage.log.roll_limits import RollLimits
from magnetar_storage.runtime.execution import Clock, Tasks
from magnetar_storage.space.disk_space import SpaceState

OF_COPIES: Final = 4
"""The part, 1/4, that reads of stores of objects have in addition to the limit of reads."""


def engine_of(
    settings: Settings,
    store: SegmentStore,
    metadata: MetadataStore,
    clock: Clock,
    tasks: Tasks,
    journal: JournalStats,
    space: SpaceState,
    copies: SegmentCopies,
) -> Engine:
    """Return the engine on these stores, configured by the settings.

    `metadata` repeats calls by itself while the store is away.
    """
    read_bytes = settings.managed_ledger_max_reads_in_flight_size_in_mb << 20 or DEFAULT_LIMIT
    return Engine(
        store=store,
        metadata=metadata,
        cache=EntryCache(settings.managed_ledger_cache_size_mb << 20),
        clock=clock,
        tasks=tasks,
        roll=roll_limits(settings),
        reading=ReadBudget(read_bytes),
        reading_copies=ReadBudget(read_bytes // OF_COPIES),
        write_time=journal.write_time,
        adds_broker_metadata=bool(settings.broker_entry_metadata_interceptors),
        space=space,
        copies=copies,
    )


def roll_limits(settings: Settings) -> RollLimits:
    """Return the limits at which a segment, which clients call a ledger, is closed."""
    return RollLimits(
        max_entries=settings.managed_ledger_max_entries_per_ledger,
        max_bytes=settings.managed_ledger_max_size_per_ledger_mbytes << 20,
        min_age_ms=settings.managed_ledger_min_ledger_rollover_time_minutes * 60_000,
        max_age_ms=settings.managed_ledger_max_ledger_rollover_time_minutes * 60_000,
    )
