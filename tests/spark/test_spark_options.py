"""Options of the data source: names in any case, and nothing unknown."""

import pytest
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_magnetar import DefaultSource, MagnetarSource
from pyspark_magnetar.options import ReadOptions, WriteOptions
from pyspark_magnetar.schema import SCHEMA, require_sink_schema, require_source_schema
from pyspark_magnetar.writer import require_append

PLACE = {"service.url": "pulsar://localhost:6650", "topic": "t"}


def test_names_are_case_insensitive_and_topics_become_full() -> None:
    given = {"Service.URL": "pulsar://h", "TOPIC": "t", "startingoffsets": "Latest"}
    options = ReadOptions.parse(given, default_start="earliest")
    assert options == ReadOptions("pulsar://h", "persistent://public/default/t", "latest")


def test_the_start_has_a_default() -> None:
    assert ReadOptions.parse(PLACE, default_start="earliest").start == "earliest"
    assert ReadOptions.parse(PLACE, default_start="latest").start == "latest"


def test_what_spark_adds_to_a_sink_is_ignored() -> None:
    options = WriteOptions.parse({**PLACE, "checkpointlocation": "/x", "queryname": "q"})
    assert options.topic == "persistent://public/default/t"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"topics": "a"}, "'topics' is unknown; known are service.url, topic, startingOffsets"),
        ({"topic": ""}, "'topic' is missing"),
        ({"service.url": ""}, "'service.url' is missing"),
        ({"service.url": "http://h"}, "not a service URL"),
        ({"topic": "a/b"}, "not a topic"),
        ({"startingoffsets": "middle"}, "'middle' is not earliest or latest"),
    ],
)
def test_wrong_options_are_named(change: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        ReadOptions.parse({**PLACE, **change}, default_start="latest")


def test_the_sink_knows_no_start() -> None:
    with pytest.raises(ValueError, match="'startingOffsets' is unknown"):
        WriteOptions.parse({**PLACE, "startingOffsets": "latest"})


def test_names_under_which_spark_finds_it() -> None:
    assert DefaultSource.name() == "pulsar"
    assert MagnetarSource.name() == "magnetar"
    assert DefaultSource(PLACE).schema() == SCHEMA


def columns(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


def test_the_source_has_its_own_schema() -> None:
    require_source_schema(SCHEMA)
    with pytest.raises(ValueError, match="fixed schema"):
        require_source_schema(columns(value=BinaryType()))


@pytest.mark.parametrize(
    "schema",
    [
        columns(value=BinaryType()),
        columns(value=StringType()),
        columns(
            __key=StringType(),
            value=BinaryType(),
            __messageProperties=MapType(StringType(), StringType()),
            __eventTime=TimestampType(),
        ),
    ],
)
def test_what_the_sink_takes(schema: StructType) -> None:
    assert require_sink_schema(schema) is schema


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (columns(name=StringType()), "column 'value' of type binary or string is needed"),
        (columns(value=IntegerType()), "'value' is int, not binary or string"),
        (columns(value=BinaryType(), __topic=StringType()), "'__topic' cannot be written"),
        (columns(value=BinaryType(), __key=IntegerType()), "'__key' is int"),
    ],
)
def test_what_the_sink_refuses(schema: StructType, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        require_sink_schema(schema)


def test_messages_cannot_be_overwritten() -> None:
    require_append(False)
    with pytest.raises(ValueError, match="append"):
        require_append(True)
