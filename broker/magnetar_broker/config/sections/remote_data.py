"""Data in a store of objects."""

from magnetar_broker.config.domains import PATH, TEXT
from magnetar_broker.config.sections.section import section, setting
from magnetar_broker.config.values import Integer


@section("Data in a store of objects")
class RemoteData:
    """The stores of data that no machine of the broker has on its own disk."""

    metadata_store_url: str | None = setting(
        TEXT,
        "Store of the metadata, for data in magnetarSegmentStore: `etcd:https://HOST:2379,...` or "
        "`postgres://USER@HOST:5432/DATABASE`. Blank means the data directory.",
        default=None,
        # promise[without secret=True,]: a password in the URL is not shown
        secret=True,
    )
    magnetar_metadata_user: str | None = setting(
        TEXT,
        "User of etcd; that of PostgreSQL is in the URL.",
        default=None,
    )
    magnetar_metadata_credentials_file: str | None = setting(
        PATH,
        "File with the password of the user, read whenever the broker logs in. Otherwise that in "
        "the URL is used, and for PostgreSQL PGPASSWORD or PGPASSFILE.",
        default=None,
    )
    magnetar_metadata_trust_certs_file_path: str | None = setting(
        PATH,
        "Certificates of the authorities that are trusted for the servers of the metadata (PEM); "
        "blank means those of the system.",
        default=None,
    )
    magnetar_metadata_certificate_file_path: str | None = setting(
        PATH,
        "Certificate with which the broker identifies itself to these servers (PEM).",
        default=None,
    )
    magnetar_metadata_key_file_path: str | None = setting(
        PATH,
        "Private key of that certificate (PEM, not encrypted).",
        default=None,
    )
    magnetar_segment_store: str | None = setting(
        TEXT,
        "Store of objects for all messages and cursors, as `s3://BUCKET/PREFIX?endpoint=URL`, "
        "`gs://BUCKET/PREFIX` or `azure://CONTAINER/PREFIX?account=NAME`. Blank means the data "
        "directory.",
        default=None,
    )
    magnetar_lease_seconds: int = setting(
        Integer(5, 300),
        "Time after which a broker that no longer reaches the metadata is replaced by another one "
        "on the same stores. It stops serving before that.",
        default=10,
        unit="s",
    )
    magnetar_wal_linger_ms: int = setting(
        Integer(0, 10_000),
        "Longest time that what is published and acknowledged waits for more, to be stored in one "
        "object: less makes receipts faster, and costs more requests.",
        default=100,
        unit="ms",
    )
    magnetar_wal_object_size_kb: int = setting(
        Integer(64, 65_536),
        "Size from which an object of the write-ahead log is stored without waiting for more.",
        default=4096,
        name="magnetarWalObjectSizeKB",
        unit="KB",
    )
    magnetar_wal_uploads: int = setting(
        Integer(1, 16),
        "Objects of the write-ahead log that are stored at the same time.",
        default=8,
    )
    magnetar_wal_unsettled_size_mb: int = setting(
        Integer(16),
        "Size of what the write-ahead log has and ledgers do not have yet, which is also in "
        "memory; publishing waits at this limit.",
        default=512,
        name="magnetarWalUnsettledSizeMB",
        unit="MB",
    )
