"""From entries to Arrow: columns are filled a whole entry at a time, without a row in between."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

import magnetar
from magnetar_proto.ids import MessageId
from magnetar_proto.wire import encode_varint
from pyspark_magnetar.batches import Extras, extras_of, split_batch
from pyspark_magnetar.schema import EVENT_TIME, PROPERTIES, PUBLISH_TIME, SCHEMA

MAX_ROWS = 10_000
MAX_BYTES = 8 * 1024 * 1024
"""A record batch is handed over when it has so many rows, or so many bytes of values."""

MAX_TIME_US = 2**63 - 1
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
        self._values: list[bytes] = []
        self._extras: dict[int, Extras] = {}
        self._topics: list[str] = []
        self._message_ids: list[bytes] = []
        self._publish_times_us = array("q")
        self._partitions = array("i")
        self._ledgers = array("q")
        self._entries = array("q")
        self._batch_indexes = array("i")

    def is_full(self) -> bool:
        return self.rows >= MAX_ROWS or self._value_bytes >= MAX_BYTES

    def add(self, entry: magnetar.Entry) -> None:
        """Append the entry's messages."""
        whole_id = MessageId(entry.ledger, entry.entry, -1, entry.partition)
        head = whole_id.to_pb().SerializeToString()
        if not entry.is_batch:
            extra = extras_of(entry.metadata)
            self._append(entry, [entry.body()], [] if extra is None else [(0, extra)])
            self._message_ids.append(head)
            self._batch_indexes.append(-1)
            return
        values, extras = split_batch(entry)
        indexes: Sequence[int] = range(len(values))
        if any(extra.is_compacted_out for _, extra in extras):
            values, extras, indexes = _without_compacted(values, extras)
        self._append(entry, values, extras)
        self._message_ids += [head + field for field in map(_index_field, indexes)]
        self._batch_indexes.extend(indexes)

    def _append(
        self, entry: magnetar.Entry, values: list[bytes], extras: list[tuple[int, Extras]]
    ) -> None:
        count = len(values)
        for index, extra in extras:
            self._extras[self.rows + index] = extra
        self._values += values
        self._value_bytes += sum(map(len, values))
        self._topics += [entry.topic] * count
        self._publish_times_us.extend(array("q", [_micros(entry.metadata.publish_time)]) * count)
        self._partitions.extend(array("i", [entry.partition]) * count)
        self._ledgers.extend(array("q", [entry.ledger]) * count)
        self._entries.extend(array("q", [entry.entry]) * count)
        self.rows += count

    def to_batch(self) -> pa.RecordBatch:
        """The record batch, with the source's schema."""
        schema = arrow_schema()
        return pa.RecordBatch.from_arrays(
            [
                self._values_array(),
                self._keys_array(),
                pa.array(self._topics, pa.string()),
                _binary(self._message_ids),
                _fixed(schema.field(PUBLISH_TIME).type, self._publish_times_us),
                self._event_times_array(schema.field(EVENT_TIME).type),
                self._properties_array(schema.field(PROPERTIES).type),
                _fixed(pa.int32(), self._partitions),
                _fixed(pa.int64(), self._ledgers),
                _fixed(pa.int64(), self._entries),
                _fixed(pa.int32(), self._batch_indexes),
            ],
            schema=schema,
        )

    def _values_array(self) -> pa.Array:
        nulls = [row for row, extra in self._extras.items() if extra.is_null]
        if not nulls:
            return _binary(self._values)
        values: list[bytes | None] = list(self._values)
        for row in nulls:
            values[row] = None
        return pa.array(values, pa.binary())

    def _keys_array(self) -> pa.Array:
        keys: list[bytes | None] = [None] * self.rows
        for row, extra in self._extras.items():
            keys[row] = extra.key
        return pa.array(keys, pa.binary())

    def _event_times_array(self, kind: pa.DataType) -> pa.Array:
        times_us: list[int | None] = [None] * self.rows
        for row, extra in self._extras.items():
            times_us[row] = _micros(extra.event_time_ms) or None
        return pa.array(times_us, kind)

    def _properties_array(self, kind: pa.DataType) -> pa.Array:
        properties: list[tuple[tuple[str, str], ...]] = [()] * self.rows
        for row, extra in self._extras.items():
            properties[row] = extra.properties
        return pa.array(properties, kind)


def _without_compacted(
    values: list[bytes], extras: list[tuple[int, Extras]]
) -> tuple[list[bytes], list[tuple[int, Extras]], list[int]]:
    """The messages that compaction left, and their indexes in the batch."""
    described = dict(extras)
    removed = {index for index, extra in extras if extra.is_compacted_out}
    indexes = [index for index in range(len(values)) if index not in removed]
    kept = [values[index] for index in indexes]
    moved = [(row, described[index]) for row, index in enumerate(indexes) if index in described]
    return kept, moved, indexes


def _micros(time_ms: int) -> int:
    # The sender chose the time: one that Spark cannot hold must not end the query.
    return min(time_ms * 1000, MAX_TIME_US)


@cache
def _index_field(index: int) -> bytes:
    return BATCH_INDEX_TAG + encode_varint(index)


def _binary(values: list[bytes]) -> pa.Array:
    offsets = array("i", accumulate(map(len, values), initial=0))
    data = pa.py_buffer(b"".join(values))
    return pa.Array.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(offsets), data])


def _fixed(kind: pa.DataType, values: "array[int]") -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
