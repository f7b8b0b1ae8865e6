"""The official client reads compacted topics."""

from collections.abc import Callable

import pulsar
import pytest

from admin_http import Admin
from compacting import compact, ended, path_of
from official import TIMEOUT_MS, batching, connect, take
from running_broker import RunningBroker

EARLIEST = pulsar.InitialPosition.Earliest
Pair = tuple[str, str]


def publish(producer: pulsar.Producer, *pairs: Pair) -> list[pulsar.MessageId]:
    """Messages with keys, all of them acknowledged on return."""
    ids: list[pulsar.MessageId] = []
    for key, value in pairs:
        producer.send_async(
            value.encode(), lambda result, made: ids.append(made), partition_key=key
        )
    producer.flush()
    assert len(ids) == len(pairs)
    return ids


def pairs_of(reader: pulsar.Reader) -> list[Pair]:
    """Everything up to what is the last message.

    This client hands out what was compacted out of batches: empty, without a key.
    """
    found = []
    while reader.has_message_available():
        message = reader.read_next(timeout_millis=TIMEOUT_MS)
        if message.partition_key():
            found.append((message.partition_key(), message.data().decode()))
    return found


def reader_of(
    client: pulsar.Client, topic: str, start: pulsar.MessageId = pulsar.MessageId.earliest
) -> pulsar.Reader:
    return client.create_reader(topic, start, is_read_compacted=True)


@pytest.mark.parametrize("batched", [False, True])
def test_a_reader_gets_the_last_message_of_each_key(
    client: pulsar.Client, broker: RunningBroker, topic: str, batched: bool
) -> None:
    producer = batching(client, topic) if batched else client.create_producer(topic)
    publish(producer, *((f"k{n % 10}", str(n)) for n in range(100)), ("k3", ""))
    compact(broker, topic)
    wanted = [(f"k{n % 10}", str(n)) for n in range(90, 100) if n != 93]
    assert pairs_of(reader_of(client, topic)) == wanted
    publish(producer, ("k1", "behind"), ("k1", "the horizon"))
    assert pairs_of(reader_of(client, topic)) == [*wanted, ("k1", "behind"), ("k1", "the horizon")]
    compact(broker, topic)
    wanted = [pair for pair in wanted if pair[0] != "k1"]
    assert pairs_of(reader_of(client, topic)) == [*wanted, ("k1", "the horizon")]


def test_a_reader_may_begin_anywhere_and_start_over(
    client: pulsar.Client, broker: RunningBroker, topic: str
) -> None:
    ids = publish(
        client.create_producer(topic), ("a", "1"), ("b", "2"), ("a", "3"), ("c", "4"), ("d", "5")
    )
    compact(broker, topic)
    assert pairs_of(reader_of(client, topic, ids[1])) == [("a", "3"), ("c", "4"), ("d", "5")]
    assert pairs_of(reader_of(client, topic, ids[0])) == [
        ("b", "2"), ("a", "3"), ("c", "4"), ("d", "5"),
    ]  # fmt: skip
    reader = reader_of(client, topic)
    pairs_of(reader)
    reader.seek(ids[3])
    assert pairs_of(reader) == [("d", "5")]


def test_a_durable_subscription_continues_at_its_position(
    client: pulsar.Client, broker: RunningBroker, topic: str
) -> None:
    publish(client.create_producer(topic), ("a", "1"), ("b", "2"), ("a", "3"), ("c", "4"))
    compact(broker, topic)

    def subscribed() -> pulsar.Consumer:
        return client.subscribe(topic, "sub", initial_position=EARLIEST, is_read_compacted=True)

    consumer = subscribed()
    first, second = take(consumer, 2)
    assert (first.data(), second.data()) == (b"2", b"3")
    consumer.acknowledge(first)
    consumer.acknowledge_cumulative(second)
    consumer.close()
    consumer = subscribed()
    assert [message.data() for message in take(consumer, 1)] == [b"4"]


def test_a_table_view_of_a_compacted_topic(
    client: pulsar.Client, broker: RunningBroker, topic: str
) -> None:
    producer = client.create_producer(topic)
    publish(producer, ("a", "1"), ("b", "2"), ("a", "3"), ("b", ""))
    compact(broker, topic)
    view = client.create_table_view(topic)
    assert {key: view.get(key) for key in ("a", "b")} == {"a": b"3", "b": None}


def test_only_one_compaction_at_a_time(
    make_broker: Callable[..., RunningBroker], topic: str
) -> None:
    broker = make_broker(magnetarCompactionReadMBPerSecond="1")
    connected = connect(broker.service_url)
    producer = connected.create_producer(topic)
    value = "x" * 100_000
    publish(producer, *((str(n), value) for n in range(10)))
    assert Admin(broker).put(path_of(topic)).status == 204
    assert Admin(broker).put(path_of(topic)).status == 409
    assert ended(broker, topic)["status"] == "SUCCESS"
    connected.close()


def test_a_topic_is_compacted_when_its_threshold_is_passed(
    make_broker: Callable[..., RunningBroker], topic: str
) -> None:
    broker = make_broker(
        brokerServiceCompactionMonitorIntervalInSeconds="1",
        brokerServiceCompactionThresholdInBytes="1000",
    )
    connected = connect(broker.service_url)
    publish(connected.create_producer(topic), *(("a", "x" * 100) for _ in range(50)))
    assert ended(broker, topic)["status"] == "SUCCESS"
    assert len(pairs_of(reader_of(connected, topic))) == 1
    connected.close()


def test_a_kill_in_the_middle_loses_nothing(
    make_broker: Callable[..., RunningBroker], topic: str
) -> None:
    broker = make_broker(
        magnetarCompactionReadMBPerSecond="1",
        managedLedgerMaxEntriesPerLedger="20",
        managedLedgerMinLedgerRolloverTimeMinutes="0",
        retentionCheckIntervalInSeconds="1",
    )
    wanted: dict[str, str] = {}
    for turn in range(4):
        connected = connect(broker.service_url)
        producer = connected.create_producer(topic)
        for part in range(turn + 1):
            pairs = [
                (f"k{n}", f"{turn} {part} {n}" + "x" * 9_000) for n in range(part, 13 * part + 9)
            ]
            publish(producer, *pairs)
            wanted |= dict(pairs)
            if part == 0:
                Admin(broker).put(path_of(topic))
        connected.close()
        broker.kill()
        broker.start()
        connected = connect(broker.service_url)
        assert dict(pairs_of(reader_of(connected, topic))) == wanted
        connected.close()
    assert Admin(broker).put(path_of(topic)).status in (204, 409)
    assert ended(broker, topic)["status"] == "SUCCESS"
    connected = connect(broker.service_url)
    assert dict(pairs_of(reader_of(connected, topic))) == wanted
    connected.close()
