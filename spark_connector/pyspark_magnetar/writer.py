"""The sink: every row becomes a message, and a task is done when the broker stored all of its."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

import magnetar
from pyspark_magnetar.bridge import bridge_to
from pyspark_magnetar.schema import EVENT_TIME, KEY, PROPERTIES, VALUE
from pyspark_magnetar.write_options import WriteOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass
class Written(WriterCommitMessage):
    """What one task wrote."""

    topic: str
    messages: int


class _Writer:
    """At least once: a task that is run again sends its rows again."""

    def __init__(self, options: WriteOptions, schema: "StructType") -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        bridge = bridge_to(self._options.connecting)
        written = 0
        producer = bridge.run(bridge.client.producer(self._options.topic))
        try:
            for batch in iterator:
                messages = to_messages(batch)
                bridge.run(producer.send_batch(messages))
                written += len(messages)
        finally:
            bridge.run(producer.close())
        return Written(self._options.topic, written)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """For `df.write`."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing to do: what the tasks wrote is stored already."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing to undo: what was written stays, as in any at-least-once sink."""


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """For `df.writeStream`."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to do: what the tasks wrote is stored already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to undo: what was written stays, as in any at-least-once sink."""


def to_messages(batch: pa.RecordBatch) -> list[bytes | magnetar.Outgoing]:
    """The rows as messages; ValueError for a row without value."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    value_column = columns.pop(VALUE)
    if value_column.null_count:
        raise ValueError(f"{value_column.null_count} rows have no {VALUE}: filter nulls out")
    values: list[bytes] = value_column.cast(pa.binary()).to_pylist()
    if not columns:
        return list(values)
    names = list(columns)
    rows = zip(*(_plain(column) for column in columns.values()), strict=True)
    return [
        _outgoing(value, dict(zip(names, row, strict=True)))
        for value, row in zip(values, rows, strict=True)
    ]


def _plain(column: Any) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    return column.to_pylist()  # type: ignore[no-any-return]


def _outgoing(value: bytes, row: dict[str, Any]) -> magnetar.Outgoing:
    return magnetar.Outgoing(
        value,
        key=row.get(KEY),
        properties=dict(row.get(PROPERTIES) or {}),
        event_time_ms=row.get(EVENT_TIME) or 0,
    )


def require_append(overwrite: bool) -> None:
    """ValueError for a mode that would have to delete messages."""
    if overwrite:
        raise ValueError('messages cannot be overwritten: use .mode("append")')
