"""Checks whether an entry can be stored: its checksum, size, and encryption."""

from typing import Final, NamedTuple

from crc32c import crc32c

from magnetar_broker.base.transaction_ids import TxnId
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import (
    BROKER_MAGIC,
    CHECKED_FROM,
    CHECKED_HEAD,
    CHECKED_MAGIC,
    COPY_LIMIT,
    METADATA_AT,
    parse_metadata,
    verify_checksum,
)
from magnetar_proto.errors import BadMetadata
from magnetar_proto.transactions import may_have_transaction

UNCHECKED: Final = TxnId(-1, -1)
"""An id that no transaction has."""


class Refusal(NamedTuple):
    """The SEND_ERROR for one message, after which the producer stays open."""

    code: "pb.ServerError"
    text: str
    for_good: bool = True
    """Whether the message can never be accepted, by whichever producer of this name."""


DAMAGED = Refusal(
    pb.ChecksumError,
    "the checksum does not match the message, which was damaged: send it again",
    for_good=False,
)
PLAINTEXT = Refusal(
    pb.MetadataError, "this topic accepts encrypted messages only: have the producer encrypt them"
)
FOREIGN_METADATA = Refusal(
    pb.NotAllowedError,
    "the message begins with broker entry metadata, which brokers add: send it without",
)
UNSUPPORTED = Refusal(
    pb.NotAllowedError,
    "messages with a message id or a marker are not supported: send messages without them",
)
PRETENDED = Refusal(
    pb.NotAllowedError,
    "the message's metadata names a transaction or a marker, and the SEND none or another: "
    "publish it with the transaction of a client",
)


def refusal_of_entry(
    entry: bytes, must_encrypt: bool = False, largest: int = 0, txn: TxnId | None = UNCHECKED
) -> Refusal | None:
    """Return why an entry cannot be stored; None if it can.

    The entry may have `largest` bytes, 0 for any number.  `txn` is the transaction that the SEND
    names, or None: the metadata may name no other one.  Without the argument it may name any: on a
    topic without transactions that has no effect.

    Raises `BadMetadata` if the bytes are not an entry at all: the caller closes the connection.
    """
    # First, since it needs no look into the entry.
    if 0 < largest < len(entry):
        return Refusal(
            pb.NotAllowedError,
            f"the message has {len(entry)} bytes with its metadata, which exceeds this topic's "
            f"maxMessageSize of {largest}: send it in chunks, or raise the limit",
        )
    if len(entry) < CHECKED_HEAD.size:
        raise BadMetadata("a message without metadata")
    magic, _, _ = CHECKED_HEAD.unpack_from(entry)
    # Parsing is needed only for what the first bytes do not tell.
    unusual = magic != CHECKED_MAGIC or must_encrypt
    refused = _refusal_of_unusual(entry, must_encrypt) if unusual else _refusal_of_checked(entry)
    if refused is not None:
        return refused
    # promise: metadata cannot pretend to be in a transaction
    if txn is not UNCHECKED and not _may_be_in(entry, txn):
        return PRETENDED
    return None


def _may_be_in(entry: bytes, txn: TxnId | None) -> bool:
    """Return whether the metadata of an entry names this transaction, or none."""
    # A search for the bytes of the tags: without them there is nothing to parse.
    if not may_have_transaction(entry):
        return True
    metadata, _ = parse_metadata(entry)
    has = metadata.HasField
    if has("marker_type"):
        return False
    if not has("txnid_least_bits") and not has("txnid_most_bits"):
        return True
    named = TxnId(metadata.txnid_most_bits, metadata.txnid_least_bits)
    # Both halves, since a missing one is read as 0, which may be the id of another.
    return named == txn and has("txnid_least_bits") and has("txnid_most_bits")


def _refusal_of_checked(entry: bytes) -> Refusal | None:
    """Check an entry that begins with a checksum, the usual case, for `refusal_of_entry`."""
    _, checksum, size = CHECKED_HEAD.unpack_from(entry)
    small = len(entry) < COPY_LIMIT  # then a copy is cheaper than a view
    if crc32c(entry[CHECKED_FROM:] if small else memoryview(entry)[CHECKED_FROM:]) != checksum:
        return DAMAGED
    metadata_end = METADATA_AT + size
    # The checksum was right: a client wrote it so, and goes on to do so.
    if not METADATA_AT < metadata_end <= len(entry):
        raise BadMetadata("a message without metadata")
    return None


def _refusal_of_unusual(entry: bytes, must_encrypt: bool) -> Refusal | None:
    """Check an entry whose metadata has to be parsed, for `refusal_of_entry`."""
    # promise: producers cannot set the index and the time of the broker
    if entry.startswith(BROKER_MAGIC):
        return FOREIGN_METADATA
    if not verify_checksum(entry, 0, len(entry)):
        return DAMAGED
    metadata, _ = parse_metadata(entry)
    if must_encrypt and not metadata.encryption_keys:
        return PLAINTEXT
    return None
