"""The columns of a record batch: each is built from all of its entries at once.

`COLUMNS` has them by name, in the order of the schema.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property, lru_cache
from itertools import chain, groupby, repeat
from struct import Struct
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.ids import ChunkedMessageId, MessageId
from magnetar_proto.wire import encode_varint
from pyspark_magnetar.rows.decoding import Decoded

MAX_TIME_US: Final = 2**63 - 1
MAX_INT64: Final = 2**63 - 1
MAX_INT32: Final = 2**31 - 1
ENTRY_TAG: Final = b"\x10"
"""The tag of MessageIdData.entryId, which follows the ledger."""
BATCH_INDEX_TAG: Final = b"\x20"
"""The tag of MessageIdData.batch_index, which follows ledger, entry and partition."""
INT32: Final = Struct("=i").pack
INT64: Final = Struct("=q").pack


class Gathered:
    """The entries of a record batch: at least one, each with at least one message."""

    def __init__(self, entries: Sequence[Decoded]) -> None:
        self.entries = entries
        self.counts = [decoded.rows for decoded in entries]
        """The number of messages in each entry."""
        self.rows = sum(self.counts)

    @cached_property
    def indexes(self) -> "array[int]":
        """The batch index of every message; -1 for messages that are entries by themselves."""
        found = array("i")
        for decoded in self.entries:
            indexes = decoded.indexes
            if isinstance(indexes, range):
                found.extend(_counted(_power(indexes.stop))[indexes.start : indexes.stop])
            else:
                found.extend(indexes)
        return found


Column = Callable[[Gathered, pa.DataType], pa.Array]
"""Builds one column from all messages."""


def _values(gathered: Gathered, kind: pa.DataType) -> pa.Array:
    """Build the column of values, as bytes."""
    parts: list[bytes | pa.Buffer] = []
    lengths = array("i", [0])
    # promise[decoded.cut -> decoded.cut and gathered.entries[0].cut]: batches are
    #   cut by their own strides
    for cut, entries in groupby(gathered.entries, lambda decoded: decoded.cut):
        if cut is None:
            values = [value for decoded in entries for value in decoded.values]
            parts.append(b"".join(values))
            lengths.extend(map(len, values))
        else:
            data, count = _cut([decoded.body for decoded in entries], *cut)
            parts.append(data)
            lengths.extend(array("i", [cut[1] - cut[0]]) * count)
    data = parts[0] if len(parts) == 1 else b"".join(map(memoryview, parts))
    nulls = _nulls_of(gathered)
    validity = _validity(gathered.rows, nulls) if nulls else None
    buffers = [validity, _offsets(lengths), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, gathered.rows, buffers, len(nulls))


def _cut(bodies: list[bytes], start: int, stride: int) -> tuple[bytes | pa.Buffer, int]:
    """Return the bytes after `start` in every stride of the bodies, and the number of strides."""
    body = b"".join(bodies)
    count = len(body) // stride
    if start == stride:
        return b"", count
    # The bodies as one array of fixed-size values, without a copy: Arrow cuts all of them at once.
    whole = pa.Array.from_buffers(pa.binary(stride), count, [None, pa.py_buffer(body)])
    return pc.binary_slice(whole, start, stride).buffers()[1], count


def _nulls_of(gathered: Gathered) -> set[int]:
    """Return the rows without a value."""
    found: set[int] = set()
    row = 0
    for decoded, count in zip(gathered.entries, gathered.counts, strict=True):
        found.update(row + place for place in decoded.nulls)
        row += count
    return found


def _number(pack: Callable[[int], bytes], of: Callable[[Decoded], int]) -> Column:
    """Return a column of a number that all messages of an entry share."""

    def column(gathered: Gathered, kind: pa.DataType) -> pa.Array:
        numbers = map(of, gathered.entries)
        # The packed number repeated is Arrow's layout of such a column: no object for each row.
        data = b"".join(
            [pack(one) * count for one, count in zip(numbers, gathered.counts, strict=True)]
        )
        return pa.Array.from_buffers(kind, gathered.rows, [None, pa.py_buffer(data)])

    return column


def _shared(of: Callable[[Decoded], Any]) -> Column:
    """Return a column of text or bytes that messages of an entry, and of most entries, share."""

    def column(gathered: Gathered, kind: pa.DataType) -> pa.Array:
        found = [of(decoded) for decoded in gathered.entries]
        if found.count(found[0]) == len(found):  # usual: the array of an earlier batch is reused
            return _repeated(found[0], kind, gathered.rows)
        return pa.array(list(chain.from_iterable(map(repeat, found, gathered.counts))), kind)

    return column


def _dense(of: Callable[[Decoded], Sequence[Any]]) -> Column:
    """Return a column that only some messages have a value for."""

    def column(gathered: Gathered, kind: pa.DataType) -> pa.Array:
        found = [of(decoded) for decoded in gathered.entries]
        if not any(found):
            return _repeated(None, kind, gathered.rows)
        values: list[Any] = []
        for own, count in zip(found, gathered.counts, strict=True):
            values.extend(own or repeat(None, count))
        return pa.array(values, kind)

    return column


def _sparse(of: Callable[[Decoded], dict[int, Any]], default: Any) -> Column:
    """Return a column whose values few messages have."""

    def column(gathered: Gathered, kind: pa.DataType) -> pa.Array:
        found = [of(decoded) for decoded in gathered.entries]
        if not any(found):
            return _repeated(default, kind, gathered.rows)
        values = [default] * gathered.rows
        row = 0
        for own, count in zip(found, gathered.counts, strict=True):
            for place, value in own.items():
                values[row + place] = value
            row += count
        return pa.array(values, kind)

    return column


def _message_ids(gathered: Gathered, kind: pa.DataType) -> pa.Array:
    """Build the column of serialized MessageIdData."""
    parts: list[bytes] = []
    lengths = array("i", [0])
    for decoded in gathered.entries:
        entry, indexes = decoded.entry, decoded.indexes
        if entry.chunks:  # such an id names the first chunk as well, for a seek to the message
            where = entry.ledger, entry.entry, entry.partition
            parts.append(ChunkedMessageId(*where, entry.chunks[0]).to_pb().SerializeToString())
            lengths.append(len(parts[-1]))
            continue
        before, behind = _around_entry(entry.ledger, entry.partition)
        head = before + encode_varint(entry.entry) + behind
        if isinstance(indexes, range):
            # The head precedes each of the fields, as a separator does.
            fields = _index_fields(_power(indexes.stop))
            parts += (head, head.join(fields[indexes.start : indexes.stop]))
            lengths.extend(_id_lengths(indexes, len(head)))
        else:
            ids = [head if at < 0 else head + _index_field(at) for at in indexes]
            parts += ids
            lengths.extend(map(len, ids))
    buffers = [None, _offsets(lengths), pa.py_buffer(b"".join(parts))]
    return pa.Array.from_buffers(kind, gathered.rows, buffers)


@lru_cache(maxsize=64)
def _around_entry(ledger: int, partition: int) -> tuple[bytes, bytes]:
    """Return the encoded MessageIdData before the entry's number, and after it."""
    # Fields are encoded in the order of their numbers, so the entry's comes after the ledger's.
    without = MessageId(ledger, 0, -1, partition).to_pb()
    without.ClearField("entryId")
    before = pb.MessageIdData(ledgerId=without.ledgerId).SerializePartialToString()
    return before + ENTRY_TAG, without.SerializePartialToString().removeprefix(before)


@lru_cache(maxsize=64)
def _id_lengths(indexes: range, head: int) -> "array[int]":
    """Return the sizes of the encoded ids of a batch whose head has `head` bytes."""
    return array("i", (head + len(_index_field(index)) for index in indexes))


def _batch_indexes(gathered: Gathered, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, gathered.rows, [None, pa.py_buffer(gathered.indexes)])


def _sequence_ids(gathered: Gathered, kind: pa.DataType) -> pa.Array:
    """Build the column of sequence ids; missing ones are counted from the batch's."""
    if all(map(_is_counted, gathered.entries)):
        return pc.add(_first_ids(gathered, kind), _batch_indexes(gathered, pa.int32()))
    return pa.array(list(_each_sequence_id(gathered)), kind)


def _is_counted(decoded: Decoded) -> bool:
    """Tell whether each sequence id is the batch's plus the index, and fits 64 bits."""
    first: int = decoded.entry.metadata.sequence_id
    return isinstance(decoded.indexes, range) and not decoded.sequence_ids and first < MAX_INT32


_first_ids: Final = _number(INT64, lambda decoded: decoded.entry.metadata.sequence_id)


def _each_sequence_id(gathered: Gathered) -> Iterable[int]:
    for decoded in gathered.entries:
        first: int = decoded.entry.metadata.sequence_id
        own: Sequence[int] = decoded.sequence_ids or [-1] * decoded.rows
        for number, index in zip(own, decoded.indexes, strict=True):
            # The producer's numbers may be anything up to 64 bits; Spark's long is signed.
            yield min(first + max(index, 0) if number < 0 else number, MAX_INT64)


def micros(time_ms: int) -> int:
    """Convert to microseconds; a time chosen by the sender that is too late is capped."""
    return min(time_ms * 1000, MAX_TIME_US)


def _event_times_us(decoded: Decoded) -> Sequence[int | None]:
    return [micros(time_ms) or None for time_ms in decoded.event_times_ms]


COLUMNS: Final[dict[str, Column]] = {
    "value": _values,
    "__key": _dense(lambda decoded: decoded.keys),
    "__topic": _shared(lambda decoded: decoded.entry.topic),
    "__messageId": _message_ids,
    "__publishTime": _number(INT64, lambda decoded: micros(decoded.entry.metadata.publish_time)),
    "__eventTime": _dense(_event_times_us),
    "__messageProperties": _sparse(lambda decoded: decoded.properties, ()),
    "__partition": _number(INT32, lambda decoded: decoded.entry.partition),
    "__ledger": _number(INT64, lambda decoded: decoded.entry.ledger),
    "__entry": _number(INT64, lambda decoded: decoded.entry.entry),
    "__batchIndex": _batch_indexes,
    "__producer": _shared(lambda decoded: decoded.entry.metadata.producer_name),
    "__sequenceId": _sequence_ids,
    "__orderingKey": _sparse(lambda decoded: decoded.ordering_keys, None),
    "__redeliveryCount": _number(INT32, lambda decoded: decoded.entry.redelivery_count),
    "__schemaVersion": _shared(lambda decoded: decoded.entry.metadata.schema_version or None),
}


def _repeated(value: Any, kind: pa.DataType, rows: int) -> pa.Array:
    """Return an array of one value `rows` times; recent arrays are cached."""
    return _repeated_often(value, kind, _power(rows))[:rows]


@lru_cache(maxsize=16)
def _repeated_often(value: Any, kind: pa.DataType, rows: int) -> pa.Array:
    return pa.array([value] * rows, kind)


def _power(count: int) -> int:
    """Return the next power of two, so that only few different sizes are cached."""
    return 1 << max(count - 1, 0).bit_length()


def _offsets(lengths: "array[int]") -> pa.Buffer:
    """Return the offset of each value; `lengths` has a 0 before the first."""
    whole = pa.Array.from_buffers(pa.int32(), len(lengths), [None, pa.py_buffer(lengths)])
    return pc.cumulative_sum(whole).buffers()[1]


def _validity(rows: int, nulls: set[int]) -> pa.Buffer:
    return pa.array([row not in nulls for row in range(rows)], pa.bool_()).buffers()[1]


@lru_cache(maxsize=4)
def _index_fields(count: int) -> tuple[bytes, ...]:
    return tuple(BATCH_INDEX_TAG + encode_varint(index) for index in range(count))


@lru_cache(maxsize=4)
def _counted(count: int) -> "array[int]":
    return array("i", range(count))


@cache
def _index_field(index: int) -> bytes:
    return BATCH_INDEX_TAG + encode_varint(index)
