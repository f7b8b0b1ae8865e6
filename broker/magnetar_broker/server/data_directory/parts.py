"""The parts of a data directory that a process opens: disk, metadata and store."""

import logging
import os
import time
from functools import partial
from typing import NamedTuple

from magnetar_broker.config import Durability, Settings
from magnetar_broker.metrics.journal import JournalStats
from magnetar_storage.identity import ID_BYTES
from magnetar_storage.interfaces import MetadataStore
from magnetar_storage.local import directories
from magnetar_storage.local.limits import Limits, fitting
from magnetar_storage.local.recovery import Finding
from magnetar_storage.metadata.retrying import RETRY_SECONDS, RetryingMetadata
from magnetar_storage.metadata.sqlite import SqliteMetadata
from magnetar_storage.multi_store.belonging import Noted, check, mark
from magnetar_storage.multi_store.multi_store import JoinedStore
from magnetar_storage.multi_store.opening import ALL, Share, open_store
from magnetar_storage.runtime.disk import Disk, LocalDisk, Lock
from magnetar_storage.runtime.execution import Clock, Worker, Workers
from magnetar_storage.space.disk_space import DiskSpace
from magnetar_storage.space.reserve import METADATA_FILE, STORE_FILE, Reserve

logger = logging.getLogger(__name__)


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


def retrying(settings: Settings, metadata: MetadataStore, clock: Clock) -> MetadataStore:
    """Return `metadata`, with calls repeated while the store is away for some seconds.

    They wait for less than the time after which a process that hangs counts as ended.
    """
    session_seconds = settings.metadata_store_session_timeout_millis / 1000
    return RetryingMetadata(metadata, clock, min(RETRY_SECONDS, session_seconds / 2))


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
