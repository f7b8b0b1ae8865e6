"""Conversion of entries to record batches: columns are built from many entries at a time."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

import magnetar
from pyspark_magnetar.rows.columns import COLUMNS, Gathered
from pyspark_magnetar.rows.decoding import Decoded, decode
from pyspark_magnetar.rows.source_schema import source_schema
from pyspark_magnetar.rows.value_columns import ValueColumns

MAX_ROWS: Final = 10_000
MAX_BYTES: Final = 8 * 1024 * 1024
"""The limits of rows and of bytes of values at which a record batch is passed on."""

MakeValues = Callable[[], ValueColumns]


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema; Spark requires exactly this one."""
    return to_arrow_schema(schema, timezone="UTC")


class Rows:
    """A record batch under construction."""

    def __init__(self, schema: pa.Schema, values: ValueColumns | None) -> None:
        self._schema = schema
        self._values = values
        self._entries: list[Decoded] = []
        self.rows = 0
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return self.rows >= MAX_ROWS or self._bytes >= MAX_BYTES

    def add(self, decoded: Decoded) -> None:
        """Append the messages of an entry."""
        if self._values is not None:
            self._values.add(decoded)
        self._entries.append(decoded)
        self.rows += decoded.rows
        self._bytes += decoded.size

    def to_batch(self) -> pa.RecordBatch:
        """Return the batch of all kept rows; raises Undecodable."""
        arrays, kept = self._values.arrays() if self._values is not None else ([], None)
        gathered = Gathered(self._entries)
        for field in list(self._schema)[len(arrays) :]:
            arrays.append(COLUMNS[field.name](gathered, field.type))
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return batch if kept is None else batch.filter(kept)


def record_batches(
    entries: Iterable[magnetar.Entry],
    columns: tuple[str, ...],
    decoder: Callable[[magnetar.Entry], Decoded | None] = decode,
    make_values: MakeValues | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the messages of all entries in order; Unreadable if an entry cannot be decoded.

    `columns` are metadata columns; without `make_values` the values are bytes.
    """
    values = None if make_values is None else make_values()
    schema = source_schema(columns) if values is None else source_schema(columns, values.fields)
    arrow = arrow_schema(schema)
    rows = Rows(arrow, values)
    for entry in entries:
        decoded = decoder(entry)
        if decoded is None or not decoded.rows:
            continue
        rows.add(decoded)
        if rows.is_full:
            yield rows.to_batch()
            rows = Rows(arrow, None if make_values is None else make_values())
    if rows.rows:
        yield rows.to_batch()
