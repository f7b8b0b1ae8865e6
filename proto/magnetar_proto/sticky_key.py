"""The key by which Key_Shared subscriptions choose a consumer, read from an entry's metadata."""

import re
from base64 import b64decode
from binascii import Error as Base64Error
from typing import Final

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import CHECKED_HEAD, CHECKED_MAGIC, METADATA_AT, parse_metadata
from magnetar_proto.errors import BadMetadata

NO_KEY: Final = b"NONE_KEY"
"""What an entry has whose metadata cannot be read."""

# What nearly every metadata with a key looks like, behind the producer's name: sequence id,
# publish time, and the size of the key.
_BEFORE_KEY: Final = re.compile(
    rb"\x10[\x80-\xff]{0,9}[\0-\x7f]\x18[\x80-\xff]{0,9}[\0-\x7f]\x32([\0-\x7f])"
)
# What says that another field than the key, or another reading of it, counts.
_ORDERING_KEY: Final = b"\x92\x01"
_BASE64: Final = b"\x88\x01"


def sticky_key(entry: bytes) -> bytes:
    """The ordering key; else the key, decoded if it is in base64; else producer and sequence id.

    A batch goes by what its metadata says, which is the key of its first message.
    """
    if len(entry) > METADATA_AT + 2:
        magic, _, size = CHECKED_HEAD.unpack_from(entry)
        if magic == CHECKED_MAGIC and entry[METADATA_AT] == 0x0A and entry[METADATA_AT + 1] < 128:
            end = METADATA_AT + size
            found = _BEFORE_KEY.match(entry, METADATA_AT + 2 + entry[METADATA_AT + 1], end)
            if found is not None:
                at = found.end()
                stop = at + entry[at - 1]
                if (
                    entry.find(_ORDERING_KEY, stop, end) < 0
                    and entry.find(_BASE64, stop, end) < 0
                    and stop <= end <= len(entry)
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
    return f"{metadata.producer_name}-{metadata.sequence_id}".encode()


def _key_bytes(metadata: pb.MessageMetadata) -> bytes:
    key = metadata.partition_key
    if not metadata.partition_key_b64_encoded:
        return key.encode()
    try:
        return b64decode(key, validate=True)
    except Base64Error:
        return NO_KEY
