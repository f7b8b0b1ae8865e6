"""What the sink takes, and what it refuses on the driver."""

import pytest
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

from magnetar.producing.batching import UNBATCHED, BatchLimits
from pyspark_magnetar.rows.source_schema import FIELDS
from pyspark_magnetar.sink.columns import SinkSchema
from pyspark_magnetar.sink.write_options import WriteOptions
from pyspark_magnetar.sink.writer import BatchWriter, StreamWriter, require_append

URL = {"service.url": "pulsar://localhost:6650"}
PLACE = {**URL, "topic": "t"}
ONCE = {**PLACE, "exactlyOnce": "dedup"}


def columns(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


VALUE = columns(value=BinaryType())


@pytest.mark.parametrize(
    "schema",
    [
        VALUE,
        columns(
            __key=BinaryType(),
            __orderingKey=StringType(),
            __topic=StringType(),
            __partition=IntegerType(),
            __eventTime=TimestampType(),
            __deliverAt=TimestampNTZType(),
            __messageProperties=MapType(StringType(), StringType()),
            value=BinaryType(),
        ),
        columns(a=LongType(), b=StringType(), __eventTime=LongType()),
        StructType(list(FIELDS.values())),
    ],
)
def test_what_the_sink_takes(schema: StructType) -> None:
    found = SinkSchema.of(schema)
    assert [field.name for field in found.values] == [
        name for name in schema.fieldNames() if not name.startswith("__")
    ]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (columns(__key=BinaryType()), "no column is left for the value"),
        (columns(value=BinaryType(), __evenTime=LongType()), "did you mean '__eventTime'"),
        (columns(value=BinaryType(), __key=IntegerType()), "'__key' is int, not binary or string"),
        (
            columns(value=BinaryType(), __messageProperties=MapType(StringType(), LongType())),
            "'__messageProperties' is map<string,bigint>, not map<string,string>",
        ),
    ],
)
def test_columns_that_cannot_be_written(schema: StructType, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        SinkSchema.of(schema)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({**PLACE, "exactlyOnce": "maybe"}, "expected none, dedup or transaction"),
        ({**ONCE, "batchingByKey": "true"}, "'batchingByKey' changes the order"),
        ({**ONCE, "messageRoutingMode": "SinglePartition"}, "SinglePartition, which is another"),
        ({**PLACE, "jobId": "j"}, "'jobId' is for exactlyOnce=dedup"),
        ({**URL, "exactlyOnce": "transaction"}, "needs the option 'transactionLogTopic'"),
        ({**ONCE, "transactionLogTopic": "l"}, "'transactionLogTopic' is for exactlyOnce=trans"),
        ({**PLACE, "transactionTimeout": "500h"}, "'transactionTimeout' is 1.8e.06 s: at most"),
        ({**PLACE, "pulsar.producer.compressionType": "gzip"}, "expected NONE, LZ4"),
        ({**PLACE, "pulsar.producer.hashingScheme": "md5"}, "expected JavaStringHash or Murmur3"),
        ({**PLACE, "batchingMaxMessages": "0"}, "expected a whole number of at least 1"),
        ({**PLACE, "topic": "a b://c"}, "a b://c"),
    ],
)
def test_options_that_cannot_be_used(options: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        WriteOptions.parse(options)


def test_options_of_producers_are_those_of_the_java_client() -> None:
    producing = WriteOptions.parse(
        {
            **PLACE,
            "pulsar.producer.compressionType": "zstd",
            "pulsar.producer.batchingMaxMessages": "10",
            "pulsar.producer.batchingMaxBytes": "64k",
            "pulsar.producer.sendTimeoutMs": "5s",
            "pulsar.producer.hashingScheme": "murmur3_32hash",
        }
    ).producing
    assert producing.options()["compression"] == "zstd"
    assert producing.batching == BatchLimits(10, 64 << 10)
    assert (producing.send_timeout_s, producing.hashing) == (5, "murmur3")
    unbatched = WriteOptions.parse({**PLACE, "batchingEnabled": "false"})
    assert unbatched.producing.batching == UNBATCHED


def test_where_rows_go_is_known_before_the_first() -> None:
    with pytest.raises(ValueError, match="option 'topic' is missing"):
        StreamWriter(WriteOptions.parse(URL), VALUE)
    StreamWriter(WriteOptions.parse(URL), columns(value=BinaryType(), __topic=StringType()))


def test_a_batch_job_that_writes_once_has_a_name() -> None:
    for once in (ONCE, {**PLACE, "exactlyOnce": "transaction"}):
        with pytest.raises(ValueError, match="'jobId' in a batch job"):
            BatchWriter(WriteOptions.parse(once), VALUE)
        BatchWriter(WriteOptions.parse({**once, "jobId": "nightly"}), VALUE)
        StreamWriter(WriteOptions.parse(once), VALUE)


def test_messages_cannot_be_overwritten() -> None:
    require_append(False)
    with pytest.raises(ValueError, match="append"):
        require_append(True)
