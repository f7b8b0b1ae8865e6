"""The parts that serve topics on a data directory: disk, store, and engine."""

import logging
import os
import time
from functools import partial
from typing import Final, NamedTuple

from magnetar_broker.config import Durability, Settings
from magnetar_broker.metrics.journal import JournalStats
from magnetar_storage.identity import ID_BYTES
from magnetar_storage.interfaces import MetadataStore, SegmentCopies, SegmentStore
from magnetar_storage.local import directories
from magnetar_storage.local.limits import Limits, fitting
from magnetar_storage.local.recovery import Finding
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.read_budget import DEFAULT_LIMIT, ReadBudget
from magnetar_storage.log.roll_limits import RollLimits
from magnetar_storage.metadata.retrying import RETRY_SECONDS, RetryingMetadata
from magnetar_storage.metadata.sqlite import SqliteMetadata
from magnetar_storage.multi_store.belonging import Noted, check, mark
from magnetar_storage.multi_store.multi_store import JoinedStore
from magnetar_storage.multi_store.opening import ALL, Share, open_store
from magnetar_storage.runtime.disk import Disk, LocalDisk, Lock
from magnetar_storage.runtime.execution import Clock, Tasks, Worker, Workers
from magnetar_storage.space.disk_space import DiskSpace, SpaceState
from magnetar_storage.space.reserve import METADATA_FILE, STORE_FILE, Reserve

logger = logging.getLogger(__name__)

OF_COPIES: Final = 4
"""The part, 1/4, that reads of stores of objects have in addition to the limit of reads."""


def data_disk(settings: Settings) -> LocalDisk:
    """Return the disk of the data directory."""
    return LocalDisk(settings.data_dir, durable=settings.durability is Durability.FSYNC)


def metadata_url(settings: Settings) -> str:
    """Return the URL of the metadata, as the REST API shows it."""
    return f"file://{settings.data_dir}"


class Reserves(NamedTuple):
    """The disk space that a process has reserved."""

    of_store: Reserve | None
    of_metadata: Reserve | None

    def give(self) -> bool:
        """Release the metadata's reserve, else the store's; return whether there was one."""
        # promise[without and one.give()]: metadata has room on a full disk
        return any(one is not None and one.give() for one in (self.of_metadata, self.of_store))


def reserves_of(disk: Disk, store: int | None, has_metadata: bool) -> Reserves:
    """Return the reserves of the process that writes store directory number `store`, and the
    metadata if `has_metadata`."""
    return Reserves(
        None if store is None else Reserve(directories.disk_of(disk, store), STORE_FILE),
        Reserve(disk, METADATA_FILE) if has_metadata else None,
    )


async def space_of(
    settings: Settings, disk: Disk, reserves: Reserves, worker: Worker, clock: Clock
) -> DiskSpace:
    """Watch the free space of a disk until `DiskSpace.stop`; it has been checked once on return."""
    space = DiskSpace(
        disk,
        settings.data_dir,
        settings.magnetar_disk_free_limit,
        *reserves,
        worker,
        clock,
        _log_of_space,
    )
    await space.look()
    space.start()
    return space


def _log_of_space(is_low: bool, text: str) -> None:
    logger.log(logging.ERROR if is_low else logging.INFO, "%s", text)


async def metadata_of(
    disk: LocalDisk, noted: Noted | None, worker: Worker, clock: Clock, reserves: Reserves
) -> SqliteMetadata:
    """Open the metadata store of a data directory; the caller counts the start (`count_start`).

    `noted` is what the other parts of the directory say of it: `Incomplete` is raised if they do
    not belong together.  It is None if they were compared since the lock was taken, because they
    have changed since.  The caller holds the directory's lock.
    """
    metadata = await SqliteMetadata.open(disk, worker, clock, reserves.give)
    try:
        compare = (lambda _: None) if noted is None else partial(check, noted)
        await metadata.identify(compare, os.urandom(ID_BYTES))
        await worker.run(partial(mark, disk, metadata.identity.directory))
    except BaseException:
        await metadata.close()
        raise
    return metadata


async def store_of(
    settings: Settings,
    disk: Disk,
    workers: Workers,
    clock: Clock,
    journal: JournalStats,
    space: DiskSpace,
    share: Share = ALL,
    lock: Lock | None = None,
) -> JoinedStore:
    """Open this process's share of the store (see `open_store`) and recover from a crash.

    Damage that recovery finds is logged.
    """

    def observe(records: int, size: int, seconds: float | None) -> None:
        journal.observe(records, size, seconds)
        space.written(size)

    store = await open_store(
        disk,
        workers,
        clock,
        fitting(store_limits(settings), disk.space().size, share.of),
        observe=observe,
        timer=time.monotonic,
        report=report,
        share=share,
        lock=lock,
        written=journal.written,
        space=space,
    )
    for finding in store.findings:
        report(finding)
    return store


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
    """Return the engine on these stores, configured by the settings."""
    read_bytes = settings.managed_ledger_max_reads_in_flight_size_in_mb << 20 or DEFAULT_LIMIT
    return Engine(
        store=store,
        metadata=retrying(settings, metadata, clock),
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


def retrying(settings: Settings, metadata: MetadataStore, clock: Clock) -> MetadataStore:
    """Return `metadata`, with calls repeated while the store is away for some seconds.

    They wait for less than the time after which a process that hangs counts as ended.
    """
    session_seconds = settings.metadata_store_session_timeout_millis / 1000
    return RetryingMetadata(metadata, clock, min(RETRY_SECONDS, session_seconds / 2))


def report(finding: Finding) -> None:
    """Log damage that recovery found: an error if data was lost, a warning otherwise."""
    logger.log(logging.ERROR if finding.data_lost else logging.WARNING, "%s", finding.text)


def store_limits(settings: Settings) -> Limits:
    """Return the limits of the local store."""
    return Limits(
        write_behind_bytes=settings.magnetar_write_behind_size_mb << 20,
        checkpoint_bytes=settings.magnetar_checkpoint_size_mb << 20,
        journal_is_synced=settings.durability is Durability.FSYNC,
    )


def roll_limits(settings: Settings) -> RollLimits:
    """Return the limits at which a segment, which clients call a ledger, is closed."""
    return RollLimits(
        max_entries=settings.managed_ledger_max_entries_per_ledger,
        max_bytes=settings.managed_ledger_max_size_per_ledger_mbytes << 20,
        min_age_ms=settings.managed_ledger_min_ledger_rollover_time_minutes * 60_000,
        max_age_ms=settings.managed_ledger_max_ledger_rollover_time_minutes * 60_000,
    )
