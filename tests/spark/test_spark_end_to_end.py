"""Official client to broker to Spark to broker to official client: nothing lost, nothing added."""

import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from admin_http import Admin
from running_broker import RunningBroker

TIMEOUT_MS = 60_000
TIMEOUT_S = 120

# A binary key would be sent as a key of bytes: these keys are text, and remain so.
COLUMNS = ("value", "CAST(__key AS STRING) AS __key", "__eventTime", "__messageProperties")

Described = tuple[bytes, str, tuple[tuple[str, str], ...], int]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        # The workers must be this Python: it is the one that has the connector.
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        session = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .getOrCreate()
        )
        yield session
        session.stop()


@pytest.fixture
def official(broker: RunningBroker) -> Iterator[pulsar.Client]:
    client = pulsar.Client(broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    yield client
    client.close()


def new_topic() -> str:
    return f"persistent://public/default/t-{uuid.uuid4().hex[:10]}"


class Sender:
    """Sends numbered messages with everything a message can carry, and remembers them."""

    def __init__(self, client: pulsar.Client, topic: str) -> None:
        self._producer = client.create_producer(
            topic,
            batching_enabled=True,
            batching_max_messages=20,
            block_if_queue_full=True,
            compression_type=pulsar.CompressionType.LZ4,
        )
        self.sent: Counter[Described] = Counter()

    def send(self, first: int, end: int) -> None:
        for number in range(first, end):
            value, key = b"value %d" % number, f"key {number % 7}"
            properties = {"number": str(number)} if number % 3 == 0 else {}
            self._producer.send_async(
                value, None, properties=properties, partition_key=key, event_timestamp=number + 1
            )
            self.sent[value, key, tuple(properties.items()), number + 1] += 1
        self._producer.flush()


def received(client: pulsar.Client, topic: str, count: int) -> Counter[Described]:
    """So many messages, and whatever comes before a marker that is sent last."""
    marker = client.create_producer(topic)
    marker.send(b"marker")
    consumer = client.subscribe(topic, "check", initial_position=pulsar.InitialPosition.Earliest)
    found: Counter[Described] = Counter()
    while (message := consumer.receive(TIMEOUT_MS)).data() != b"marker":
        found[
            message.data(),
            message.partition_key(),
            tuple(message.properties().items()),
            message.event_timestamp(),
        ] += 1
    consumer.close()
    marker.close()
    assert sum(found.values()) == count
    return found


def copying(
    spark: SparkSession,
    broker: RunningBroker,
    source: str,
    sink: str,
    checkpoint: Path,
    **trigger: Any,
) -> StreamingQuery:
    read = (
        spark.readStream.format("pulsar")
        .option("service.url", broker.service_url)
        .option("topic", source)
        .option("startingOffsets", "earliest")
        .load()
    )
    return (
        read.selectExpr(*COLUMNS)
        .writeStream.format("pulsar")
        .option("service.url", broker.service_url)
        .option("topic", sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(**trigger)
        .start()
    )


def test_a_stream_that_is_stopped_and_started_again(
    spark: SparkSession, broker: RunningBroker, official: pulsar.Client, tmp_path: Path
) -> None:
    source, sink = new_topic(), new_topic()
    sender = Sender(official, source)
    sender.send(0, 500)

    query = copying(spark, broker, source, sink, tmp_path, processingTime="0 seconds")
    query.processAllAvailable()
    sender.send(500, 700)
    query.processAllAvailable()
    query.stop()

    sender.send(700, 900)
    query = copying(spark, broker, source, sink, tmp_path, availableNow=True)
    assert query.awaitTermination(TIMEOUT_S)
    assert query.exception() is None

    assert received(official, sink, 900) == sender.sent


def test_a_batch_of_all_there_is(
    spark: SparkSession, broker: RunningBroker, official: pulsar.Client
) -> None:
    source, sink = new_topic(), new_topic()
    sender = Sender(official, source)
    sender.send(0, 1000)
    frame = (
        spark.read.format("pulsar")
        .option("Service.Url", broker.service_url)
        .option("TOPIC", source)
        .load()
    )
    assert frame.count() == 1000
    (
        frame.repartition(3)
        .selectExpr(*COLUMNS)
        .write.format("pulsar")
        .mode("append")
        .option("service.url", broker.service_url)
        .option("topic", sink)
        .save()
    )
    assert received(official, sink, 1000) == sender.sent


@pytest.mark.parametrize(
    ("partitions", "options"),
    [
        (0, {}),
        (2, {}),
        (0, {"startingTime": "32503680000000"}),
        (None, {"waitingForNonExistedTopic": "true"}),
    ],
)
def test_a_batch_of_nothing(
    spark: SparkSession, broker: RunningBroker, partitions: int | None, options: dict[str, str]
) -> None:
    topic = new_topic()
    path = topic.replace("persistent://", "persistent/")
    if partitions == 0:
        assert Admin(broker).put(path).status == 204
    elif partitions:
        assert Admin(broker).put(f"{path}/partitions", partitions).status == 204
    frame = spark.read.format("pulsar").options(
        topic=topic, **{"service.url": broker.service_url}, **options
    )
    assert frame.load().collect() == []


def test_filters_that_leave_no_task(
    spark: SparkSession, broker: RunningBroker, official: pulsar.Client
) -> None:
    topic = new_topic()
    Sender(official, topic).send(0, 10)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = (
            spark.read.format("pulsar")
            .option("service.url", broker.service_url)
            .option("topic", topic)
            .option("filterPushdown", "true")
            .load()
        )
        assert frame.filter("__topic = 'another'").collect() == []
        assert len(frame.filter(f"__topic = '{topic}'").collect()) == 10
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_column_of_a_literal_is_refused_with_the_way_on(
    spark: SparkSession, broker: RunningBroker
) -> None:
    topic = new_topic()

    def write(*columns: str) -> None:
        writing = spark.range(1).selectExpr("id", "CAST(NULL AS INT) AS other", *columns).write
        options = {"service.url": broker.service_url, "topic": topic}
        writing.format("pulsar").mode("append").options(**options).save()

    write()
    with pytest.raises(PySparkException, match=r"id, extra cannot be null.* make it nullable"):
        write("'new' AS extra")
    write("IF(id >= 0, 'new', NULL) AS extra")  # as it says
