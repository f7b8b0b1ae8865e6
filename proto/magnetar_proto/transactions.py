"""Transactions in stored entries: the transaction of an entry, and markers that end transactions.

marker   a MessageMetadata with a marker type, the producer `PRODUCER`, the transaction, and no
         payload
"""

import re
from typing import Final, NamedTuple

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import (
    encode_entry,
    metadata_range,
    parse_metadata,
)
from magnetar_proto.errors import BadMetadata

COMMIT_MARKER: Final = 21
ABORT_MARKER: Final = 22
PRODUCER: Final = "pulsar.txn.marker"

TAGS: Final = re.compile(rb"[\xa0\xb0\xb8]\x01")
"""Fields 20 (marker type), 22 and 23 (transaction) of the metadata: rare, so their bytes are
searched before parsing."""


class Membership(NamedTuple):
    """The transaction of an entry, and the type of marker that the entry is; 0 for a message."""

    most: int
    least: int
    marker: int


def membership_of(entry: bytes) -> Membership | None:
    """Return the transaction of an entry; None if it has none, or its metadata is unreadable.

    Nearly all entries without a transaction are recognized without being parsed.
    """
    if not may_have_transaction(entry):
        return None
    try:
        metadata, _ = parse_metadata(entry)
    except BadMetadata:
        return None
    has = metadata.HasField
    if not has("txnid_least_bits") or not has("txnid_most_bits"):
        return None
    return Membership(metadata.txnid_most_bits, metadata.txnid_least_bits, metadata.marker_type)


def may_have_transaction(entry: bytes) -> bool:
    """Return whether the metadata of an entry may have a transaction or a marker type."""
    return TAGS.search(entry, *metadata_range(entry)) is not None


def with_transaction(entry: bytes, most: int, least: int) -> bytes:
    """Return the entry with this transaction in its metadata; unchanged if it already names one.

    Some clients, Go's among them, name the transaction of a message in the SEND alone.
    """
    if membership_of(entry) is not None:
        return entry
    metadata, start = parse_metadata(entry)
    metadata.txnid_most_bits, metadata.txnid_least_bits = most, least
    return encode_entry(metadata, entry[start:])


def encode_marker(most: int, least: int, marker: int, publish_time_ms: int) -> bytes:
    """Encode the entry that ends a transaction: `COMMIT_MARKER` or `ABORT_MARKER`."""
    metadata = pb.MessageMetadata(
        producer_name=PRODUCER,
        sequence_id=0,
        publish_time=publish_time_ms,
        marker_type=marker,
        txnid_least_bits=least,
        txnid_most_bits=most,
    )
    return encode_entry(metadata, b"")
