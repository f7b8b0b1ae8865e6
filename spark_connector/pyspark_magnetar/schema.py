"""The columns of the source, and those the sink takes."""

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
