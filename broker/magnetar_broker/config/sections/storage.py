"""Storage."""

from magnetar_broker.config.domains import COUNT, PATH, DamagedEntries, Durability
from magnetar_broker.config.sections.section import section, setting
from magnetar_broker.config.values import Choice, FreeSpace, Integer
from magnetar_storage.space.free_limit import FreeLimit


@section("Storage")
class Storage:
    """Directory, durability, ledgers and retention."""

    data_dir: str = setting(
        PATH,
        "Directory of all data; only one broker at a time can use it.",
        default="./data",
        name="magnetarDataDirectory",
    )
    magnetar_snapshot_directory: str | None = setting(
        PATH,
        "Directory of snapshots; blank is `snapshots` in the data directory. If it is on "
        "another file system, everything in a snapshot is copied.",
        default=None,
    )
    durability: Durability = setting(
        Choice(Durability),
        "fsync: receipts are sent when the data is on disk. relaxed: before that, so a power "
        "failure can lose acknowledged messages.",
        default=Durability.FSYNC,
        name="magnetarDurability",
    )
    magnetar_disk_free_limit: FreeLimit = setting(
        FreeSpace(),
        "With less free space on the disk of the data directory, publishing and the creation "
        "of topics are refused. auto is 1 GiB, or 2 % of the disk if that is more, but a tenth "
        "of the disk at most; 0 means no limit.",
        default=FreeLimit(),
    )
    managed_ledger_cache_size_mb: int = setting(
        COUNT,
        "Memory of the cache of recent entries, which all topics share; divided among several "
        "workers.",
        default=64,
        name="managedLedgerCacheSizeMB",
        unit="MB",
        pulsar="a fifth of direct memory",
        of_workers=True,
    )
    managed_ledger_max_reads_in_flight_size_in_mb: int = setting(
        COUNT,
        "Memory of entries that were read from disk for subscriptions that lag, and not sent "
        "yet, for all subscriptions together; divided among several workers. There is always "
        "a limit: 0 is 128 MB.",
        default=0,
        name="managedLedgerMaxReadsInFlightSizeInMB",
        unit="MB",
        pulsar="no limit",
        of_workers=True,
    )
    magnetar_write_behind_size_mb: int = setting(
        Integer(1, 128),
        "Memory of entries that are in the journal and not yet in their topic's files, for "
        "each worker if there are several; up to twice as much if many topics have little "
        "each.",
        default=32,
        name="magnetarWriteBehindSizeMB",
        unit="MB",
        of_workers=True,
    )
    magnetar_checkpoint_size_mb: int = setting(
        Integer(1),
        "Size of the journal, for each worker if there are several, at which a checkpoint is "
        "written: a smaller size shortens the start after a crash, a larger one saves writes.",
        default=128,
        name="magnetarCheckpointSizeMB",
        unit="MB",
        of_workers=True,
    )
    managed_ledger_max_entries_per_ledger: int = setting(
        Integer(1),
        "Entries after which a ledger rolls over.",
        default=50000,
        of_workers=True,
    )
    managed_ledger_max_size_per_ledger_mbytes: int = setting(
        Integer(1),
        "Size at which a ledger rolls over.",
        default=2048,
        unit="MB",
        of_workers=True,
    )
    managed_ledger_min_ledger_rollover_time_minutes: int = setting(
        COUNT,
        "Minimum age at which a ledger rolls over because of its entries or size.",
        default=10,
        unit="min",
        of_workers=True,
    )
    managed_ledger_max_ledger_rollover_time_minutes: int = setting(
        Integer(1),
        "Age at which a ledger rolls over in any case.",
        default=240,
        unit="min",
        of_workers=True,
    )
    magnetar_quarantine_minutes: int = setting(
        Integer(-1),
        "How long ledgers that no topic lists, and copies of damaged entries that were set "
        "aside, stay in `quarantine` in the data directory before they are deleted; -1 is for "
        "ever.",
        default=10080,
        unit="min",
        of_workers=True,
    )
    magnetar_damaged_entries: DamagedEntries = setting(
        Choice(DamagedEntries),
        "What happens at stored entries that cannot be read. stop: delivery in order stops "
        "there until `magnetar admin topics skip-damaged`. skip: they are set aside as soon as "
        "they are found, so their messages are not delivered.",
        default=DamagedEntries.STOP,
        of_workers=True,
    )
    magnetar_scrub_interval_in_seconds: int = setting(
        COUNT,
        "The time within which every closed ledger is read about once, to find damage before "
        "readers do; 0 means never.",
        default=604800,
        unit="s",
        of_workers=True,
    )
    magnetar_scrub_bytes_per_second: int = setting(
        Integer(1),
        "How fast each worker reads closed ledgers to find damage.",
        default=8388608,
        unit="B",
        of_workers=True,
    )
    default_retention_time_in_minutes: int = setting(
        Integer(-1),
        "How long acknowledged messages are retained; 0 means not at all, -1 means no limit.",
        default=0,
        unit="min",
        dynamic=True,
    )
    default_retention_size_in_mb: int = setting(
        Integer(-1),
        "Size of acknowledged messages that a topic retains; 0 means none, -1 means no limit.",
        default=0,
        name="defaultRetentionSizeInMB",
        unit="MB",
        dynamic=True,
    )
    magnetar_unread_messages_retention_minutes: int = setting(
        Integer(-1),
        "How long messages that no durable subscription has acknowledged are kept, and their "
        "topic with them; 0 means the behaviour of Pulsar, -1 no limit. If retention or the "
        "deletion of inactive topics is set, here or by a policy, and this is not, only that "
        "counts.",
        default=10080,
        unit="min",
        dynamic=True,
    )
    magnetar_unread_messages_retention_size_in_mb: int = setting(
        Integer(-1),
        "Size of a topic up to which such messages are kept; -1 means no limit.",
        default=10240,
        name="magnetarUnreadMessagesRetentionSizeInMB",
        unit="MB",
        dynamic=True,
    )
    magnetar_unread_messages_retention_total_size_in_mb: int = setting(
        Integer(-1),
        "Size of all such messages in all topics, divided among several workers; above it the "
        "oldest are deleted. They take at most a quarter of the disk; -1 means no limit.",
        default=51200,
        name="magnetarUnreadMessagesRetentionTotalSizeInMB",
        unit="MB",
        dynamic=True,
        of_workers=True,
    )
    retention_check_interval_in_seconds: int = setting(
        Integer(1),
        "Interval at which consumed ledgers are deleted and old ones rolled over.",
        default=120,
        unit="s",
        of_workers=True,
    )
