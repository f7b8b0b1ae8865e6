"""Options of the data source: names in any case, and nothing unknown."""

import pytest
from pyspark.sql.types import (
    BinaryType,
    DataType,
    StructField,
    StructType,
)

from magnetar_proto.ids import EARLIEST, LATEST
from pyspark_magnetar import DefaultSource, MagnetarSource
from pyspark_magnetar.options.connecting import Connecting
from pyspark_magnetar.options.declarations import (
    Option,
    Use,
    duration_ms,
    parse_options,
    size,
)
from pyspark_magnetar.options.option_table import OPTIONS
from pyspark_magnetar.options.places import Place, Places
from pyspark_magnetar.rows.source_schema import (
    METADATA,
    metadata_columns,
    require_source_schema,
    source_schema,
)
from pyspark_magnetar.sink.write_options import WriteOptions
from pyspark_magnetar.source.read_options import ReadOptions

PLACE = {"service.url": "pulsar://localhost:6650", "topic": "t"}


def test_names_are_case_insensitive_and_topics_become_full() -> None:
    given = {"Service.URL": "pulsar://h", "TOPIC": "t", "startingoffsets": "Latest"}
    options = ReadOptions.parse(given, is_streaming=True)
    assert options.connecting == Connecting("pulsar://h")
    assert options.topics.names == ("persistent://public/default/t",)
    assert options.bounds.start == Places(Place(LATEST))


def test_the_start_has_a_default() -> None:
    batch, stream = (ReadOptions.parse(PLACE, is_streaming=one).bounds for one in (False, True))
    assert (batch.default_start, stream.default_start) == (Place(EARLIEST), Place(LATEST))


def test_what_spark_adds_to_a_sink_is_ignored() -> None:
    options = WriteOptions.parse({**PLACE, "checkpointlocation": "/x", "queryname": "q"})
    assert options.topic == "persistent://public/default/t"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"startingOfsets": "latest"},
            "'startingOfsets' is unknown: did you mean 'startingOffsets'",
        ),
        ({"topic": " "}, "option 'topic' is ' ': expected a text that is not empty"),
        ({"service.url": ""}, "option 'service.url' is '': '' is not a service URL"),
        ({"service.url": "http://h"}, "not a service URL"),
        ({"topic": "a/b"}, "not a topic"),
        ({"startingoffsets": "middle"}, "is 'middle': expected earliest, latest, "),
    ],
)
def test_wrong_options_are_named(change: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        ReadOptions.parse({**PLACE, **change}, is_streaming=True)


def test_the_sink_knows_no_start() -> None:
    with pytest.raises(ValueError, match="'startingOffsets' is for reading only"):
        WriteOptions.parse({**PLACE, "startingOffsets": "latest"})


@pytest.mark.parametrize("missing", PLACE)
def test_what_must_be_given(missing: str) -> None:
    given = {name: value for name, value in PLACE.items() if name != missing}
    with pytest.raises(ValueError, match=f"option.* '{missing}'"):
        ReadOptions.parse(given, is_streaming=True)


def test_every_name_is_declared_once() -> None:
    spelled = [name.lower() for option in OPTIONS for name in option.names]
    assert len(spelled) == len(set(spelled))


def test_an_alias_is_the_option() -> None:
    given = {"serviceURL": "pulsar://h", "topic": "t", "operationTimeoutMs": "5s"}
    options = ReadOptions.parse(given, is_streaming=True)
    assert options.connecting.service_url == "pulsar://h"
    assert options.connecting.settings.operation_timeout_s == 5


def test_two_names_with_two_values_are_refused() -> None:
    same = {**PLACE, "serviceUrl": PLACE["service.url"]}
    assert ReadOptions.parse(same, is_streaming=True).topics.names[0].endswith("/t")
    with pytest.raises(ValueError, match="are the same, and have different values"):
        ReadOptions.parse({**PLACE, "serviceUrl": "pulsar://other"}, is_streaming=True)


def test_an_option_without_effect_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    ReadOptions.parse({**PLACE, "admin.url": "http://h"}, is_streaming=True)
    assert "option admin.url has no effect" in caplog.text


def test_secrets_are_not_shown() -> None:
    auth = {"pulsar.client.authPluginClassName": "token", "pulsar.client.authParams": "s3 cret"}
    options = ReadOptions.parse({**PLACE, **auth}, is_streaming=True)
    assert "s3 cret" not in repr(options)
    with pytest.raises(
        ValueError, match=r"option pulsar\.client\.authParams has no token"
    ) as error:
        options.connecting.client()
    assert "s3 cret" not in str(error.value)
    secret = [Option("key", Use.READ, "", size, is_secret=True)]
    with pytest.raises(ValueError, match=r"^option 'key': expected a number"):
        parse_options({"KEY": "s3cret"}, Use.READ, secret)


@pytest.mark.parametrize(
    "plugin", ["token", "org.apache.pulsar.client.impl.auth.AuthenticationToken"]
)
def test_credentials_by_word_and_by_class(plugin: str) -> None:
    auth = {"authPluginClassName": plugin, "authParams": "token:abc"}
    options = ReadOptions.parse({**PLACE, **auth}, is_streaming=True)
    assert options.connecting.client() is not None


@pytest.mark.parametrize(
    ("given", "bytes_"), [("1", 1), ("64k", 65536), ("32m", 32 << 20), ("1GiB", 1 << 30)]
)
def test_sizes(given: str, bytes_: int) -> None:
    assert size(given) == bytes_


@pytest.mark.parametrize(
    ("given", "ms"), [("200", 200), ("10s", 10_000), ("2 minutes", 120_000), ("1h", 3_600_000)]
)
def test_durations(given: str, ms: int) -> None:
    assert duration_ms(given) == ms


@pytest.mark.parametrize("given", ["", "x", "-1", "0", "1.5m", "10x"])
def test_what_is_no_size_and_no_duration(given: str) -> None:
    with pytest.raises(ValueError, match="expected a number of bytes"):
        size(given)
    if given != "0":
        with pytest.raises(ValueError, match="expected a duration"):
            duration_ms(given)


def test_names_under_which_spark_finds_it() -> None:
    assert DefaultSource.name() == "pulsar"
    assert MagnetarSource.name() == "magnetar"
    assert DefaultSource(PLACE).schema().fieldNames() == [
        "value", "__key", "__topic", "__messageId", "__publishTime", "__eventTime",
        "__messageProperties",
    ]  # fmt: skip


def columns(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


def test_the_source_has_its_own_schema() -> None:
    own = source_schema(("__key",))
    require_source_schema(source_schema(("__key",)), own)
    with pytest.raises(ValueError, match="makes its schema itself"):
        require_source_schema(columns(value=BinaryType()), own)


def test_metadata_columns_are_chosen_and_keep_their_order() -> None:
    assert metadata_columns(("__Entry", "__key")) == ("__key", "__entry")
    assert metadata_columns(("all",)) == METADATA
    assert metadata_columns(("none",)) == ()
    with pytest.raises(ValueError, match="no column '__offset'; there are __key, "):
        metadata_columns(("__offset",))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"topic": "non-persistent://public/default/t"}, "keeps no messages"),
        ({"topicsPattern": "non-persistent://public/default/.*"}, "keeps no messages"),
        ({"topic": "a", "topics": "b"}, "'topic' and 'topics' are given"),
        ({"topic": "a", "endingOffsets": "latest"}, "a streaming query has no end"),
        ({"topic": "a", "startingOffsets": "1:2", "startingTime": "5"}, "give one of"),
        ({"topic": "a", "startingTime": "yesterday"}, "expected milliseconds since 1970"),
        ({"topic": "a", "startingOffsets": '{"a": "x"}'}, "the position of a is 'x'"),
        ({"topic": "a", "startingOffsets": "{"}, "it is not JSON"),
        ({"topic": "a", "maxOffsetsPerTrigger": "0"}, "a whole number of at least 1"),
        ({"topic": "a", "failOnDataLoss": "no"}, "expected true or false"),
        ({"topic": "a", "onUnreadable": "stop"}, "expected fail or skip"),
    ],
)
def test_what_cannot_be_read(given: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        ReadOptions.parse({"service.url": "pulsar://h", **given}, is_streaming=True)
