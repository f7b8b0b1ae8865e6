"""The columns of the source, and those the sink takes."""

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

VALUE = "value"
KEY = "__key"
TOPIC = "__topic"
MESSAGE_ID = "__messageId"
PUBLISH_TIME = "__publishTime"
EVENT_TIME = "__eventTime"
PROPERTIES = "__messageProperties"

SCHEMA = StructType(
    [
        StructField(VALUE, BinaryType()),
        StructField(KEY, BinaryType()),
        StructField(TOPIC, StringType()),
        StructField(MESSAGE_ID, BinaryType()),
        StructField(PUBLISH_TIME, TimestampType()),
        StructField(EVENT_TIME, TimestampType()),
        StructField(PROPERTIES, MapType(StringType(), StringType())),
        StructField("__partition", IntegerType()),
        StructField("__ledger", LongType()),
        StructField("__entry", LongType()),
        StructField("__batchIndex", IntegerType()),
    ]
)
"""`__messageId` is a serialized MessageIdData; `__partition` and `__batchIndex` may be -1."""

SINK_TYPES: dict[str, tuple[type[DataType], ...]] = {
    VALUE: (BinaryType, StringType),
    KEY: (BinaryType, StringType),
    EVENT_TIME: (TimestampType, TimestampNTZType),
    PROPERTIES: (MapType,),
}


def require_source_schema(schema: StructType) -> None:
    """ValueError unless it is `SCHEMA`: the source has no other."""
    if schema.fieldNames() != SCHEMA.fieldNames():
        raise ValueError("format('pulsar') has a fixed schema: leave out .schema(...) and select")


def require_sink_schema(schema: StructType) -> StructType:
    """The schema, if the sink can write it; ValueError names the column that it cannot."""
    if VALUE not in schema.fieldNames():
        raise ValueError(f"a column {VALUE!r} of type binary or string is needed")
    for column in schema.fields:
        types = SINK_TYPES.get(column.name)
        if types is None:
            known = ", ".join(SINK_TYPES)
            raise ValueError(f"column {column.name!r} cannot be written: select some of {known}")
        if not isinstance(column.dataType, types):
            names = " or ".join(kind.typeName() for kind in types)
            raise ValueError(
                f"column {column.name!r} is {column.dataType.simpleString()}, not {names}"
            )
    return schema
