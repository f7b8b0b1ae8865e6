"""From entries to record batches: columns are filled a whole entry at a time."""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

import magnetar
from pyspark_magnetar.columns import COLUMNS, Column
from pyspark_magnetar.decoding import Decoded, decode
from pyspark_magnetar.source_schema import source_schema

MAX_ROWS: Final = 10_000
MAX_BYTES: Final = 8 * 1024 * 1024
"""A record batch is handed over when it has so many rows, or so many bytes of values."""


@lru_cache(maxsize=16)
def arrow_schema(names: tuple[str, ...]) -> pa.Schema:
    """Of these columns; Spark compares with exactly this."""
    return to_arrow_schema(source_schema(names), timezone="UTC")


class Rows:
    """A record batch under construction."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._schema = arrow_schema(names)
        self._columns: list[Column] = [COLUMNS[name]() for name in names]
        self.rows = 0
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return self.rows >= MAX_ROWS or self._bytes >= MAX_BYTES

    def add(self, decoded: Decoded) -> None:
        """Append the messages of an entry."""
        for column in self._columns:
            column.add(decoded)
        self.rows += decoded.rows
        self._bytes += len(decoded.data)

    def to_batch(self) -> pa.RecordBatch:
        """With the schema of the names."""
        return pa.RecordBatch.from_arrays(
            [
                column.array(field.type)
                for column, field in zip(self._columns, self._schema, strict=True)
            ],
            schema=self._schema,
        )


def record_batches(
    entries: Iterable[magnetar.Entry],
    names: tuple[str, ...],
    decoder: Callable[[magnetar.Entry], Decoded | None] = decode,
) -> Iterator[pa.RecordBatch]:
    """The messages of all entries, in order; Unreadable if one cannot be decoded."""
    rows = Rows(names)
    for entry in entries:
        decoded = decoder(entry)
        if decoded is None or not decoded.rows:
            continue
        rows.add(decoded)
        if rows.is_full:
            yield rows.to_batch()
            rows = Rows(names)
    if rows.rows:
        yield rows.to_batch()
