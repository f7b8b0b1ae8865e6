"""The key by which Key_Shared subscriptions choose a consumer, read from an entry's metadata."""

import re
from base64 import b64decode
from binascii import Error as Base64Error
from typing import Final

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import METADATA_AT, message_start, parse_metadata, text_bytes
from magnetar_proto.errors import BadMetadata

NO_KEY: Final = b"NONE_KEY"
"""The key of an entry whose metadata cannot be read."""

# The beginning of nearly all entries with a key: checksum, size of the metadata below 65536, name
# of the producer, sequence id, publish time, and the size of the key.
_NAMES: Final = b"|".join(re.escape(bytes((size,))) + b".{%d}" % size for size in range(128))
_UP_TO_KEY: Final = re.compile(
    rb"\x0e\x01.{4}\0\0..\x0a(?:" + _NAMES + rb")"
    rb"\x10[\x80-\xff]{0,9}[\0-\x7f]\x18[\x80-\xff]{0,9}[\0-\x7f]\x32[\0-\x7f]",
    re.DOTALL,
)
# Tags of the fields that replace the key, or change how it is decoded.
_ORDERING_KEY: Final = b"\x92\x01"
_BASE64: Final = b"\x88\x01"


def sticky_key(entry: bytes) -> bytes:
    """Return the ordering key; else the key, decoded from base64; else producer and sequence id.

    The metadata of a batch have the key of its first message.
    """
    found, start = _UP_TO_KEY.match(entry), 0
    if found is None:
        start = message_start(entry)
        found = _UP_TO_KEY.match(entry, start) if start else None
    if found is not None:
        at, sized = found.end(), start + METADATA_AT
        stop, end = at + entry[at - 1], sized + (entry[sized - 2] << 8 | entry[sized - 1])
        if stop == end <= len(entry) or (
            stop < end <= len(entry)
            and entry.find(_ORDERING_KEY, stop, end) < 0
            and entry.find(_BASE64, stop, end) < 0
        ):
            return entry[at:stop]
    return _parsed_key(entry)


def _parsed_key(entry: bytes) -> bytes:
    try:
        metadata, _ = parse_metadata(entry)
    except BadMetadata:
        return NO_KEY
    if metadata.HasField("ordering_key"):
        return metadata.ordering_key
    if metadata.HasField("partition_key"):
        return _key_bytes(metadata)
    return b"%s-%d" % (text_bytes(metadata, "producer_name"), metadata.sequence_id)


def _key_bytes(metadata: pb.MessageMetadata) -> bytes:
    key = text_bytes(metadata, "partition_key")
    if not metadata.partition_key_b64_encoded:
        return key
    try:
        return b64decode(key, validate=True)
    except Base64Error:
        return NO_KEY
