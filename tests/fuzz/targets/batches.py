"""Bodies of batches: the declared number of messages that fill the body exactly, or a refusal.

Input: how many messages are declared, then the body.
"""

from collections.abc import Iterator
from typing import Final

from google.protobuf.message import DecodeError

from fuzz import traffic
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.batch import decode_batch, encode_batch
from magnetar_proto.compression import decompress
from magnetar_proto.entries import parse_metadata
from magnetar_proto.errors import BadBatch

LONGEST: Final = 2048

Messages = list[tuple[pb.SingleMessageMetadata, bytes]]


def run(data: bytes) -> None:
    count, body = signed(data[:1]), data[1:]
    expected = plain(body, count)
    try:
        messages = decode_batch(body, count)
    except BadBatch:
        assert expected is None, "a good batch is refused"
        return
    assert expected == messages, "not the messages of the batch"
    assert decode_batch(encode_batch(messages), count) == messages


def signed(byte: bytes) -> int:
    return int.from_bytes(byte, signed=True)


def plain(body: bytes, count: int) -> Messages | None:
    """The messages, if so many fill the body."""
    messages: Messages = []
    while body:
        size = int.from_bytes(body[:4], "big")
        if len(body) < 4 + size:
            return None
        try:
            metadata = pb.SingleMessageMetadata.FromString(body[4 : 4 + size])
        except DecodeError:
            return None
        end = 4 + size + metadata.payload_size
        if not metadata.IsInitialized() or metadata.payload_size < 0 or end > len(body):
            return None
        messages.append((metadata, body[4 + size : end]))
        body = body[end:]
    return messages if len(messages) == count else None


def seeds() -> Iterator[bytes]:
    for entry in traffic.entries():
        metadata, at = parse_metadata(entry)
        count = metadata.num_messages_in_batch
        size = metadata.uncompressed_size
        yield bytes([count]) + decompress(metadata.compression, entry[at:], size, 1 << 20)
    yield b"\x00"
    yield b"\x01" + encode_batch([(pb.SingleMessageMetadata(null_value=True), b"")])
