"""Entries of messages with keys, alone and in batches, and how to read them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.batch import decode_batch, encode_batch
from magnetar_proto.compression import compress, decompress
from magnetar_proto.entries import encode_entry, parse_metadata


class Message(NamedTuple):
    """A message of a producer; an empty value deletes the key."""

    key: str | None
    value: bytes


def single_entry(key: str | None, value: bytes, **more: Any) -> bytes:
    """Return the entry of one message."""
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **more)
    if key is not None:
        metadata.partition_key = key
    return encode_entry(metadata, value)


def batch_entry(messages: Sequence[Message], kind: int = pb.NONE) -> bytes:
    """Return the entry of a batch."""
    singles = []
    for message in messages:
        single = pb.SingleMessageMetadata(payload_size=0)
        if message.key is not None:
            single.partition_key = message.key
        singles.append((single, message.value))
    body = encode_batch(singles)
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=1, compression=pb.CompressionType.Name(kind),
        num_messages_in_batch=len(messages), uncompressed_size=len(body),
    )  # fmt: skip
    return encode_entry(metadata, compress(kind, body))


def messages_in(entry: bytes) -> list[Message | None]:
    """Return the messages of an entry; None for those that were compacted out."""
    metadata, at = parse_metadata(entry)
    if not metadata.HasField("num_messages_in_batch"):
        key = metadata.partition_key if metadata.HasField("partition_key") else None
        return [Message(key, entry[at:])]
    body = decompress(metadata.compression, entry[at:], metadata.uncompressed_size, 1 << 30)
    return [
        None
        if single.compacted_out
        else Message(single.partition_key if single.HasField("partition_key") else None, value)
        for single, value in decode_batch(body, metadata.num_messages_in_batch)
    ]
