"""An entry as an HTTP response: the payload as the body, and the metadata as headers.

A batch is shown as a whole, uncompressed; clients divide it.  An encrypted payload is shown as
stored.
"""

import json
from base64 import b64encode
from collections.abc import Iterator

from magnetar_broker.base.formats import iso
from magnetar_broker.server.admin.operations.reading import MAX_ENTRY_BYTES
from magnetar_broker.server.http.messages import Refused, Response
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.broker_metadata import broker_metadata_of
from magnetar_proto.compression import decompress
from magnetar_proto.entries import parse_metadata
from magnetar_proto.errors import BadCompression, BadMetadata

Headers = Iterator[tuple[str, str]]

AS_TEXT = {
    "X-Pulsar-producer-name": "producer_name",
    "X-Pulsar-sequence-id": "sequence_id",
    "X-Pulsar-replicated-from": "replicated_from",
    "X-Pulsar-partition-key": "partition_key",
    "X-Pulsar-uncompressed-size": "uncompressed_size",
    "X-Pulsar-encryption-algo": "encryption_algo",
    "X-Pulsar-partition-key-b64-encoded": "partition_key_b64_encoded",
    "X-Pulsar-marker-type": "marker_type",
    "X-Pulsar-txnid-least-bits": "txnid_least_bits",
    "X-Pulsar-txnid-most-bits": "txnid_most_bits",
    "X-Pulsar-highest-sequence-id": "highest_sequence_id",
    "X-Pulsar-uuid": "uuid",
    "X-Pulsar-num-chunks-from-msg": "num_chunks_from_msg",
    "X-Pulsar-total-chunk-msg-size": "total_chunk_msg_size",
    "X-Pulsar-chunk-id": "chunk_id",
    "X-Pulsar-null-partition-key": "null_partition_key",
    "X-Pulsar-null-value": "null_value",
    "X-Pulsar-num-batch-message": "num_messages_in_batch",
    "X-Pulsar-PROPERTY-TOTAL-CHUNKS": "num_chunks_from_msg",
    "X-Pulsar-PROPERTY-CHUNK-ID": "chunk_id",
}
"""The fields of the metadata that are shown as they are, if they are set."""
AS_TIMES = {
    "X-Pulsar-publish-time": "publish_time",
    "X-Pulsar-event-time": "event_time",
    "X-Pulsar-deliver-at-time": "deliver_at_time",
}
AS_BASE64 = {
    "X-Pulsar-Base64-encryption-param": "encryption_param",
    "X-Pulsar-Base64-schema-version": "schema_version",
    "X-Pulsar-Base64-ordering-key": "ordering_key",
}


def shown(ledger: int, entry: int, stored: bytes) -> Response:
    """Return an entry as a response; 412 if the entry cannot be decoded."""
    try:
        metadata, at = parse_metadata(stored)
        body = stored[at:]
        if not metadata.encryption_keys:  # promise[always]: an encrypted payload is shown as it is
            kind, size = metadata.compression, metadata.uncompressed_size
            body = decompress(kind, body, size, MAX_ENTRY_BYTES)
    except (BadMetadata, BadCompression) as error:
        raise Refused(
            412,
            f"message {ledger}:{entry} cannot be shown: {error}; read it with a client, or skip it",
        ) from error
    lines = [
        ("X-Pulsar-Message-ID", f"{ledger}:{entry}"),
        *_added_headers(stored),
        *headers_of(metadata, len(stored)),
    ]
    return Response(body, "application/json", lines=lines)


def _added_headers(stored: bytes) -> Headers:
    """Yield the headers for what the broker has added to an entry."""
    added = broker_metadata_of(stored)
    if added is not None and added.HasField("broker_timestamp"):
        yield "X-Pulsar-Broker-Entry-METADATA-timestamp", iso(added.broker_timestamp)
    if added is not None and added.HasField("index"):
        yield "X-Pulsar-Broker-Entry-METADATA-index", str(added.index)


def headers_of(metadata: pb.MessageMetadata, size: int) -> Headers:
    """Yield the headers for an entry of `size` bytes."""
    properties = {text_of(pair.key): text_of(pair.value) for pair in metadata.properties}
    yield "X-Pulsar-PROPERTY", json.dumps(properties)
    yield "X-Pulsar-Is-Encrypted", _written(bool(metadata.encryption_keys))
    for name, field in AS_TEXT.items():
        if metadata.HasField(field):
            yield name, _written(getattr(metadata, field))
    for name, field in AS_TIMES.items():
        if metadata.HasField(field):
            yield name, iso(getattr(metadata, field))
    for name, field in AS_BASE64.items():
        if metadata.HasField(field):
            yield name, b64encode(getattr(metadata, field)).decode()
    if metadata.HasField("num_messages_in_batch"):
        # Pulsar's figure: everything of the stored entry but the metadata.
        yield "X-Pulsar-batch-size", str(size - metadata.ByteSize())
    if metadata.HasField("compression"):
        yield "X-Pulsar-compression", pb.CompressionType.Name(metadata.compression)
    for cluster in metadata.replicate_to:
        yield "X-Pulsar-replicated-to", text_of(cluster)
    for key in metadata.encryption_keys:
        yield "X-Pulsar-Base64-encryption-keys", b64encode(key.SerializeToString()).decode()
    if metadata.HasField("txnid_most_bits"):
        yield "X-Pulsar-txn-aborted", "false"
    yield "X-Pulsar-txn-uncommitted", "false"


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else text_of(value)


def text_of(value: object) -> str:
    """Return a text of a producer; it need not be UTF-8, and is bytes for the parser then."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
