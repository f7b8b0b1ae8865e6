"""Broker entry metadata: the index and the time that a broker adds to an entry that it stores.

    0x0e02 | u32 size | BrokerEntryMetadata     before the entry as its producer sent it

The index is that of the entry's last message.
"""

from collections.abc import Sequence
from typing import Final

from google.protobuf.message import DecodeError

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import BROKER_MAGIC, SIZE, message_start, publish_time
from magnetar_proto.wire import encode_varint

TIME_TAG: Final = b"\x08"
INDEX_TAG: Final = b"\x10"


def encode_broker_metadata(time_ms: int, indexes: Sequence[int]) -> list[bytes]:
    """Return the bytes to put before each entry: its broker metadata with `time_ms` and its index.

    A `time_ms` of 0 is left out, as are negative indexes.
    """
    time = TIME_TAG + encode_varint(time_ms) if time_ms else b""
    encoded: list[bytes] = []
    for index in indexes:
        fields = time + INDEX_TAG + encode_varint(index) if index >= 0 else time
        encoded.append(BROKER_MAGIC + SIZE.pack(len(fields)) + fields)
    return encoded


def broker_metadata_of(entry: bytes) -> pb.BrokerEntryMetadata | None:
    """Return the metadata that a broker added to an entry; None if it is absent or unreadable."""
    start = message_start(entry)
    if not start:
        return None
    try:
        return pb.BrokerEntryMetadata.FromString(entry[len(BROKER_MAGIC) + SIZE.size : start])
    except DecodeError:
        return None


def without_broker_metadata(entry: bytes) -> bytes:
    """Return the entry as its producer sent it; a copy only if a broker added anything."""
    return entry[message_start(entry) :] if entry.startswith(BROKER_MAGIC) else entry


def stored_time(entry: bytes) -> int:
    """Return the time at which a broker stored the entry; without it, the entry's publish time.

    Both are in milliseconds since the epoch.  BadMetadata if the publish time is unreadable.
    """
    added = broker_metadata_of(entry)
    if added is not None and added.HasField("broker_timestamp"):
        return added.broker_timestamp
    return publish_time(entry)
