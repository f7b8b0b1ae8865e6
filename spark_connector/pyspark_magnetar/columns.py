"""The columns of a record batch: each is filled an entry at a time.

A class fills the columns of one kind.  `COLUMNS` has them by name, in the order of the schema.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from itertools import repeat
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from magnetar_proto.ids import MessageId
from magnetar_proto.wire import encode_varint
from pyspark_magnetar.decoding import Decoded

MAX_TIME_US: Final = 2**63 - 1
MAX_INT64: Final = 2**63 - 1
MAX_INT32: Final = 2**31 - 1
BATCH_INDEX_TAG: Final = b"\x20"
"""MessageIdData.batch_index; it follows ledger, entry and partition."""
VARINT_SIZES: Final = (
    (0, 1 << 7, 1),
    (1 << 7, 1 << 14, 2),
    (1 << 14, 1 << 21, 3),
    (1 << 21, 1 << 28, 4),
)
"""The batch indexes whose encoding has so many bytes."""


class Column(Protocol):
    """One column under construction."""

    def add(self, decoded: Decoded) -> None:
        """Append the messages of an entry."""

    def array(self, kind: pa.DataType) -> pa.Array:
        """All of them, as this type."""


class Values:
    """The values, as bytes."""

    def __init__(self) -> None:
        self._parts: list[bytes | pa.Buffer] = []
        self._lengths = array("i", [0])
        self._nulls: list[int] = []

    def add(self, decoded: Decoded) -> None:
        for place in decoded.nulls:
            self._nulls.append(len(self._lengths) - 1 + place)
        self._parts.append(decoded.data)
        if decoded.length >= 0:
            self._lengths.extend(array("i", [decoded.length]) * decoded.rows)
        else:
            self._lengths.extend(map(len, decoded.values))

    def array(self, kind: pa.DataType) -> pa.Array:
        data = self._parts[0] if len(self._parts) == 1 else b"".join(map(memoryview, self._parts))
        rows = len(self._lengths) - 1
        validity = _validity(rows, self._nulls) if self._nulls else None
        buffers = [validity, _offsets(self._lengths), pa.py_buffer(data)]
        return pa.Array.from_buffers(kind, rows, buffers, len(self._nulls))


class Numbers:
    """A number that all messages of an entry share."""

    def __init__(self, code: str, of: Callable[[Decoded], int]) -> None:
        self._numbers = array(code)
        self._code = code
        self._of = of

    def add(self, decoded: Decoded) -> None:
        self._numbers.extend(array(self._code, [self._of(decoded)]) * decoded.rows)

    def array(self, kind: pa.DataType) -> pa.Array:
        return pa.Array.from_buffers(kind, len(self._numbers), [None, pa.py_buffer(self._numbers)])


class Shared:
    """A text or bytes that all messages of an entry share."""

    def __init__(self, of: Callable[[Decoded], Any]) -> None:
        self._of = of
        self._runs: list[tuple[Any, int]] = []

    def add(self, decoded: Decoded) -> None:
        value = self._of(decoded)
        if self._runs and self._runs[-1][0] == value:
            self._runs[-1] = value, self._runs[-1][1] + decoded.rows
        else:
            self._runs.append((value, decoded.rows))

    def array(self, kind: pa.DataType) -> pa.Array:
        if len(self._runs) == 1:
            value, rows = self._runs[0]
            return _repeated(value, kind, 1 << max(rows - 1, 0).bit_length())[:rows]
        values: list[Any] = []
        for value, rows in self._runs:
            values.extend(repeat(value, rows))
        return pa.array(values, kind)


class Each:
    """A number that every message has."""

    def __init__(self, code: str, of: Callable[[Decoded], Iterable[int]]) -> None:
        self._numbers = array(code)
        self._of = of

    def add(self, decoded: Decoded) -> None:
        self._numbers.extend(self._of(decoded))

    def array(self, kind: pa.DataType) -> pa.Array:
        return pa.Array.from_buffers(kind, len(self._numbers), [None, pa.py_buffer(self._numbers)])


class MessageIds:
    """Serialized MessageIdData."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._lengths = array("i", [0])

    def add(self, decoded: Decoded) -> None:
        entry = decoded.entry
        head = MessageId(entry.ledger, entry.entry, -1, entry.partition).to_pb()
        encoded = head.SerializeToString()
        indexes = decoded.indexes
        if not isinstance(indexes, range):
            ids = [encoded if at < 0 else encoded + _index_field(at) for at in indexes]
            self._parts += ids
            self._lengths.extend(map(len, ids))
        elif indexes:
            # The head precedes each of the fields, as a separator does.
            fields = _index_fields(1 << (indexes.stop - 1).bit_length())
            self._parts.append(encoded.join([b"", *fields[indexes.start : indexes.stop]]))
            for low, high, size in VARINT_SIZES:
                count = min(indexes.stop, high) - max(indexes.start, low)
                if count > 0:
                    self._lengths.extend(array("i", [len(encoded) + 1 + size]) * count)

    def array(self, kind: pa.DataType) -> pa.Array:
        buffers = [None, _offsets(self._lengths), pa.py_buffer(b"".join(self._parts))]
        return pa.Array.from_buffers(kind, len(self._lengths) - 1, buffers)


class Dense:
    """What some messages have and others do not; nothing is stored while none has it."""

    def __init__(self, of: Callable[[Decoded], Sequence[Any]]) -> None:
        self._of = of
        self._rows = 0
        self._values: list[Any] = []

    def add(self, decoded: Decoded) -> None:
        values = self._of(decoded)
        if values:
            if len(self._values) < self._rows:
                self._values.extend(repeat(None, self._rows - len(self._values)))
            self._values.extend(values)
        self._rows += decoded.rows

    def array(self, kind: pa.DataType) -> pa.Array:
        if not self._values:
            return _nulls(kind, self._rows)
        if len(self._values) < self._rows:
            self._values.extend(repeat(None, self._rows - len(self._values)))
        return pa.array(self._values, kind)


class Sparse:
    """What few messages have."""

    def __init__(self, of: Callable[[Decoded], dict[int, Any]], default: Any) -> None:
        self._of = of
        self._default = default
        self._rows = 0
        self._found: dict[int, Any] = {}

    def add(self, decoded: Decoded) -> None:
        found = self._of(decoded)
        if found:
            self._found.update({self._rows + place: value for place, value in found.items()})
        self._rows += decoded.rows

    def array(self, kind: pa.DataType) -> pa.Array:
        if not self._found:
            return _repeated(self._default, kind, 1 << max(self._rows - 1, 0).bit_length())[
                : self._rows
            ]
        values = [self._default] * self._rows
        for row, value in self._found.items():
            values[row] = value
        return pa.array(values, kind)


def micros(time_ms: int) -> int:
    """In microseconds; the sender chose the time, and one that is too late ends no query."""
    return min(time_ms * 1000, MAX_TIME_US)


def _event_times_us(decoded: Decoded) -> Sequence[int | None]:
    return [micros(time_ms) or None for time_ms in decoded.event_times_ms]


def _indexes(decoded: Decoded) -> Iterable[int]:
    indexes = decoded.indexes
    if isinstance(indexes, range) and indexes.start == 0 and indexes:
        return _counted(1 << (indexes.stop - 1).bit_length())[: indexes.stop]
    return indexes


def _sequence_ids(decoded: Decoded) -> Iterable[int]:
    """As the client has them: messages without one of their own are counted from the batch's."""
    first: int = decoded.entry.metadata.sequence_id
    indexes = decoded.indexes
    if not decoded.sequence_ids and isinstance(indexes, range) and first < MAX_INT32:
        return range(first + indexes.start, first + indexes.stop)
    own: Sequence[int] = decoded.sequence_ids or [-1] * decoded.rows
    return [
        min(first + max(index, 0) if number < 0 else number, MAX_INT64)
        for number, index in zip(own, indexes, strict=True)
    ]


def _schema_version(decoded: Decoded) -> bytes | None:
    return decoded.entry.metadata.schema_version or None


COLUMNS: Final[dict[str, Callable[[], Column]]] = {
    "value": Values,
    "__key": lambda: Dense(lambda decoded: decoded.keys),
    "__topic": lambda: Shared(lambda decoded: decoded.entry.topic),
    "__messageId": MessageIds,
    "__publishTime": lambda: Numbers(
        "q", lambda decoded: micros(decoded.entry.metadata.publish_time)
    ),
    "__eventTime": lambda: Dense(_event_times_us),
    "__messageProperties": lambda: Sparse(lambda decoded: decoded.properties, ()),
    "__partition": lambda: Numbers("i", lambda decoded: decoded.entry.partition),
    "__ledger": lambda: Numbers("q", lambda decoded: decoded.entry.ledger),
    "__entry": lambda: Numbers("q", lambda decoded: decoded.entry.entry),
    "__batchIndex": lambda: Each("i", _indexes),
    "__producer": lambda: Shared(lambda decoded: decoded.entry.metadata.producer_name),
    "__sequenceId": lambda: Each("q", _sequence_ids),
    "__orderingKey": lambda: Sparse(lambda decoded: decoded.ordering_keys, None),
    "__redeliveryCount": lambda: Numbers("i", lambda decoded: decoded.entry.redelivery_count),
    "__schemaVersion": lambda: Shared(_schema_version),
}


@lru_cache(maxsize=16)
def _repeated(value: Any, kind: pa.DataType, rows: int) -> pa.Array:
    return pa.array([value] * rows, kind)


@lru_cache(maxsize=16)
def _nulls(kind: pa.DataType, rows: int) -> pa.Array:
    return pa.nulls(rows, kind)


def _offsets(lengths: "array[int]") -> pa.Buffer:
    """Where each value begins; `lengths` has a 0 before the first."""
    whole = pa.Array.from_buffers(pa.int32(), len(lengths), [None, pa.py_buffer(lengths)])
    return pc.cumulative_sum(whole).buffers()[1]


def _validity(rows: int, nulls: list[int]) -> pa.Buffer:
    absent = set(nulls)
    return pa.array([row not in absent for row in range(rows)], pa.bool_()).buffers()[1]


@lru_cache(maxsize=4)
def _index_fields(count: int) -> tuple[bytes, ...]:
    return tuple(BATCH_INDEX_TAG + encode_varint(index) for index in range(count))


@lru_cache(maxsize=4)
def _counted(count: int) -> "array[int]":
    return array("i", range(count))


@cache
def _index_field(index: int) -> bytes:
    return BATCH_INDEX_TAG + encode_varint(index)
