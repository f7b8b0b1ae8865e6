"""The columns of values, derived from a topic's schema.

Records of Avro and JSON become a column for each field, everything else the column `value`; the
key of pairs is the column `__key`.  All columns may be null, so that schemas can evolve.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import time
from typing import Any, Final

from pyspark.sql import types as T

from magnetar.base.schema_info import SchemaInfo
from magnetar.schema.key_value import parts
from magnetar_proto import PulsarApi_pb2 as pb

KEY, VALUE = "__key", "value"
SPACE: Final = ""
"""The name under which the enclosing namespace is kept among the named types."""
CORRUPT: Final = "_corrupt"
"""The column of values that do not fit the schema, as bytes, in the mode PERMISSIVE."""

FAILFAST, PERMISSIVE, DROP = "FAILFAST", "PERMISSIVE", "DROP"
"""The actions for a value that does not fit the schema."""

Convert = Callable[[Any], Any]

PLAIN: Final[dict[str, T.DataType]] = {
    "boolean": T.BooleanType(),
    "int": T.IntegerType(),
    "long": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "string": T.StringType(),
    "bytes": T.BinaryType(),
}
LOGICAL: Final[dict[str, T.DataType]] = {
    "date": T.DateType(),
    "timestamp-millis": T.TimestampType(),
    "timestamp-micros": T.TimestampType(),
    "local-timestamp-millis": T.TimestampNTZType(),
    "local-timestamp-micros": T.TimestampNTZType(),
}
PRIMITIVES: Final[dict[int, T.DataType]] = {
    pb.Schema.NoSchema: T.BinaryType(),
    pb.Schema.String: T.StringType(),
    pb.Schema.Bool: T.BooleanType(),
    pb.Schema.Int8: T.ByteType(),
    pb.Schema.Int16: T.ShortType(),
    pb.Schema.Int32: T.IntegerType(),
    pb.Schema.Int64: T.LongType(),
    pb.Schema.Float: T.FloatType(),
    pb.Schema.Double: T.DoubleType(),
    pb.Schema.Timestamp: T.TimestampType(),
    pb.Schema.Date: T.TimestampType(),
    pb.Schema.Instant: T.TimestampType(),
    pb.Schema.LocalDate: T.DateType(),
    pb.Schema.LocalDateTime: T.TimestampNTZType(),
}
"""The types of the schemas of single values."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A column type, and the conversion of decoded values to it; None means no conversion."""

    kind: T.DataType
    convert: Convert | None = None


@dataclass(frozen=True, slots=True)
class ValueSchema:
    """The schema of a topic, and the types of its value columns."""

    info: SchemaInfo
    is_record: bool
    """Whether each field of the value is a column."""
    typed: Typed
    """The type of the whole value."""
    key: Typed | None = None
    """The type of the key, if the values are pairs."""

    @property
    def fields(self) -> list[T.StructField]:
        """The fields of the columns."""
        if self.is_record and isinstance(self.typed.kind, T.StructType):
            return list(self.typed.kind.fields)
        value = T.StructField(VALUE, self.typed.kind)
        return [value] if self.key is None else [T.StructField(KEY, self.key.kind), value]


def value_fields(schema: ValueSchema, mode: str) -> list[T.StructField]:
    """Return the fields of value columns; one for corrupt values is added if the mode has it."""
    return schema.fields + ([T.StructField(CORRUPT, T.BinaryType())] if mode == PERMISSIVE else [])


def value_schema(info: SchemaInfo) -> ValueSchema:
    """Convert a schema; ValueError if it describes values without a column type."""
    try:
        if info.type == pb.Schema.KeyValue:
            key, value, _ = parts(info)
            return ValueSchema(info, False, _of(value), _of(key))
        typed = _of(info)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"the schema {info.type_name} of the topic is damaged: {error}") from error
    return ValueSchema(info, isinstance(typed.kind, T.StructType), typed)


def _of(info: SchemaInfo) -> Typed:
    if info.type in (pb.Schema.Avro, pb.Schema.Json):
        return _typed(json.loads(info.definition), {}, ())
    kind = PRIMITIVES.get(info.type)
    if kind is None:
        raise ValueError(
            f"values of the schema type {info.type_name} have no columns: read them as bytes "
            "(option 'schemaMode' bytes)"
        )
    return Typed(kind)


def _typed(definition: Any, named: dict[str, Any], inside: tuple[str, ...]) -> Typed:
    """Convert an Avro definition; `named` has the types that were defined before."""
    if isinstance(definition, list):
        return _union(definition, named, inside)
    if isinstance(definition, str):
        if definition in PLAIN:
            return Typed(PLAIN[definition])
        if definition in inside:
            raise ValueError(f"the type {definition} contains itself: read the values as bytes")
        return _typed(named[definition], named, inside)
    kind = definition["type"]
    if isinstance(kind, dict | list):
        return _typed(kind, named, inside)
    named.update(dict.fromkeys(_names(definition, named), definition))
    logical = _logical(definition)
    if logical is not None:
        return logical
    make = COMPLEX.get(kind)
    return _typed(kind, named, inside) if make is None else make(definition, named, inside)


def _logical(definition: Mapping[str, Any]) -> Typed | None:
    name = definition.get("logicalType", "")
    if name == "decimal":
        return Typed(T.DecimalType(definition["precision"], definition.get("scale", 0)))
    if name in TIMES_OF_DAY:
        return Typed(PLAIN[definition["type"]], TIMES_OF_DAY[name])
    return Typed(LOGICAL[name]) if name in LOGICAL else None


def _array(definition: Mapping[str, Any], named: dict[str, Any], inside: tuple[str, ...]) -> Typed:
    item = _typed(definition["items"], named, inside)
    return Typed(T.ArrayType(item.kind), item.convert and _Each(item.convert))


def _map(definition: Mapping[str, Any], named: dict[str, Any], inside: tuple[str, ...]) -> Typed:
    item = _typed(definition["values"], named, inside)
    return Typed(T.MapType(T.StringType(), item.kind), _Pairs(item.convert))


def _names(definition: Mapping[str, Any], named: Mapping[str, Any]) -> list[str]:
    name = definition.get("name")
    if name is None or "type" not in definition:
        return []
    space = definition.get("namespace", named.get(SPACE))
    return [name, f"{space}.{name}"] if space else [name]


def _record(definition: Mapping[str, Any], named: dict[str, Any], inside: tuple[str, ...]) -> Typed:
    inside = (*inside, *_names(definition, named))
    named[SPACE] = definition.get("namespace", named.get(SPACE))
    fields = [
        (field["name"], _typed(field["type"], named, inside)) for field in definition["fields"]
    ]
    kind = T.StructType([T.StructField(name, typed.kind) for name, typed in fields])
    converted = {name: typed.convert for name, typed in fields if typed.convert is not None}
    return Typed(kind, _Fields(converted) if converted else None)


def _union(members: list[Any], named: dict[str, Any], inside: tuple[str, ...]) -> Typed:
    found = [member for member in members if member not in ("null", {"type": "null"})]
    if len(found) == 1:
        return _typed(found[0], named, inside)
    for narrow, wide in (("int", "long"), ("float", "double")):
        if {narrow, wide} == set(map(str, found)):
            return Typed(PLAIN[wide])
    raise ValueError(f"a union of {found} has no column type: read the values as bytes")


# -- conversions of decoded values for Arrow


@dataclass(frozen=True, slots=True)
class _Each:
    convert: Convert

    def __call__(self, values: Iterable[Any]) -> Any:
        return [_or_none(self.convert, value) for value in values]


@dataclass(frozen=True, slots=True)
class _Pairs:
    convert: Convert | None

    def __call__(self, values: Mapping[str, Any]) -> Any:
        convert = self.convert
        if convert is None:
            return list(values.items())
        return [(key, _or_none(convert, value)) for key, value in values.items()]


@dataclass(frozen=True, slots=True)
class _Fields:
    converted: Mapping[str, Convert]

    def __call__(self, record: Mapping[str, Any]) -> Any:
        changed = dict(record)
        for name, convert in self.converted.items():
            changed[name] = _or_none(convert, changed.get(name))
        return changed


def _or_none(convert: Convert, value: Any) -> Any:
    return None if value is None else convert(value)


def _micros_of_day(value: Any) -> Any:
    if not isinstance(value, time):
        return value
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _millis_of_day(value: Any) -> Any:
    return _micros_of_day(value) // 1000 if isinstance(value, time) else value


Make = Callable[[Mapping[str, Any], dict[str, Any], tuple[str, ...]], Typed]

COMPLEX: Final[dict[str, Make]] = {
    "record": _record,
    "array": _array,
    "map": _map,
    "enum": lambda *_: Typed(T.StringType()),
    "fixed": lambda *_: Typed(T.BinaryType()),
}
TIMES_OF_DAY: Final[dict[str, Convert]] = {
    "time-millis": _millis_of_day,
    "time-micros": _micros_of_day,
}
"""Conversions to numbers, as Spark has no type for times of day."""
