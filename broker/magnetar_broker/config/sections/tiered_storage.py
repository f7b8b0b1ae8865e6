"""Tiered storage."""

from magnetar_broker.config.domains import PATH, SIGNED_LONG, TEXT, OffloadDriver, ReadPriority
from magnetar_broker.config.sections.section import section, setting
from magnetar_broker.config.values import Choice, Integer


@section("Tiered storage")
class TieredStorage:
    """Where closed ledgers are offloaded to, when, and how long they also stay on this disk."""

    managed_ledger_offload_driver: OffloadDriver | None = setting(
        Choice(OffloadDriver),
        "Kind of storage that closed ledgers are offloaded to; S3 is the same as aws-s3. Blank "
        "means that nothing is offloaded, unless a policy names a driver.",
        default=None,
    )
    managed_ledger_offload_auto_trigger_size_threshold_bytes: int = setting(
        SIGNED_LONG,
        "Bytes of a topic's newest closed ledgers that are not offloaded; 0 means that all are, at "
        "the next check (retentionCheckIntervalInSeconds), -1 means never by size.",
        default=-1,
        unit="B",
        dynamic=True,
    )
    managed_ledger_offload_threshold_in_seconds: int = setting(
        SIGNED_LONG,
        "Time since a ledger was closed after which it is offloaded; 0 means at once, -1 means "
        "never by time.",
        default=-1,
        unit="s",
        dynamic=True,
    )
    managed_ledger_offload_deletion_lag_ms: int = setting(
        SIGNED_LONG,
        "Time since a ledger was offloaded after which it is deleted from the data directory; "
        "-1 means never.",
        default=14_400_000,
        unit="ms",
        dynamic=True,
    )
    managed_ledger_data_read_priority: ReadPriority = setting(
        Choice(ReadPriority),
        "What is read of a ledger that is both offloaded and in the data directory: the object "
        "(tiered-storage-first) or the file (bookkeeper-first).",
        default=ReadPriority.DATA_DIRECTORY,
        pulsar="tiered-storage-first",
        dynamic=True,
    )
    managed_ledger_offload_max_threads: int = setting(
        Integer(1, 64),
        "Threads that upload ledgers to one place, and threads that read them there; in each "
        "worker if there are several. Eight places have threads of their own; further ones share "
        "them.",
        default=2,
        of_workers=True,
    )
    magnetar_offload_orphan_minutes: int = setting(
        Integer(-1),
        "Time after which objects that were found without a ledger, such as those of uploads that "
        "failed, are deleted; -1 means never. The broker looks an hour after its start, and daily.",
        default=10_080,
        unit="min",
    )
    magnetar_offload_give_up_minutes: int = setting(
        Integer(-1),
        "Time after the deletion of a topic for which the deletion of its objects is tried, every "
        "ten minutes, if their place cannot be reached. Then an error in the log names them, and "
        "they stay; -1 means never.",
        default=43_200,
        unit="min",
    )
    managed_ledger_offload_bucket: str | None = setting(
        TEXT,
        "Container of azureblob; for the other drivers the bucket if theirs is blank. As "
        "`name/prefix` it puts a prefix before the names of all objects.",
        default=None,
    )
    managed_ledger_offload_service_endpoint: str | None = setting(
        TEXT,
        "URL of the service, if it is not the provider's own, for the driver of "
        "managedLedgerOffloadDriver; for S3 s3ManagedLedgerOffloadServiceEndpoint takes "
        "precedence. Policies cannot name another one.",
        default=None,
    )
    s3_managed_ledger_offload_bucket: str | None = setting(
        TEXT,
        "Bucket of aws-s3.",
        default=None,
        name="s3ManagedLedgerOffloadBucket",
    )
    s3_managed_ledger_offload_region: str | None = setting(
        TEXT,
        "Region of the bucket of aws-s3; blank means the region of the environment.",
        default=None,
        name="s3ManagedLedgerOffloadRegion",
    )
    s3_managed_ledger_offload_service_endpoint: str | None = setting(
        TEXT,
        "URL of a service that is compatible with S3. Policies cannot name another one.",
        default=None,
        name="s3ManagedLedgerOffloadServiceEndpoint",
    )
    s3_managed_ledger_offload_credential_id: str | None = setting(
        TEXT,
        "Access key of aws-s3; blank means those of the environment, of the files of AWS, "
        "or of the instance.",
        default=None,
        name="s3ManagedLedgerOffloadCredentialId",
        secret=True,
    )
    # promise[without secret=True,]: the secret of the store of objects is not shown
    s3_managed_ledger_offload_credential_secret: str | None = setting(
        TEXT,
        "Secret of that access key.",
        default=None,
        name="s3ManagedLedgerOffloadCredentialSecret",
        secret=True,
    )
    gcs_managed_ledger_offload_bucket: str | None = setting(
        TEXT,
        "Bucket of google-cloud-storage.",
        default=None,
        name="gcsManagedLedgerOffloadBucket",
    )
    gcs_managed_ledger_offload_service_account_key_file: str | None = setting(
        PATH,
        "File with the key of a service account (JSON); blank means those of the "
        "environment or of the instance.",
        default=None,
        name="gcsManagedLedgerOffloadServiceAccountKeyFile",
    )
    file_system_uri: str | None = setting(
        TEXT,
        "Directory of the driver filesystem, as file:///DIRECTORY; policies can name it and "
        "directories below it. It must exist; on another file system than the data directory it "
        "saves space there. Create a directory in that file system and name it, not the mount "
        "point, which also exists while nothing is mounted.",
        default=None,
        name="fileSystemURI",
    )
