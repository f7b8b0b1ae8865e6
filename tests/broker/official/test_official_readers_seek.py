"""The official client reads and seeks."""

import time

import pulsar
import pytest

from official import TIMEOUT_MS, batching, publish, publish_batch, take, texts

EARLIEST = pulsar.InitialPosition.Earliest
EXCLUSIVE, SHARED = pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Shared
FAILOVER = pulsar.ConsumerType.Failover


def read_all(reader: pulsar.Reader) -> list[str]:
    """Everything up to what is the last message when it is reached."""
    found = []
    while reader.has_message_available():
        found.append(reader.read_next(timeout_millis=TIMEOUT_MS).data().decode())
    return found


def test_a_reader_reads_from_the_beginning(client: pulsar.Client, topic: str) -> None:
    payloads = [str(n) for n in range(100)]
    publish(client.create_producer(topic), *payloads)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert read_all(reader) == payloads
    assert not reader.has_message_available()


def test_a_reader_at_the_end_waits_for_what_comes(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    publish(producer, "before")
    reader = client.create_reader(topic, pulsar.MessageId.latest)
    assert not reader.has_message_available()
    publish(producer, "after")
    assert reader.read_next(timeout_millis=TIMEOUT_MS).data() == b"after"


@pytest.mark.parametrize("inclusive", [False, True])
def test_a_reader_starts_behind_or_at_a_message(
    client: pulsar.Client, topic: str, inclusive: bool
) -> None:
    ids = publish(client.create_producer(topic), *map(str, range(10)))
    reader = client.create_reader(topic, ids[4], start_message_id_inclusive=inclusive)
    assert read_all(reader) == [str(n) for n in range(4 if inclusive else 5, 10)]


def test_a_reader_starts_in_the_middle_of_a_batch(client: pulsar.Client, topic: str) -> None:
    ids = publish_batch(batching(client, topic), *map(str, range(10)))
    assert read_all(client.create_reader(topic, ids[6])) == ["7", "8", "9"]


def test_a_reader_of_an_empty_topic_has_nothing(client: pulsar.Client, topic: str) -> None:
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert not reader.has_message_available()


def test_a_reader_can_start_over(client: pulsar.Client, topic: str) -> None:
    ids = publish(client.create_producer(topic), *map(str, range(5)))
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert read_all(reader) == ["0", "1", "2", "3", "4"]
    reader.seek(ids[3])
    assert reader.read_next(timeout_millis=TIMEOUT_MS).data() in (b"3", b"4")
    reader.seek(pulsar.MessageId.earliest)
    assert reader.read_next(timeout_millis=TIMEOUT_MS).data() == b"0"


def test_a_reader_does_not_disturb_a_subscription(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "sub")
    publish(client.create_producer(topic), "a", "b")
    assert read_all(client.create_reader(topic, pulsar.MessageId.earliest)) == ["a", "b"]
    assert texts(take(consumer, 2)) == ["a", "b"]


@pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED, FAILOVER], ids=lambda kind: kind.name)
def test_seek_to_a_message(client: pulsar.Client, topic: str, kind: pulsar.ConsumerType) -> None:
    consumer = client.subscribe(topic, "sub", kind, start_message_id_inclusive=True)
    ids = publish(client.create_producer(topic), *map(str, range(10)))
    for message in take(consumer, 10):
        consumer.acknowledge(message)
    consumer.seek(ids[6])
    assert texts(take(consumer, 4)) == ["6", "7", "8", "9"]


def test_seek_to_the_beginning_and_the_end(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    consumer = client.subscribe(topic, "sub")
    publish(producer, "a", "b")
    take(consumer, 2)
    consumer.seek(pulsar.MessageId.earliest)
    assert texts(take(consumer, 2)) == ["a", "b"]
    consumer.seek(pulsar.MessageId.latest)
    publish(producer, "c")
    assert texts(take(consumer, 1)) == ["c"]


def test_seek_to_a_time(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    consumer = client.subscribe(topic, "sub")
    publish(producer, "a", "b")
    between = take(consumer, 2)[1].publish_timestamp() + 1
    while time.time() * 1000 <= between:  # publish times have whole milliseconds
        publish(producer, "late enough?")
    publish(producer, "c")
    consumer.seek(between)
    received = take(consumer, 1)
    while received[-1].data() != b"c":
        received += take(consumer, 1)
    assert all(message.publish_timestamp() >= between for message in received)
    assert not {"a", "b"} & set(texts(received))


@pytest.mark.parametrize("start", [pulsar.MessageId.earliest, pulsar.MessageId.latest])
def test_a_reader_seeks_to_a_time(
    client: pulsar.Client, topic: str, start: pulsar.MessageId
) -> None:
    producer = client.create_producer(topic)
    looking = client.create_reader(topic, pulsar.MessageId.earliest)
    publish(producer, "a")
    after = looking.read_next(TIMEOUT_MS).publish_timestamp() + 1
    while time.time() * 1000 <= after:  # publish times have whole milliseconds
        publish(producer, "late enough?")
    publish(producer, "b")
    reader = client.create_reader(topic, start)
    reader.seek(after)
    read = [reader.read_next(TIMEOUT_MS)]
    while read[-1].data() != b"b":
        read.append(reader.read_next(TIMEOUT_MS))
    assert "a" not in texts(read)


def test_seek_before_the_first_and_behind_the_last_time(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    consumer = client.subscribe(topic, "sub")
    publish(producer, "a", "b")
    take(consumer, 2)
    consumer.seek(1)
    assert texts(take(consumer, 2)) == ["a", "b"]
    consumer.seek(int(time.time() * 1000) + 60_000)
    publish(producer, "c")
    assert texts(take(consumer, 1)) == ["c"]


def test_the_last_message_id(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "sub")
    (sent,) = publish(client.create_producer(topic), "a")
    last = consumer.get_last_message_id()
    assert (last.ledger_id(), last.entry_id(), last.batch_index()) == (
        sent.ledger_id(), sent.entry_id(), -1,
    )  # fmt: skip
    batch = publish_batch(batching(client, topic), "b", "c", "d")
    last = consumer.get_last_message_id()
    assert (last.ledger_id(), last.entry_id(), last.batch_index()) == (
        batch[0].ledger_id(), batch[0].entry_id(), 2,
    )  # fmt: skip


def test_a_table_view_follows_the_latest_value_of_each_key(
    client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic)
    for key, value in (("k", b"old"), ("k", b"new"), ("other", b"x")):
        producer.send(value, partition_key=key)
    view = client.create_table_view(topic)
    assert (view.get("k"), view.get("other")) == (b"new", b"x")
    view.close()
