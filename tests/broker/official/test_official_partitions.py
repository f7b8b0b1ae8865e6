"""The official client on partitioned and on non-persistent topics."""

from collections import defaultdict

import pulsar

from admin_http import Admin
from official import batching, expect_no_more, publish, publish_batch, take, texts
from running_broker import RunningBroker

EARLIEST = pulsar.InitialPosition.Earliest
SHARED, FAILOVER = pulsar.ConsumerType.Shared, pulsar.ConsumerType.Failover


def create_partitions(broker: RunningBroker, topic: str, partitions: int) -> None:
    """As an administrator does it."""
    path = topic.replace("://", "/")
    assert Admin(broker).put(f"{path}/partitions", partitions).status == 204


def test_clients_see_the_partitions(
    broker: RunningBroker, client: pulsar.Client, topic: str
) -> None:
    assert client.get_topic_partitions(topic) == [topic]
    create_partitions(broker, f"{topic}-split", 4)
    assert client.get_topic_partitions(f"{topic}-split") == [
        f"{topic}-split-partition-{n}" for n in range(4)
    ]


def test_a_message_without_a_key_goes_round_and_all_arrive(
    broker: RunningBroker, client: pulsar.Client, topic: str
) -> None:
    create_partitions(broker, topic, 4)
    consumer = client.subscribe(topic, "sub")
    ids = publish(client.create_producer(topic), *map(str, range(40)))
    assert {message_id.partition() for message_id in ids} == {0, 1, 2, 3}
    assert sorted(texts(take(consumer, 40)), key=int) == [str(n) for n in range(40)]


def test_a_key_stays_in_its_partition_and_in_order(
    broker: RunningBroker, client: pulsar.Client, topic: str
) -> None:
    create_partitions(broker, topic, 3)
    consumer = client.subscribe(topic, "sub", FAILOVER)
    producer = client.create_producer(topic)
    for number in range(60):
        producer.send(str(number).encode(), partition_key=f"key{number % 6}")
    numbers, partitions = defaultdict(list), defaultdict(set)
    for message in take(consumer, 60):
        numbers[message.partition_key()].append(int(message.data()))
        partitions[message.partition_key()].add(message.message_id().partition())
    assert numbers == {f"key{k}": list(range(k, 60, 6)) for k in range(6)}
    assert all(len(where) == 1 for where in partitions.values())
    assert len(set.union(*partitions.values())) > 1


def test_acks_of_partitions_are_kept_apart(
    broker: RunningBroker, client: pulsar.Client, topic: str
) -> None:
    create_partitions(broker, topic, 2)
    consumer = client.subscribe(topic, "sub", SHARED)
    publish(client.create_producer(topic), *map(str, range(10)))
    for message in take(consumer, 10):
        if message.message_id().partition() == 1:
            consumer.acknowledge(message)
    consumer.close()
    again = take(client.subscribe(topic, "sub", SHARED), 5)
    assert {message.message_id().partition() for message in again} == {0}


def test_one_partition_is_a_topic_of_its_own(
    broker: RunningBroker, client: pulsar.Client, topic: str
) -> None:
    create_partitions(broker, topic, 2)
    consumer = client.subscribe(f"{topic}-partition-1", "sub")
    publish(client.create_producer(topic), *map(str, range(8)))
    assert len(take(consumer, 4)) == 4
    expect_no_more(client, consumer)


def test_failover_over_partitions_divides_them(
    broker: RunningBroker, client: pulsar.Client, topic: str
) -> None:
    create_partitions(broker, topic, 4)
    first = client.subscribe(topic, "sub", FAILOVER, consumer_name="a")
    second = client.subscribe(topic, "sub", FAILOVER, consumer_name="b")
    publish(client.create_producer(topic), *map(str, range(40)))
    received = [take(consumer, 20) for consumer in (first, second)]
    where = [{message.message_id().partition() for message in each} for each in received]
    assert where == [{0, 2}, {1, 3}]


def test_a_reader_of_all_partitions(
    broker: RunningBroker, client: pulsar.Client, topic: str
) -> None:
    create_partitions(broker, topic, 3)
    publish(client.create_producer(topic), *map(str, range(12)))
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    found = []
    while reader.has_message_available():
        found.append(reader.read_next(timeout_millis=120_000).data().decode())
    assert sorted(found, key=int) == [str(n) for n in range(12)]


def test_a_non_persistent_topic_delivers_to_connected_consumers(
    client: pulsar.Client, topic: str
) -> None:
    volatile = topic.replace("persistent://", "non-persistent://")
    producer = client.create_producer(volatile)
    publish(producer, "no consumer")
    consumer = client.subscribe(volatile, "sub", initial_position=EARLIEST)
    publish(producer, "a")
    publish_batch(batching(client, volatile), "b", "c")
    received = take(consumer, 3)
    assert texts(received) == ["a", "b", "c"]
    for message in received:
        consumer.acknowledge(message)


def test_a_volatile_topic_keeps_nothing_for_a_consumer_that_left(
    client: pulsar.Client, topic: str
) -> None:
    volatile = topic.replace("persistent://", "non-persistent://")
    producer = client.create_producer(volatile)
    consumer = client.subscribe(volatile, "sub", SHARED)
    publish(producer, "a")
    take(consumer, 1)
    consumer.close()
    publish(producer, "lost")
    consumer = client.subscribe(volatile, "sub", SHARED)
    publish(producer, "b")
    assert texts(take(consumer, 1)) == ["b"]


def test_a_volatile_topic_with_two_subscriptions(client: pulsar.Client, topic: str) -> None:
    volatile = topic.replace("persistent://", "non-persistent://")
    consumers = [client.subscribe(volatile, name) for name in ("one", "two")]
    publish(client.create_producer(volatile), "a", "b")
    assert [texts(take(consumer, 2)) for consumer in consumers] == [["a", "b"], ["a", "b"]]


def test_a_partitioned_volatile_topic(
    broker: RunningBroker, client: pulsar.Client, topic: str
) -> None:
    volatile = topic.replace("persistent://", "non-persistent://")
    create_partitions(broker, volatile, 3)
    consumer = client.subscribe(volatile, "sub", SHARED)
    publish(client.create_producer(volatile), *map(str, range(9)))
    assert sorted(texts(take(consumer, 9))) == [str(n) for n in range(9)]
