"""The columns of a row: those of the value, and those that describe the message."""

from dataclasses import dataclass
from difflib import get_close_matches

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from pyspark_magnetar.rows.source_schema import METADATA, VALUE
from pyspark_magnetar.sink.arrow import millis
from pyspark_magnetar.sink.values import ValueForm

KEY = "__key"
ORDERING_KEY = "__orderingKey"
TOPIC = "__topic"
PARTITION = "__partition"
EVENT_TIME = "__eventTime"
DELIVER_AT = "__deliverAt"
PROPERTIES = "__messageProperties"

MOMENTS = (T.TimestampType, T.TimestampNTZType, T.LongType)
TAKEN: dict[str, tuple[type[T.DataType], ...]] = {
    KEY: (T.BinaryType, T.StringType),
    ORDERING_KEY: (T.BinaryType, T.StringType),
    TOPIC: (T.StringType,),
    PARTITION: (T.IntegerType,),
    EVENT_TIME: MOMENTS,
    DELIVER_AT: MOMENTS,
    PROPERTIES: (T.MapType,),
}
"""The columns that describe a message, with their types; times are in milliseconds."""

LEFT_OUT = set(METADATA) - set(TAKEN)
"""Columns of the source that the sink ignores, so that rows that were read can be written."""


@dataclass(frozen=True, slots=True)
class SinkSchema:
    """The columns of the rows to write."""

    taken: tuple[str, ...]
    """The columns that describe the message."""
    values: tuple[T.StructField, ...]
    """The columns of the value."""

    @classmethod
    def of(cls, schema: T.StructType) -> "SinkSchema":
        """Create the schema; ValueError names the column that cannot be written."""
        taken: list[str] = []
        values: list[T.StructField] = []
        for field in schema.fields:
            if field.name in TAKEN:
                _require_type(field)
                taken.append(field.name)
            elif not field.name.startswith("__"):
                values.append(field)
            elif field.name not in LEFT_OUT:
                near = get_close_matches(field.name, TAKEN, n=1, cutoff=0.0)[0]
                raise ValueError(
                    f"column {field.name!r} is unknown: did you mean {near!r}? Names of columns "
                    "that become part of the value do not begin with __"
                )
        if not values:
            raise ValueError("no column is left for the value: select one, such as 'value'")
        return cls(tuple(taken), tuple(values))


def _require_type(field: T.StructField) -> None:
    types = TAKEN[field.name]
    kind = field.dataType
    fits = isinstance(kind, types)
    if fits and isinstance(kind, T.MapType):
        fits = isinstance(kind.keyType, T.StringType) and isinstance(kind.valueType, T.StringType)
    if not fits:
        names = " or ".join(
            "map<string,string>" if one is T.MapType else one.typeName() for one in types
        )
        raise ValueError(f"column {field.name!r} is {kind.simpleString()}, not {names}")


def messages_of(batch: pa.RecordBatch, schema: SinkSchema, form: ValueForm) -> pa.RecordBatch:
    """Convert rows to messages: `value` is encoded, times are milliseconds, the rest is kept."""
    columns = {VALUE: form.encode([batch.column(field.name) for field in schema.values])}
    for name in schema.taken:
        column = batch.column(name)
        if name in (EVENT_TIME, DELIVER_AT):
            column = _moments(name, column)
        columns[name] = column
    return pa.RecordBatch.from_pydict(columns)


def _moments(name: str, column: pa.Array) -> pa.Array:
    # promise[millis(column) -> column.cast(pa.int64())]: event times are sent in milliseconds
    times = column if pa.types.is_integer(column.type) else millis(column)
    if times.null_count < len(times) and pc.min(times).as_py() < 0:
        raise ValueError(f"column {name!r}: a message cannot have a time before 1970")
    return times
