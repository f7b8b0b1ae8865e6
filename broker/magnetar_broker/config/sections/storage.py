"""What is kept, where and how long."""

from typing import Annotated

from magnetar_broker.config.domains import COUNT, PATH, Durability
from magnetar_broker.config.sections.section import section
from magnetar_broker.config.values import Choice, Integer, Key


@section
class Storage:
    """Directory, durability, ledgers and retention."""

    data_dir: Annotated[
        str,
        Key("magnetarDataDirectory", PATH, "Where everything is kept; one broker a directory."),
    ] = "./data"
    durability: Annotated[
        Durability,
        Key(
            "magnetarDurability",
            Choice(Durability),
            "fsync answers when the data is on disk; relaxed answers before that, so a power "
            "failure may lose what was acknowledged.",
        ),
    ] = Durability.FSYNC
    managed_ledger_cache_size_mb: Annotated[
        int,
        Key(
            "managedLedgerCacheSizeMB",
            COUNT,
            "Memory for recent entries, shared by all topics.",
            unit="MB",
            pulsar="a fifth of direct memory",
        ),
    ] = 64
    magnetar_write_behind_size_mb: Annotated[
        int,
        Key(
            "magnetarWriteBehindSizeMB",
            Integer(1, 128),
            "Memory for entries that are in the journal and not yet in their topic's files.",
            unit="MB",
        ),
    ] = 32
    magnetar_checkpoint_size_mb: Annotated[
        int,
        Key(
            "magnetarCheckpointSizeMB",
            Integer(1),
            "What the journal holds before a checkpoint is made: less makes the start after a "
            "crash shorter, more saves writes.",
            unit="MB",
        ),
    ] = 128
    managed_ledger_max_entries_per_ledger: Annotated[
        int,
        Key("managedLedgerMaxEntriesPerLedger", Integer(1), "Entries before a topic rolls over."),
    ] = 50000
    managed_ledger_max_size_per_ledger_mbytes: Annotated[
        int,
        Key(
            "managedLedgerMaxSizePerLedgerMbytes",
            Integer(1),
            "Bytes before a topic rolls over.",
            unit="MB",
        ),
    ] = 2048
    managed_ledger_min_ledger_rollover_time_minutes: Annotated[
        int,
        Key(
            "managedLedgerMinLedgerRolloverTimeMinutes",
            COUNT,
            "A ledger is at least this old when it rolls over.",
            unit="min",
        ),
    ] = 10
    managed_ledger_max_ledger_rollover_time_minutes: Annotated[
        int,
        Key(
            "managedLedgerMaxLedgerRolloverTimeMinutes",
            Integer(1),
            "A ledger this old rolls over whatever it holds.",
            unit="min",
        ),
    ] = 240
    default_retention_time_in_minutes: Annotated[
        int,
        Key(
            "defaultRetentionTimeInMinutes",
            Integer(-1),
            "How long acknowledged messages are kept; 0 not at all, -1 for ever.",
            unit="min",
        ),
    ] = 0
    default_retention_size_in_mb: Annotated[
        int,
        Key(
            "defaultRetentionSizeInMB",
            Integer(-1),
            "How much of a topic's acknowledged messages is kept; 0 nothing, -1 everything.",
            unit="MB",
        ),
    ] = 0
    retention_check_interval_in_seconds: Annotated[
        int,
        Key(
            "retentionCheckIntervalInSeconds",
            Integer(1),
            "How often consumed segments are looked for and deleted, and old ones closed.",
            unit="s",
        ),
    ] = 120
