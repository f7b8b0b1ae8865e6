"""The body of a batch: for each message its metadata, followed by its value."""

from collections.abc import Iterator
from struct import Struct
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from magnetar.messages import Outgoing
from magnetar.producing.batching import BatchLimits
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.wire import encode_varint
from pyspark_magnetar.rows.source_schema import VALUE
from pyspark_magnetar.sink.arrow import (
    by_distinct,
    joined,
    lengths,
    lists,
    or_else,
    sized,
    varint_parts,
)
from pyspark_magnetar.sink.columns import DELIVER_AT, EVENT_TIME, KEY, ORDERING_KEY, PROPERTIES

SIZE = Struct(">I")
"""The size field before a message's metadata."""


def _tag(number: int, is_sized: bool) -> bytes:
    return encode_varint(number << 3 | (2 if is_sized else 0))


_ABOUT = pb.SingleMessageMetadata
PROPERTY_TAG = _tag(_ABOUT.PROPERTIES_FIELD_NUMBER, True)
NAME_TAG = _tag(pb.KeyValue.KEY_FIELD_NUMBER, True)
TEXT_TAG = _tag(pb.KeyValue.VALUE_FIELD_NUMBER, True)
KEY_TAG = _tag(_ABOUT.PARTITION_KEY_FIELD_NUMBER, True)
PAYLOAD_SIZE_TAG = _tag(_ABOUT.PAYLOAD_SIZE_FIELD_NUMBER, False)
EVENT_TIME_TAG = _tag(_ABOUT.EVENT_TIME_FIELD_NUMBER, False)
ORDERING_KEY_TAG = _tag(_ABOUT.ORDERING_KEY_FIELD_NUMBER, True)
SEQUENCE_ID_TAG = _tag(_ABOUT.SEQUENCE_ID_FIELD_NUMBER, False)
NULL_VALUE = _tag(_ABOUT.NULL_VALUE_FIELD_NUMBER, False) + b"\x01"


def packed(messages: pa.RecordBatch, ids: pa.Array | None = None) -> pa.Array:
    """Encode each message as a part of a batch body; `ids` are the sequence ids."""
    values = messages.column(VALUE)
    more = _descriptions(messages, ids)
    if values.null_count:
        # A null is an empty value with a flag, which is how it differs from an empty text.
        is_null = pc.is_null(values)
        more.append(pc.if_else(is_null, pa.scalar(NULL_VALUE), pa.scalar(b"")))
        values = or_else(values, b"")
    sizes = pc.binary_length(values)
    if not more:
        # The values differ at most in size, which determines the rest.
        return joined(by_distinct(sizes, _plain_head, pa.binary()), values)
    about = [by_distinct(sizes, _payload_size, pa.binary()), *more]
    return joined(by_distinct(lengths(about), SIZE.pack, pa.binary()), *about, values)


def _payload_size(size: int) -> bytes:
    return PAYLOAD_SIZE_TAG + encode_varint(size)


def _plain_head(size: int) -> bytes:
    about = _payload_size(size)
    return SIZE.pack(len(about)) + about


def _descriptions(messages: pa.RecordBatch, ids: pa.Array | None) -> list[pa.Array]:
    """Return the metadata fields other than the size of the value, in parts to be joined.

    A part is empty where a message does not have the field.
    """
    found: list[pa.Array] = []
    names = messages.schema.names
    if KEY in names:
        found += _keys(messages.column(KEY))
    if ORDERING_KEY in names:
        found += sized(ORDERING_KEY_TAG, messages.column(ORDERING_KEY))
    if EVENT_TIME in names:
        found += _varints(messages.column(EVENT_TIME), EVENT_TIME_TAG)
    if PROPERTIES in names:
        found.append(_properties(messages.column(PROPERTIES)))
    if ids is not None:
        found += _varints(ids, SEQUENCE_ID_TAG)
    return [or_else(part, b"") for part in found]


def _varints(numbers: pa.Array, tag: bytes) -> list[pa.Array]:
    first, *others = varint_parts(numbers)
    return [joined(tag, first), *others]


def _keys(column: pa.Array) -> list[pa.Array]:
    if not pa.types.is_binary(column.type):
        return sized(KEY_TAG, column)
    # The protocol's keys are text: bytes are written in base64, with a flag.
    return [by_distinct(column, _bytes_key, pa.binary())]


def _bytes_key(key: bytes) -> bytes:
    # The required payload size is written apart, since it differs between messages of one key.
    about = pb.SingleMessageMetadata(payload_size=0)
    Outgoing(b"", key=key).describe(about)
    about.ClearField("payload_size")
    return about.SerializePartialToString()


def _properties(column: pa.Array) -> pa.Array:
    if column.items.null_count:
        raise ValueError(f"column {PROPERTIES!r}: a property without value cannot be sent")
    pairs = [*sized(NAME_TAG, column.keys), *sized(TEXT_TAG, column.items)]
    return lists(column, joined(*sized(PROPERTY_TAG, *pairs)))


def cuts(parts: pa.Array, borders: list[int], limits: BatchLimits) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows that each become one entry; no range extends across a border.

    Each depends only on the rows from its start on, so that a repetition yields the same ranges.
    """
    ends = offsets_of(parts)
    start, count = 0, len(parts)
    for border in (*borders, count):
        while start < border:
            end = min(start + limits.max_messages, border)
            most = ends[start] + limits.max_bytes
            if ends[end] > most:  # at least one row, even if that alone is larger than the limit
                end = max(_last_within(ends, start, end, most), start + 1)
            yield start, end
            start = end


def _last_within(ends: memoryview, start: int, end: int, most: int) -> int:
    while end - start > 1:
        middle = (start + end) // 2
        start, end = (middle, end) if ends[middle] <= most else (start, middle)
    return start


def offsets_of(parts: pa.Array) -> memoryview:
    """Return the offset of each part in `data_of`, followed by the end of the last part."""
    # Arrow's own offsets, without a copy; a slice of an array begins at its offset in the buffer.
    view = memoryview(parts.buffers()[1]).cast("i")
    return view[parts.offset : parts.offset + len(parts) + 1]


def data_of(parts: pa.Array) -> memoryview:
    """Return the concatenated parts."""
    return memoryview(parts.buffers()[2] or b"")


def outgoing(messages: pa.RecordBatch, row: int, sequence_id: int | None = None) -> Outgoing:
    """Return one message, to be sent as an entry of its own."""
    about: dict[str, Any] = {
        name: messages.column(name)[row].as_py() for name in messages.schema.names
    }
    return Outgoing(
        about[VALUE] or b"",
        key=about.get(KEY),
        ordering_key=ordering_key_of(about.get(ORDERING_KEY)),
        properties=dict(about.get(PROPERTIES) or ()),
        event_time_ms=about.get(EVENT_TIME) or 0,
        deliver_at_ms=about.get(DELIVER_AT) or 0,
        sequence_id=sequence_id,
        is_null=about[VALUE] is None,
    )


def ordering_key_of(given: bytes | str | None) -> bytes | None:
    """Return the ordering key as bytes."""
    return given.encode() if isinstance(given, str) else given
