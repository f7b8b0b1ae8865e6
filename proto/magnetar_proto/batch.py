"""Batch bodies, after decompression and decryption: one message after the other.

u32 size | SingleMessageMetadata | payload (payload_size bytes)      sizes are big-endian
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final

from google.protobuf.message import DecodeError, EncodeError

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.errors import BadBatch, LocalError

SIZE: Final = Struct(">I")
# A size and the required payload_size, which takes two bytes.
SMALLEST_MESSAGE: Final = SIZE.size + 2


MAX_KNOWN: Final = 64
"""The most different metadata of a batch that are kept for reuse."""


def encode_batch(messages: Sequence[tuple[pb.SingleMessageMetadata, bytes]]) -> bytes:
    """Encode the body of a batch; sets payload_size in each of the given metadata."""
    parts: list[bytes] = []
    for metadata, payload in messages:
        metadata.payload_size = len(payload)
        try:
            encoded = metadata.SerializeToString()
        except EncodeError as error:
            raise LocalError(str(error)) from error
        parts += (SIZE.pack(len(encoded)), encoded, payload)
    return b"".join(parts)


def decode_batch(body: bytes, count: int) -> list[tuple[pb.SingleMessageMetadata, bytes]]:
    """Decode a body of exactly `count` messages; BadBatch otherwise.

    Messages with the same metadata may share the object.
    """
    return list(each_of_batch(body, count))


def each_of_batch(body: bytes, count: int) -> Iterator[tuple[pb.SingleMessageMetadata, bytes]]:
    """Yield the messages of a batch one by one; BadBatch is raised when the damage is reached."""
    if not 0 <= count <= len(body) // SMALLEST_MESSAGE:
        raise BadBatch(f"{count} messages cannot lie in {len(body)} bytes")
    pos, total = 0, len(body)
    # Messages of one size without key and properties have the same metadata, and parsing it would
    # be most of the work.
    known: dict[bytes, pb.SingleMessageMetadata] = {}
    for index in range(count):
        start = pos + SIZE.size
        if start > total:
            raise BadBatch(f"message {index} is missing")
        end = start + SIZE.unpack_from(body, pos)[0]
        if end > total:
            raise BadBatch(f"metadata of message {index} ends at byte {end} of {total}")
        encoded = body[start:end]
        metadata = known.get(encoded)
        if metadata is None:
            metadata = _decode_metadata(encoded, index)
            if len(known) < MAX_KNOWN:
                known[encoded] = metadata
        pos = end + metadata.payload_size
        if pos > total:
            raise BadBatch(f"message {index} ends at byte {pos} of {total}")
        yield metadata, body[end:pos]
    if pos != total:
        raise BadBatch(f"{total - pos} bytes after the last of {count} messages")


def _decode_metadata(encoded: bytes, index: int) -> pb.SingleMessageMetadata:
    try:
        metadata = pb.SingleMessageMetadata.FromString(encoded)
    except DecodeError as error:
        raise BadBatch(f"unreadable metadata of message {index}") from error
    if not metadata.HasField("payload_size"):
        raise BadBatch(f"message {index} has no payload size")
    if metadata.payload_size < 0:
        raise BadBatch(f"message {index} has {metadata.payload_size} bytes")
    if not metadata.IsInitialized():
        raise BadBatch(f"message {index} has a property without key or value")
    return metadata
