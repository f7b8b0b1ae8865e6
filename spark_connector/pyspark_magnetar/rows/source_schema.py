"""The columns of the source."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import types as T

VALUE: Final = "value"
SCHEMA_VERSION: Final = "__schemaVersion"

FIELDS: Final = {
    field.name: field
    for field in (
        T.StructField(VALUE, T.BinaryType()),
        T.StructField("__key", T.BinaryType()),
        T.StructField("__topic", T.StringType()),
        T.StructField("__messageId", T.BinaryType()),
        T.StructField("__publishTime", T.TimestampType()),
        T.StructField("__eventTime", T.TimestampType()),
        T.StructField("__messageProperties", T.MapType(T.StringType(), T.StringType())),
        T.StructField("__partition", T.IntegerType()),
        T.StructField("__ledger", T.LongType()),
        T.StructField("__entry", T.LongType()),
        T.StructField("__batchIndex", T.IntegerType()),
        T.StructField("__producer", T.StringType()),
        T.StructField("__sequenceId", T.LongType()),
        T.StructField("__orderingKey", T.BinaryType()),
        T.StructField("__redeliveryCount", T.IntegerType()),
        T.StructField(SCHEMA_VERSION, T.BinaryType()),
    )
}
"""All columns, in order; `__messageId` is a serialized MessageIdData, and `__partition` and
`__batchIndex` may be -1."""

METADATA: Final = tuple(name for name in FIELDS if name != VALUE)
DEFAULT_METADATA: Final = METADATA[:6]
"""The metadata columns of pulsar-spark."""


def metadata_columns(chosen: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the metadata columns of the option, in order; ValueError names an unknown one."""
    if chosen is None:
        return DEFAULT_METADATA
    if [name.lower() for name in chosen] in (["all"], ["none"]):
        return METADATA if chosen[0].lower() == "all" else ()
    known = {name.lower(): name for name in METADATA}
    for name in chosen:
        if name.lower() not in known:
            raise ValueError(
                f"option 'metadata': there is no column {name!r}; there are {', '.join(METADATA)}, "
                "and the words all and none"
            )
    wanted = {known[name.lower()] for name in chosen}
    return tuple(name for name in METADATA if name in wanted)


def source_schema(
    columns: tuple[str, ...], values: Sequence[T.StructField] = (FIELDS[VALUE],)
) -> T.StructType:
    """Return the columns of values and of metadata; a key in the values replaces `__key`."""
    names = {field.name for field in values}
    return T.StructType([*values, *(FIELDS[name] for name in columns if name not in names)])


def require_source_schema(schema: T.StructType, own: T.StructType) -> None:
    """Raise ValueError unless the schema is the source's own: there are no other columns."""
    if schema.fieldNames() != own.fieldNames():
        raise ValueError(
            "format('pulsar') makes its schema itself: leave out .schema(...), choose metadata "
            "columns by the option 'metadata', and select"
        )
