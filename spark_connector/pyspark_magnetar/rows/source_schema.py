"""The columns of the source."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

VALUE: Final = "value"
SCHEMA_VERSION: Final = "__schemaVersion"

FIELDS: Final = {
    field.name: field
    for field in (
        StructField(VALUE, BinaryType()),
        StructField("__key", BinaryType()),
        StructField("__topic", StringType()),
        StructField("__messageId", BinaryType()),
        StructField("__publishTime", TimestampType()),
        StructField("__eventTime", TimestampType()),
        StructField("__messageProperties", MapType(StringType(), StringType())),
        StructField("__partition", IntegerType()),
        StructField("__ledger", LongType()),
        StructField("__entry", LongType()),
        StructField("__batchIndex", IntegerType()),
        StructField("__producer", StringType()),
        StructField("__sequenceId", LongType()),
        StructField("__orderingKey", BinaryType()),
        StructField("__redeliveryCount", IntegerType()),
        StructField(SCHEMA_VERSION, BinaryType()),
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
    columns: tuple[str, ...], values: Sequence[StructField] = (FIELDS[VALUE],)
) -> StructType:
    """Return the columns of values and of metadata; a key in the values replaces `__key`."""
    names = {field.name for field in values}
    return StructType([*values, *(FIELDS[name] for name in columns if name not in names)])


def require_source_schema(schema: StructType, own: StructType) -> None:
    """Raise ValueError unless the schema is the source's own: there are no other columns."""
    if schema.fieldNames() != own.fieldNames():
        raise ValueError(
            "format('pulsar') makes its schema itself: leave out .schema(...), choose metadata "
            "columns by the option 'metadata', and select"
        )
