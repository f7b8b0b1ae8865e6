"""Takes batches apart without an object for each message.

Most messages of a batch are described by the same few bytes, so these are decoded once.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from struct import error as StructError

from google.protobuf.message import DecodeError

from magnetar.messages import Entry, decoded_key
from magnetar_proto import PulsarApi_pb2 as pb

SIZE = Struct(">I")
"""The size of the metadata, before it."""


@dataclass(frozen=True, slots=True)
class Extras:
    """What a message has beyond its value."""

    key: bytes | None
    event_time_ms: int
    properties: tuple[tuple[str, str], ...]
    is_null: bool
    is_compacted_out: bool


def split_batch(entry: Entry) -> tuple[list[bytes], list[tuple[int, Extras]]]:
    """The values of a batch, and the extras of those messages that have any; Unreadable."""
    body = entry.body()
    values: list[bytes] = []
    extras: list[tuple[int, Extras]] = []
    size_at = SIZE.unpack_from
    pos = 0
    try:
        for index in range(entry.metadata.num_messages_in_batch):
            start = pos + 4 + size_at(body, pos)[0]
            size, extra = _describe(body[pos + 4 : start])
            pos = start + size
            values.append(body[start:pos])
            if extra is not None:
                extras.append((index, extra))
    except (StructError, DecodeError) as error:
        raise entry.unreadable(f"is not a batch: {error}") from error
    if pos != len(body):
        raise entry.unreadable(f"is not a batch: it ends at byte {pos} of {len(body)}")
    return values, extras


def extras_of(about: pb.SingleMessageMetadata | pb.MessageMetadata) -> Extras | None:
    """The extras in the metadata; None if there are none."""
    compacted = isinstance(about, pb.SingleMessageMetadata) and about.compacted_out
    key = decoded_key(about)
    found = Extras(
        key.encode() if isinstance(key, str) else key,
        about.event_time,
        _pairs(about.properties),
        about.null_value,
        compacted,
    )
    return None if found == _NO_EXTRAS else found


@lru_cache(maxsize=10_000)
def _describe(metadata: bytes) -> tuple[int, Extras | None]:
    about = pb.SingleMessageMetadata.FromString(metadata)
    if about.payload_size < 0:
        raise DecodeError(f"a payload of {about.payload_size} bytes")
    return about.payload_size, extras_of(about)


def _pairs(properties: Iterable[pb.KeyValue]) -> tuple[tuple[str, str], ...]:
    return tuple({pair.key: pair.value for pair in properties}.items())


_NO_EXTRAS = Extras(None, 0, (), False, False)
