"""The rules of settings that put the data into stores which no machine of the broker has itself."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from magnetar_broker.config.domains import Durability

if TYPE_CHECKING:
    from magnetar_broker.config.settings import Settings

SCHEMES: Final = ("etcd:", "postgres://", "postgresql://")
"""The beginnings of URLs of metadata stores that this broker can use."""


def has_remote_metadata(settings: "Settings") -> bool:
    """Return whether the settings name a store of metadata that this broker can use."""
    return (settings.metadata_store_url or "").startswith(SCHEMES)


def contradictory_remote_data(settings: "Settings") -> Iterator[tuple[str, str, str]]:
    """Yield settings that cannot be used with data in a store of objects, with value and reason."""
    url, place = settings.metadata_store_url or "", settings.magnetar_segment_store or ""
    if not place:
        if has_remote_metadata(settings):
            why = "messages need a store as well: set magnetarSegmentStore, or leave both blank"
            yield "metadataStoreUrl", url, why
        return
    if place.startswith("file:"):
        why = "a directory does not keep the conditions of writes: name a bucket (s3://, gs://, azure://)"
        yield "magnetarSegmentStore", place, why
    if not has_remote_metadata(settings):
        why = (
            "names are not kept in a store of objects: set metadataStoreUrl to "
            "etcd:https://HOST:2379 or postgres://USER@HOST:5432/DATABASE"
        )
        yield "magnetarSegmentStore", place, why
    certificate = settings.magnetar_metadata_certificate_file_path
    if (certificate is None) != (settings.magnetar_metadata_key_file_path is None):
        missing, given = ("Certificate", "Key") if certificate is None else ("Key", "Certificate")
        why = f"magnetarMetadata{given}FilePath needs it: set both or none of them"
        yield f"magnetarMetadata{missing}FilePath", "", why
    if settings.magnetar_workers != 1:
        why = "data in a store of objects (magnetarSegmentStore) is served by one process: set 1"
        yield "magnetarWorkers", str(settings.magnetar_workers), why
    if settings.managed_ledger_offload_driver:
        why = "ledgers are in a store of objects already (magnetarSegmentStore): leave it blank"
        yield "managedLedgerOffloadDriver", str(settings.managed_ledger_offload_driver), why
    # promise: receipts for messages that are not stored are not given silently
    if settings.durability is not Durability.FSYNC:
        why = "with magnetarSegmentStore every receipt means that the message is stored: set fsync"
        yield "magnetarDurability", str(settings.durability), why


def doubtful_remote_data(settings: "Settings") -> Iterator[str]:
    """Yield the warning about a store of metadata that this broker cannot use."""
    url = settings.metadata_store_url
    if url and not has_remote_metadata(settings):
        # Only the scheme: the rest may contain a password.
        yield (
            f"metadataStoreUrl={url.partition(':')[0]}:... is not built yet: this broker is on its "
            "own, with its metadata in magnetarDataDirectory"
        )
