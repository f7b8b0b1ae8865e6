"""Whether an entry can be stored: its checksum, size, and encryption."""

from typing import NamedTuple

from crc32c import crc32c

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import (
    CHECKED_FROM,
    CHECKED_HEAD,
    CHECKED_MAGIC,
    COPY_LIMIT,
    METADATA_AT,
    parse_metadata,
    verify_checksum,
)
from magnetar_proto.errors import BadMetadata


class Refusal(NamedTuple):
    """The SEND_ERROR of one message; its producer stays open."""

    code: "pb.ServerError"
    text: str


DAMAGED = Refusal(
    pb.ChecksumError, "the checksum does not match the message, which was damaged: send it again"
)
PLAINTEXT = Refusal(
    pb.MetadataError, "this topic accepts encrypted messages only: have the producer encrypt them"
)
UNSUPPORTED = Refusal(
    pb.NotAllowedError,
    "messages in transactions, with a message id, or with a marker are not supported: "
    "send messages without them",
)


def refusal_of_entry(entry: bytes, must_encrypt: bool = False, largest: int = 0) -> Refusal | None:
    """Why an entry cannot be stored, None if it can; `largest` bytes are allowed, 0: any number.

    `BadMetadata` if it is not an entry at all: the connection is to be closed.
    """
    if 0 < largest < len(entry):
        return Refusal(
            pb.NotAllowedError,
            f"the message has {len(entry)} bytes with its metadata, which exceeds this topic's "
            f"maxMessageSize of {largest}: send it in chunks, or raise the limit",
        )
    if len(entry) < CHECKED_HEAD.size:
        raise BadMetadata("a message without metadata")
    magic, checksum, size = CHECKED_HEAD.unpack_from(entry)
    if magic != CHECKED_MAGIC or must_encrypt:
        return _refusal_of_unusual(entry, must_encrypt)
    small = len(entry) < COPY_LIMIT  # then a copy is cheaper than a view
    if crc32c(entry[CHECKED_FROM:] if small else memoryview(entry)[CHECKED_FROM:]) != checksum:
        return DAMAGED
    metadata_end = METADATA_AT + size
    if not METADATA_AT < metadata_end <= len(entry):
        raise BadMetadata("a message without metadata")
    return None


def _refusal_of_unusual(entry: bytes, must_encrypt: bool) -> Refusal | None:
    """`refusal_of_entry` of entries whose metadata has to be parsed."""
    if not verify_checksum(entry, 0, len(entry)):
        return DAMAGED
    metadata, _ = parse_metadata(entry)
    if must_encrypt and not metadata.encryption_keys:
        return PLAINTEXT
    return None
