"""Storage."""

from typing import Annotated

from magnetar_broker.config.domains import COUNT, PATH, DamagedEntries, Durability
from magnetar_broker.config.sections.section import section
from magnetar_broker.config.values import Choice, FreeSpace, Integer, Key
from magnetar_storage.space.free_limit import FreeLimit


@section
class Storage:
    """Directory, durability, ledgers and retention."""

    data_dir: Annotated[
        str,
        Key(
            "magnetarDataDirectory",
            PATH,
            "Directory of all data; only one broker at a time can use it.",
        ),
    ] = "./data"
    magnetar_snapshot_directory: Annotated[
        str | None,
        Key(
            "magnetarSnapshotDirectory",
            PATH,
            "Directory of snapshots; blank is `snapshots` in the data directory. If it is on "
            "another file system, everything in a snapshot is copied.",
        ),
    ] = None
    durability: Annotated[
        Durability,
        Key(
            "magnetarDurability",
            Choice(Durability),
            "fsync: receipts are sent when the data is on disk. relaxed: before that, so a power "
            "failure can lose acknowledged messages.",
        ),
    ] = Durability.FSYNC
    magnetar_disk_free_limit: Annotated[
        FreeLimit,
        Key(
            "magnetarDiskFreeLimit",
            FreeSpace(),
            "With less free space on the disk of the data directory, publishing and the creation "
            "of topics are refused. auto is 1 GiB, or 2 % of the disk if that is more, but a tenth "
            "of the disk at most; 0 means no limit.",
        ),
    ] = FreeLimit()
    managed_ledger_cache_size_mb: Annotated[
        int,
        Key(
            "managedLedgerCacheSizeMB",
            COUNT,
            "Memory of the cache of recent entries, which all topics share; divided among several "
            "workers.",
            unit="MB",
            pulsar="a fifth of direct memory",
            of_workers=True,
        ),
    ] = 64
    managed_ledger_max_reads_in_flight_size_in_mb: Annotated[
        int,
        Key(
            "managedLedgerMaxReadsInFlightSizeInMB",
            COUNT,
            "Memory of entries that were read from disk for subscriptions that lag, and not sent "
            "yet, for all subscriptions together; divided among several workers. There is always "
            "a limit: 0 is 128 MB.",
            unit="MB",
            pulsar="no limit",
            of_workers=True,
        ),
    ] = 0
    magnetar_write_behind_size_mb: Annotated[
        int,
        Key(
            "magnetarWriteBehindSizeMB",
            Integer(1, 128),
            "Memory of entries that are in the journal and not yet in their topic's files, for "
            "each worker if there are several; up to twice as much if many topics have little "
            "each.",
            unit="MB",
            of_workers=True,
        ),
    ] = 32
    magnetar_checkpoint_size_mb: Annotated[
        int,
        Key(
            "magnetarCheckpointSizeMB",
            Integer(1),
            "Size of the journal, for each worker if there are several, at which a checkpoint is "
            "written: a smaller size shortens the start after a crash, a larger one saves writes.",
            unit="MB",
            of_workers=True,
        ),
    ] = 128
    managed_ledger_max_entries_per_ledger: Annotated[
        int,
        Key(
            "managedLedgerMaxEntriesPerLedger",
            Integer(1),
            "Entries after which a ledger rolls over.",
            of_workers=True,
        ),
    ] = 50000
    managed_ledger_max_size_per_ledger_mbytes: Annotated[
        int,
        Key(
            "managedLedgerMaxSizePerLedgerMbytes",
            Integer(1),
            "Size at which a ledger rolls over.",
            unit="MB",
            of_workers=True,
        ),
    ] = 2048
    managed_ledger_min_ledger_rollover_time_minutes: Annotated[
        int,
        Key(
            "managedLedgerMinLedgerRolloverTimeMinutes",
            COUNT,
            "Minimum age at which a ledger rolls over because of its entries or size.",
            unit="min",
            of_workers=True,
        ),
    ] = 10
    managed_ledger_max_ledger_rollover_time_minutes: Annotated[
        int,
        Key(
            "managedLedgerMaxLedgerRolloverTimeMinutes",
            Integer(1),
            "Age at which a ledger rolls over in any case.",
            unit="min",
            of_workers=True,
        ),
    ] = 240
    magnetar_quarantine_minutes: Annotated[
        int,
        Key(
            "magnetarQuarantineMinutes",
            Integer(-1),
            "How long ledgers that no topic lists, and copies of damaged entries that were set "
            "aside, stay in `quarantine` in the data directory before they are deleted; -1 is for "
            "ever.",
            unit="min",
            of_workers=True,
        ),
    ] = 10080
    magnetar_damaged_entries: Annotated[
        DamagedEntries,
        Key(
            "magnetarDamagedEntries",
            Choice(DamagedEntries),
            "What happens at stored entries that cannot be read. stop: delivery in order stops "
            "there until `magnetar admin topics skip-damaged`. skip: they are set aside as soon as "
            "they are found, so their messages are not delivered.",
            of_workers=True,
        ),
    ] = DamagedEntries.STOP
    magnetar_scrub_interval_in_seconds: Annotated[
        int,
        Key(
            "magnetarScrubIntervalInSeconds",
            COUNT,
            "The time within which every closed ledger is read about once, to find damage before "
            "readers do; 0 means never.",
            unit="s",
            of_workers=True,
        ),
    ] = 604800
    magnetar_scrub_bytes_per_second: Annotated[
        int,
        Key(
            "magnetarScrubBytesPerSecond",
            Integer(1),
            "How fast each worker reads closed ledgers to find damage.",
            unit="B",
            of_workers=True,
        ),
    ] = 8388608
    default_retention_time_in_minutes: Annotated[
        int,
        Key(
            "defaultRetentionTimeInMinutes",
            Integer(-1),
            "How long acknowledged messages are retained; 0 means not at all, -1 means no limit.",
            unit="min",
            dynamic=True,
        ),
    ] = 0
    default_retention_size_in_mb: Annotated[
        int,
        Key(
            "defaultRetentionSizeInMB",
            Integer(-1),
            "Size of acknowledged messages that a topic retains; 0 means none, -1 means no limit.",
            unit="MB",
            dynamic=True,
        ),
    ] = 0
    magnetar_unread_messages_retention_minutes: Annotated[
        int,
        Key(
            "magnetarUnreadMessagesRetentionMinutes",
            Integer(-1),
            "How long messages that no durable subscription has acknowledged are kept, and their "
            "topic with them; 0 means the behaviour of Pulsar, -1 no limit. If retention or the "
            "deletion of inactive topics is set, here or by a policy, and this is not, only that "
            "counts.",
            unit="min",
            dynamic=True,
        ),
    ] = 10080
    magnetar_unread_messages_retention_size_in_mb: Annotated[
        int,
        Key(
            "magnetarUnreadMessagesRetentionSizeInMB",
            Integer(-1),
            "Size of a topic up to which such messages are kept; -1 means no limit.",
            unit="MB",
            dynamic=True,
        ),
    ] = 10240
    magnetar_unread_messages_retention_total_size_in_mb: Annotated[
        int,
        Key(
            "magnetarUnreadMessagesRetentionTotalSizeInMB",
            Integer(-1),
            "Size of all such messages in all topics, divided among several workers; above it the "
            "oldest are deleted. They take at most a quarter of the disk; -1 means no limit.",
            unit="MB",
            dynamic=True,
            of_workers=True,
        ),
    ] = 51200
    retention_check_interval_in_seconds: Annotated[
        int,
        Key(
            "retentionCheckIntervalInSeconds",
            Integer(1),
            "Interval at which consumed ledgers are deleted and old ones rolled over.",
            unit="s",
            of_workers=True,
        ),
    ] = 120
