"""Converts values to columns of their schema, decoding each with its writer's version."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.json as pj
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

import magnetar
from magnetar.base.errors import Undecodable
from magnetar.base.schema_info import SchemaInfo
from magnetar.schema.auto import schema_of
from magnetar.schema.base import Schema
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.ids import MessageId
from pyspark_magnetar.rows.decoding import Decoded
from pyspark_magnetar.rows.value_schema import (
    DROP,
    FAILFAST,
    PERMISSIVE,
    Typed,
    ValueSchema,
    value_fields,
)

IN_BLOCKS: Final = (
    T.BooleanType, T.DoubleType, T.FloatType, T.IntegerType, T.LongType, T.StringType,
)  # fmt: skip
"""Types that Arrow itself parses from JSON."""

FindVersion = Callable[[str, bytes], SchemaInfo]


@dataclass(slots=True)
class EncodedValue:
    """The parts of a message that a schema can decode."""

    data: bytes
    key: bytes | None
    is_null: bool


class ValueColumns:
    """The columns of values under construction."""

    def __init__(self, schema: ValueSchema, mode: str, find: FindVersion) -> None:
        self._schema = schema
        self._mode = mode
        self._find = find
        self._typed = [schema.typed] if schema.key is None else [schema.key, schema.typed]
        self._encoded: list[EncodedValue] = []
        self._origins: list[tuple[int, Decoded]] = []
        """The row at which each entry begins."""

    @property
    def fields(self) -> list[T.StructField]:
        return value_fields(self._schema, self._mode)

    def add(self, decoded: Decoded) -> None:
        """Append the messages of an entry."""
        self._origins.append((len(self._encoded), decoded))
        nulls = set(decoded.nulls)
        keys = decoded.keys or [None] * decoded.rows
        self._encoded += [
            EncodedValue(value, key, place in nulls)
            for place, (value, key) in enumerate(zip(decoded.each_value(), keys, strict=True))
        ]

    def arrays(self) -> tuple[list[pa.Array], pa.Array | None]:
        """Return the columns, and which rows are kept; None: all rows."""
        found = self._parsed_in_blocks()
        if found is not None:
            return self._with_corrupt(found, {}), None
        rows, bad = self._decoded_rows()
        if bad and self._mode == FAILFAST:
            self._fail(*next(iter(bad.items())))
        kept = None
        if bad and self._mode == DROP:
            kept = pa.array([row not in bad for row in range(len(rows))])
        return self._with_corrupt(self._to_arrow(rows), bad), kept

    def _with_corrupt(self, arrays: list[pa.Array], bad: dict[int, Exception]) -> list[pa.Array]:
        if self._mode != PERMISSIVE:
            return arrays
        data = [encoded.data if at in bad else None for at, encoded in enumerate(self._encoded)]
        return [*arrays, pa.array(data, pa.binary())]

    def _parsed_in_blocks(self) -> list[pa.Array] | None:
        """Parse all values in one step; None if Arrow cannot."""
        schema = self._schema
        # Only for JSON, and for types that Arrow reads as the decoder does.
        if schema.info.type != pb.Schema.Json or not _is_parsed_in_blocks(schema.typed.kind):
            return None
        if any(encoded.is_null for encoded in self._encoded):
            return None
        data = b"\n".join([encoded.data for encoded in self._encoded])
        arrow = _arrow_schema(tuple(self._schema.fields))
        try:
            table = pj.read_json(
                BytesIO(data),
                # One block: a value that crosses blocks would be an error.
                pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
                pj.ParseOptions(arrow, True, "ignore"),
            )
        except pa.ArrowInvalid:
            return None  # decoding them one by one shows which value it was
        if table.num_rows != len(self._encoded):
            return None  # a value had several lines, or was empty
        table = table.select(arrow.names).combine_chunks()
        return [pa.concat_arrays(column.chunks) for column in table.columns]

    def _decoded_rows(self) -> tuple[list[Any], dict[int, Exception]]:
        rows: list[Any] = []
        bad: dict[int, Exception] = {}
        ends = [start for start, _ in self._origins[1:]] + [len(self._encoded)]
        for (start, decoded), end in zip(self._origins, ends, strict=True):
            entry = decoded.entry
            try:
                reader = self._reader(entry.topic, entry.metadata.schema_version)
            except (ValueError, magnetar.NotFound) as error:
                rows += [None] * (end - start)
                bad |= dict.fromkeys(range(start, end), error)
                continue
            for row in range(start, end):
                try:
                    rows.append(self._decode(reader, self._encoded[row]))
                except Exception as error:  # a decoder may raise anything on foreign bytes
                    rows.append(None)
                    bad[row] = error
        # Arrow does not tell which row is wrong, so rows are tried one by one, but only then.
        if not self._fits(rows):
            for row, value in enumerate(rows):
                if not self._fits([value]):
                    rows[row] = None
                    bad[row] = ValueError(f"{value!r} does not fit the columns")
        return rows, bad

    def _decode(self, reader: Schema[Any], encoded: EncodedValue) -> Any:
        value = reader.decode_message(cast("magnetar.Message[Any]", encoded))
        if self._schema.key is None:
            return _converted(self._schema.typed, value)
        key, what = value if value is not None else (None, None)
        return _converted(self._schema.key, key), _converted(self._schema.typed, what)

    def _reader(self, topic: str, version: bytes) -> Schema[Any]:
        info = self._schema.info
        reader = _schema_of(info.type, info.definition, tuple(info.properties.items()))
        if not version or not reader.needs_writer:
            return reader
        writer = self._find(topic, version)
        return reader if writer.definition == info.definition else reader.reading(writer)

    def _fits(self, rows: list[Any]) -> bool:
        try:
            self._to_arrow(rows)
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError):
            return False
        return True

    def _to_arrow(self, rows: list[Any]) -> list[pa.Array]:
        fields = self._schema.fields
        arrow = _arrow_schema(tuple(fields))
        if self._schema.is_record:
            columns = [[row and row.get(field.name) for row in rows] for field in fields]
        elif self._schema.key is not None:
            columns = [[row and row[place] for row in rows] for place in range(2)]
        else:
            columns = [rows]
        return [pa.array(column, field.type) for column, field in zip(columns, arrow, strict=True)]

    def _fail(self, row: int, error: Exception) -> None:
        start, decoded = next(one for one in reversed(self._origins) if one[0] <= row)
        entry = decoded.entry
        index = decoded.indexes[row - start]
        where = MessageId(entry.ledger, entry.entry, index, entry.partition)
        version = entry.metadata.schema_version
        raise Undecodable(
            f"message {_shown(where)} of {entry.topic}, schema version "
            f"{int.from_bytes(version, 'big') if version else 'none'}, cannot be decoded "
            f"as {self._schema.info.type_name}: {error or type(error).__name__}. The option "
            "'mode' PERMISSIVE or DROP goes on without it",
            where,
            version,
        ) from error


def _shown(where: MessageId) -> str:
    index = f":{where.batch_index}" if where.batch_index >= 0 else ""
    return f"{where.ledger}:{where.entry}{index}"


def _converted(typed: Typed, value: Any) -> Any:
    return value if value is None or typed.convert is None else typed.convert(value)


def _is_parsed_in_blocks(kind: T.DataType) -> bool:
    if isinstance(kind, T.StructType):
        return bool(kind.fields) and all(_is_parsed_in_blocks(one.dataType) for one in kind.fields)
    if isinstance(kind, T.ArrayType):
        return _is_parsed_in_blocks(kind.elementType)
    return isinstance(kind, IN_BLOCKS)


@lru_cache(maxsize=16)
def _arrow_schema(fields: tuple[T.StructField, ...]) -> pa.Schema:
    return to_arrow_schema(T.StructType(list(fields)), timezone="UTC")


@lru_cache(maxsize=64)
def _schema_of(
    kind: int, definition: bytes, properties: tuple[tuple[str, str], ...]
) -> Schema[Any]:
    return schema_of(SchemaInfo(kind, definition, properties=dict(properties)))
