"""Entries: the bytes after a SEND or MESSAGE command, stored and delivered verbatim.

    [u16 0x0e02 | u32 size | BrokerEntryMetadata]     added by a broker, rarely
    [u16 0x0e01 | u32 crc32c]                         covers all that follows
    u32 metadataSize | MessageMetadata | payload      payload: a message, or a batch

All sizes are big-endian.
"""

import re
from collections.abc import Sequence
from struct import Struct
from struct import error as StructError
from typing import Final

from crc32c import crc32c
from google.protobuf.message import DecodeError, EncodeError

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.errors import BadMetadata, LocalError

CHECKSUM_MAGIC: Final = b"\x0e\x01"
BROKER_MAGIC: Final = b"\x0e\x02"
SIZE: Final = Struct(">I")
CHECKED_HEAD: Final = Struct(">HII")
"""Magic, checksum and metadata size: the beginning of nearly all entries."""
CHECKED_MAGIC: Final = 0x0E01
"""The number that CHECKED_HEAD reads for CHECKSUM_MAGIC."""
# The offsets in such an entry of the metadata, and of the bytes that the checksum covers.
METADATA_AT: Final = 10
CHECKED_FROM: Final = 6
DELIVER_AT_TAG: Final = b"\x98\x01"
"""Field 19 of the metadata, deliver_at_time: rare, so its bytes are searched before parsing."""
_DELAYED: Final = re.compile(
    rb"\x10[\x80-\xff]{0,9}[\0-\x7f]\x18[\x80-\xff]{0,9}[\0-\x7f]\x98\x01([\x80-\xff]{5}[\x01-\x7f])"
)
"""The usual fields after the producer: sequence id, publish time, delivery time in this century."""
_MORE: Final = sum(128 << 7 * byte for byte in range(5))
"""The continuation bits of such a varint."""
# Above this many bytes a view is cheaper than a copy.
COPY_LIMIT: Final = 4096


def encode_entry(metadata: pb.MessageMetadata, payload: bytes, checksum: bool = True) -> bytes:
    """Encode the entry of a message or batch; LocalError if required metadata is missing."""
    try:
        encoded = metadata.SerializeToString()
    except EncodeError as error:
        raise LocalError(str(error)) from error
    if checksum:
        return encode_head(encoded, payload) + payload
    return SIZE.pack(len(encoded)) + encoded + payload


def encode_head(metadata: bytes, payload: bytes) -> bytes:
    """Encode the bytes before `payload` in a checksummed entry, from encoded metadata."""
    sized = SIZE.pack(len(metadata)) + metadata
    return CHECKSUM_MAGIC + SIZE.pack(crc32c(payload, crc32c(sized))) + sized


def verify_checksum(buf: bytes, start: int, end: int) -> bool:
    """Return whether the checksum of the entry buf[start:end] matches, or is absent."""
    if buf[start : start + 2] == BROKER_MAGIC:
        start = _skip_broker_metadata(buf, start, end)
    if buf[start : min(start + 2, end)] != CHECKSUM_MAGIC:
        return True
    covered = start + CHECKED_FROM
    # The magic at the very end: the entry was cut short.
    if covered > end:
        return False
    expected: int = SIZE.unpack_from(buf, start + 2)[0]
    if end - covered < COPY_LIMIT:
        return crc32c(buf[covered:end]) == expected
    return crc32c(memoryview(buf)[covered:end]) == expected


def parse_metadata(entry: bytes) -> tuple[pb.MessageMetadata, int]:
    """Return the message metadata and the offset of the payload; BadMetadata otherwise.

    The checksum is not verified.
    """
    start = message_start(entry)
    if entry.startswith(CHECKSUM_MAGIC, start):
        start += CHECKED_FROM
    try:
        start, end = start + 4, start + 4 + SIZE.unpack_from(entry, start)[0]
        metadata = pb.MessageMetadata.FromString(entry[start:end])
    except (StructError, DecodeError) as error:
        raise BadMetadata(f"unreadable message metadata: {error}") from error
    # A slice does not fail at the end of the bytes, so that the parser saw less than it should.
    if end > len(entry):
        raise BadMetadata(f"metadata up to byte {end} in an entry of {len(entry)}")
    if not metadata.IsInitialized():
        raise BadMetadata("message metadata without producer name, sequence id or publish time")
    return metadata, end


def message_start(entry: bytes) -> int:
    """Return the offset of the producer's bytes in an entry: after the broker's metadata."""
    return _skip_broker_metadata(entry, 0, len(entry)) if entry.startswith(BROKER_MAGIC) else 0


def metadata_range(entry: bytes) -> tuple[int, int]:
    """Return the start and the end of an entry's metadata, to be searched before it is parsed.

    The whole entry if it has no checksum, as nearly all entries have.
    """
    start = message_start(entry)
    at = start + METADATA_AT
    if len(entry) < at or not entry.startswith(CHECKSUM_MAGIC, start):
        return start, len(entry)
    # No parsing for what most entries do not have: only these bytes are searched.
    size: int = SIZE.unpack_from(entry, start + CHECKED_FROM)[0]
    return at, at + size


def text_bytes(metadata: pb.MessageMetadata, name: str) -> bytes:
    """Return a text field as bytes: if it is not UTF-8, the parser returns bytes."""
    value: object = getattr(metadata, name)
    return value if isinstance(value, bytes) else str(value).encode()


def publish_time(entry: bytes) -> int:
    """Return the publish time in milliseconds since the epoch; BadMetadata if unreadable."""
    return parse_metadata(entry)[0].publish_time


def deliver_at_ms(entry: bytes) -> int | None:
    """Return the delivery time in milliseconds since the epoch that the producer set; None if none.

    BadMetadata if the metadata seems to have such a time and cannot be read.  Nearly all entries
    without one are recognized without being parsed.
    """
    stop = len(entry)
    if stop > METADATA_AT + 2:
        magic, _, size = CHECKED_HEAD.unpack_from(entry)
        if magic == CHECKED_MAGIC:
            stop = METADATA_AT + size
            # It begins with a producer's name of less than 128 bytes, as usual: then the fields
            # after it are where the expression looks.
            if entry[METADATA_AT] == 0x0A and entry[METADATA_AT + 1] < 128:
                found = _DELAYED.match(entry, METADATA_AT + 2 + entry[METADATA_AT + 1], stop)
                if found is not None and (
                    found.end() == stop or entry.find(DELIVER_AT_TAG, found.end(), stop) < 0
                ):
                    # The expression has found a varint of six bytes: its value, without the bits
                    # that say that more follows.
                    a, b, c, d, e, f = found[1]
                    return a + (b << 7) + (c << 14) + (d << 21) + (e << 28) + (f << 35) - _MORE
        else:
            _, stop = metadata_range(entry)
    if entry.find(DELIVER_AT_TAG, 0, stop) < 0:
        return None
    # The tag's bytes may also occur within a name or a property: the parser knows.
    metadata, _ = parse_metadata(entry)
    return metadata.deliver_at_time if metadata.deliver_at_time > 0 else None


def deliver_times_ms(entries: Sequence[bytes]) -> list[int]:
    """Return the delivery times, like `deliver_at_ms`; 0 if an entry has none or is unreadable."""
    times: list[int] = []
    for entry in entries:
        try:
            times.append(deliver_at_ms(entry) or 0)
        except BadMetadata:
            times.append(0)
    return times


def _skip_broker_metadata(buf: bytes, start: int, end: int) -> int:
    """Return the offset after the broker entry metadata at `start`; `end` if it is cut short."""
    if start + 6 > end:
        return end
    size: int = SIZE.unpack_from(buf, start + 2)[0]
    return min(start + 6 + size, end)
