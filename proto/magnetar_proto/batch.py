"""Batch bodies, after decompression and decryption: one message behind the other.

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


def encode_batch(messages: Sequence[tuple[pb.SingleMessageMetadata, bytes]]) -> bytes:
    """The body of a batch; sets payload_size in each of the given metadata."""
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
    """The `count` messages that make up `body` exactly; BadBatch otherwise."""
    return list(each_of_batch(body, count))


def each_of_batch(body: bytes, count: int) -> Iterator[tuple[pb.SingleMessageMetadata, bytes]]:
    """As `decode_batch`, one by one; BadBatch comes when the damage is reached."""
    if not 0 <= count <= len(body) // SMALLEST_MESSAGE:
        raise BadBatch(f"{count} messages cannot lie in {len(body)} bytes")
    pos = 0
    for index in range(count):
        metadata, start = _decode_metadata(body, pos, index)
        pos = start + metadata.payload_size
        if metadata.payload_size < 0 or pos > len(body):
            raise BadBatch(f"message {index} ends at byte {pos} of {len(body)}")
        yield metadata, body[start:pos]
    if pos != len(body):
        raise BadBatch(f"{len(body) - pos} bytes behind the last of {count} messages")


def _decode_metadata(body: bytes, pos: int, index: int) -> tuple[pb.SingleMessageMetadata, int]:
    """The metadata at `pos` and the position of its payload."""
    start = pos + SIZE.size
    if start > len(body):
        raise BadBatch(f"message {index} is missing")
    end = start + SIZE.unpack_from(body, pos)[0]
    if end > len(body):
        raise BadBatch(f"metadata of message {index} ends at byte {end} of {len(body)}")
    try:
        metadata = pb.SingleMessageMetadata.FromString(body[start:end])
    except DecodeError as error:
        raise BadBatch(f"unreadable metadata of message {index}") from error
    if not metadata.HasField("payload_size"):
        raise BadBatch(f"message {index} has no payload size")
    if not metadata.IsInitialized():
        raise BadBatch(f"message {index} has a property without key or value")
    return metadata, end
