"""The official client lives through restarts: it reconnects by itself and loses nothing."""

import threading
from collections.abc import Callable

import pulsar

from official import (
    TIMEOUT_MS,
    Again,
    batching,
    connect,
    either_way,
    publish,
    publish_batch,
    take,
    texts,
)
from running_broker import RunningBroker

EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared
TOPIC = "persistent://public/default/restarted"


@either_way
def test_messages_are_still_there(make_broker: Callable[..., RunningBroker], again: Again) -> None:
    broker = make_broker()
    client = connect(broker.service_url)
    publish(client.create_producer(TOPIC), *map(str, range(100)))
    publish_batch(batching(client, TOPIC), *map(str, range(100, 200)))
    client.close()
    again(broker)
    client = connect(broker.service_url)
    consumer = client.subscribe(TOPIC, "sub", initial_position=EARLIEST)
    assert texts(take(consumer, 200)) == [str(n) for n in range(200)]
    client.close()


@either_way
def test_acks_are_remembered(make_broker: Callable[..., RunningBroker], again: Again) -> None:
    broker = make_broker()
    client = connect(broker.service_url)
    shared = client.subscribe(TOPIC, "holes", SHARED, batch_index_ack_enabled=True)
    exclusive = client.subscribe(TOPIC, "cumulative")
    publish(client.create_producer(TOPIC), *map(str, range(10)))
    publish_batch(batching(client, TOPIC), *map(str, range(10, 20)))
    for message in take(shared, 20):
        if int(message.data()) not in (3, 12, 17):
            shared.acknowledge(message)
    exclusive.acknowledge_cumulative(take(exclusive, 20)[7])
    client.close()  # writes out what was acknowledged
    again(broker)
    client = connect(broker.service_url)
    shared = client.subscribe(TOPIC, "holes", SHARED, batch_index_ack_enabled=True)
    exclusive = client.subscribe(TOPIC, "cumulative")
    publish(client.create_producer(TOPIC), "end")
    assert texts(take(shared, 4)) == ["3", "12", "17", "end"]
    assert texts(take(exclusive, 13)) == [*map(str, range(8, 20)), "end"]
    client.close()


@either_way
def test_a_connected_client_continues(
    make_broker: Callable[..., RunningBroker], again: Again
) -> None:
    broker = make_broker()
    client = connect(broker.service_url)
    producer = client.create_producer(TOPIC)
    consumer = client.subscribe(TOPIC, "sub")
    publish(producer, "before")
    consumer.acknowledge(take(consumer, 1)[0])
    consumer.acknowledge(_round_trip(producer, consumer))
    again(broker)
    publish(producer, "after")
    received = take(consumer, 1)
    while received[-1].data() != b"after":  # the last ack may not have left the client yet
        received += take(consumer, 1)
    assert set(texts(received)) <= {"before", "between", "after"}
    client.close()


def _round_trip(producer: pulsar.Producer, consumer: pulsar.Consumer) -> pulsar.Message:
    publish(producer, "between")
    return take(consumer, 1)[0]


def test_what_was_sent_while_the_broker_was_away_arrives_once_and_in_order(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker()
    client = connect(broker.service_url)
    producer = client.create_producer(TOPIC)
    consumer = client.subscribe(TOPIC, "sub")
    publish(producer, "0")
    broker.stop()
    results: list[pulsar.Result] = []
    answered = threading.Semaphore(0)

    def note(result: pulsar.Result, _: object) -> None:
        results.append(result)
        answered.release()

    for number in range(1, 50):
        producer.send_async(str(number).encode(), note)
    broker.start()
    for _ in range(49):
        assert answered.acquire(timeout=TIMEOUT_MS / 1000)
    assert set(results) == {pulsar.Result.Ok}
    received = texts(take(consumer, 50))
    if received[:2] == ["0", "0"]:  # it was not acknowledged, so it may come again
        received = received[1:] + texts(take(consumer, 1))
    assert received == [str(n) for n in range(50)]
    client.close()


def test_redelivery_continues_after_a_restart(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker()
    client = connect(broker.service_url)
    consumer = client.subscribe(TOPIC, "sub", SHARED, negative_ack_redelivery_delay_ms=100)
    publish(client.create_producer(TOPIC), "bad")
    consumer.negative_acknowledge(take(consumer, 1)[0])
    (again,) = take(consumer, 1)
    assert again.redelivery_count() == 1
    broker.restart()
    (again,) = take(consumer, 1)
    assert again.data() == b"bad"
    client.close()


def test_partitions_and_subscriptions_outlive_a_kill(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker(allowAutoTopicCreationType="partitioned", defaultNumPartitions="3")
    client = connect(broker.service_url)
    consumer = client.subscribe("split", "sub")
    publish(client.create_producer("split"), *map(str, range(9)))
    for message in take(consumer, 9):
        if message.data() != b"4":
            consumer.acknowledge(message)
    client.close()
    broker.kill()
    broker.start()
    client = connect(broker.service_url)
    assert len(client.get_topic_partitions("split")) == 3
    assert texts(take(client.subscribe("split", "sub"), 1)) == ["4"]
    client.close()


def test_a_stop_is_graceful_and_clean(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker()
    client = connect(broker.service_url)
    publish(client.create_producer(TOPIC), "a")
    assert broker.stop() == 0
    assert "Traceback" not in broker.log and "ERROR" not in broker.log
    client.close()


def test_a_reader_continues_at_its_position(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker()
    client = connect(broker.service_url)
    producer = client.create_producer(TOPIC)
    reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
    client.subscribe(TOPIC, "keeper")
    publish(producer, "a", "b")
    assert reader.read_next(timeout_millis=TIMEOUT_MS).data() == b"a"
    assert reader.read_next(timeout_millis=TIMEOUT_MS).data() == b"b"
    broker.kill()
    broker.start()
    publish(producer, "c")
    assert reader.read_next(timeout_millis=TIMEOUT_MS).data() == b"c"
    client.close()
