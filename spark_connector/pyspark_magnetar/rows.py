"""From entries to Arrow: columns are filled a whole entry at a time, without a row in between."""

from array import array
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import accumulate
from typing import cast

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

import magnetar
from magnetar_proto.ids import MessageId
from magnetar_proto.wire import encode_varint
from pyspark_magnetar.schema import SCHEMA

MAX_ROWS = 10_000
MAX_BYTES = 8 * 1024 * 1024
"""A record batch is handed over when it has so many rows, or so many bytes of values."""

BATCH_INDEX_TAG = b"\x20"
"""MessageIdData.batch_index; it follows ledger, entry and partition."""


@cache
def arrow_schema() -> pa.Schema:
    """Spark compares with exactly this."""
    return to_arrow_schema(SCHEMA, timezone="UTC")


def record_batches(lists: Iterable[list[magnetar.Entry]]) -> Iterator[pa.RecordBatch]:
    """The messages of all entries, in order; Unreadable if one cannot be decoded."""
    columns = Columns()
    for entries in lists:
        for entry in entries:
            columns.add(entry)
            if columns.is_full():
                yield columns.to_batch()
                columns = Columns()
    if columns.rows:
        yield columns.to_batch()


class Columns:
    """The columns of a record batch under construction."""

    def __init__(self) -> None:
        self.rows = 0
        self._value_bytes = 0
        self._values: list[bytes | None] = []
        self._keys: list[bytes | None] = []
        self._topics: list[tuple[str, int]] = []
        self._message_ids: list[bytes] = []
        self._publish_times_us = array("q")
        self._event_times_us: list[int | None] = []
        self._properties: list[dict[str, str]] = []
        self._partitions = array("i")
        self._ledgers = array("q")
        self._entries = array("q")
        self._batch_indexes = array("i")

    def is_full(self) -> bool:
        return self.rows >= MAX_ROWS or self._value_bytes >= MAX_BYTES

    def add(self, entry: magnetar.Entry) -> None:
        """Append the entry's messages."""
        messages = entry.messages()
        count = len(messages)
        for message in messages:
            self._values.append(None if message.is_null else message.value)
            self._value_bytes += len(message.value)
            self._keys.append(_key_bytes(message.key))
            self._event_times_us.append(message.event_time_ms * 1000 or None)
            self._properties.append(message.properties)
        self._topics.append((entry.topic, count))
        head = MessageId(entry.ledger, entry.entry, -1, entry.partition).to_pb().SerializeToString()
        if entry.is_batch:
            indexes = [message.batch_index for message in messages]
            self._message_ids += [head + _index_field(index) for index in indexes]
            self._batch_indexes.extend(indexes)
        else:
            self._message_ids += [head] * count
            self._batch_indexes.extend([-1] * count)
        self._publish_times_us.extend(array("q", [entry.metadata.publish_time * 1000]) * count)
        self._partitions.extend(array("i", [entry.partition]) * count)
        self._ledgers.extend(array("q", [entry.ledger]) * count)
        self._entries.extend(array("q", [entry.entry]) * count)
        self.rows += count

    def to_batch(self) -> pa.RecordBatch:
        """The record batch, with the source's schema."""
        schema = arrow_schema()
        return pa.RecordBatch.from_arrays(
            [
                _binary(self._values),
                _binary(self._keys),
                pa.array([topic for topic, count in self._topics for _ in range(count)]),
                _binary(self._message_ids),
                _fixed(schema.field("__publishTime").type, self._publish_times_us),
                pa.array(self._event_times_us, schema.field("__eventTime").type),
                _properties_array(schema.field("__messageProperties").type, self._properties),
                _fixed(pa.int32(), self._partitions),
                _fixed(pa.int64(), self._ledgers),
                _fixed(pa.int64(), self._entries),
                _fixed(pa.int32(), self._batch_indexes),
            ],
            schema=schema,
        )


def _key_bytes(key: str | bytes | None) -> bytes | None:
    return key.encode() if isinstance(key, str) else key


@cache
def _index_field(index: int) -> bytes:
    return BATCH_INDEX_TAG + encode_varint(index)


def _binary(values: list[bytes] | list[bytes | None]) -> pa.Array:
    if None in values:
        return pa.array(values, pa.binary())
    present = cast("list[bytes]", values)
    offsets = array("i", accumulate(map(len, present), initial=0))
    data = pa.py_buffer(b"".join(present))
    return pa.Array.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(offsets), data])


def _fixed(kind: pa.DataType, values: "array[int]") -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _properties_array(kind: pa.DataType, rows: list[dict[str, str]]) -> pa.Array:
    if any(rows):
        return pa.array([list(properties.items()) for properties in rows], kind)
    offsets = pa.array(array("i", bytes(4 * (len(rows) + 1))), pa.int32())
    return pa.MapArray.from_arrays(offsets, pa.array([], pa.string()), pa.array([], pa.string()))
