"""The official client acknowledges: what was acknowledged stays away, the rest comes again."""

import pulsar
import pytest

from official import (
    TIMEOUT_MS,
    batching,
    buried,
    expect_no_more,
    publish,
    publish_batch,
    take,
    texts,
)

EARLIEST = pulsar.InitialPosition.Earliest
EXCLUSIVE, SHARED = pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Shared
FAILOVER = pulsar.ConsumerType.Failover
TYPES = pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED, FAILOVER], ids=lambda kind: kind.name)


def reopened(
    client: pulsar.Client, topic: str, consumer: pulsar.Consumer, kind: pulsar.ConsumerType
) -> pulsar.Consumer:
    """Close a consumer, which writes out its acknowledgements, and subscribe again."""
    consumer.close()
    return client.subscribe(topic, "sub", kind, batch_index_ack_enabled=True)


@TYPES
def test_individual_acks_with_holes(
    client: pulsar.Client, topic: str, kind: pulsar.ConsumerType
) -> None:
    consumer = client.subscribe(topic, "sub", kind)
    producer = client.create_producer(topic)
    publish(producer, *map(str, range(20)))
    for message in take(consumer, 20):
        if int(message.data()) % 3:
            consumer.acknowledge(message)
    consumer = reopened(client, topic, consumer, kind)
    publish(producer, "end")
    assert texts(take(consumer, 8)) == ["0", "3", "6", "9", "12", "15", "18", "end"]


@pytest.mark.parametrize("kind", [EXCLUSIVE, FAILOVER], ids=lambda kind: kind.name)
def test_cumulative_acks(client: pulsar.Client, topic: str, kind: pulsar.ConsumerType) -> None:
    consumer = client.subscribe(topic, "sub", kind)
    publish(client.create_producer(topic), *map(str, range(20)))
    consumer.acknowledge_cumulative(take(consumer, 20)[14])
    consumer = reopened(client, topic, consumer, kind)
    assert texts(take(consumer, 5)) == ["15", "16", "17", "18", "19"]


def test_cumulative_acks_make_no_sense_on_shared(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "sub", SHARED)
    publish(client.create_producer(topic), "a")
    (message,) = take(consumer, 1)
    with pytest.raises(pulsar.CumulativeAcknowledgementNotAllowedError):
        consumer.acknowledge_cumulative(message)


@TYPES
def test_batch_index_acks(client: pulsar.Client, topic: str, kind: pulsar.ConsumerType) -> None:
    consumer = client.subscribe(topic, "sub", kind, batch_index_ack_enabled=True)
    producer = batching(client, topic)
    publish_batch(producer, *map(str, range(10)))
    publish_batch(producer, *map(str, range(10, 20)))
    for message in take(consumer, 20):
        if int(message.data()) not in (2, 7, 13):
            consumer.acknowledge(message)
    consumer = reopened(client, topic, consumer, kind)
    assert texts(take(consumer, 3)) == ["2", "7", "13"]
    expect_no_more(client, consumer)


def test_a_cumulative_ack_in_the_middle_of_a_batch(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "sub", batch_index_ack_enabled=True)
    publish_batch(batching(client, topic), *map(str, range(10)))
    consumer.acknowledge_cumulative(take(consumer, 10)[5])
    consumer = reopened(client, topic, consumer, EXCLUSIVE)
    assert texts(take(consumer, 4)) == ["6", "7", "8", "9"]


def test_without_batch_index_acks_a_batch_comes_again_as_a_whole(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "sub", SHARED)
    producer = batching(client, topic)
    publish_batch(producer, "a", "b")
    publish_batch(producer, "c", "d")
    messages = take(consumer, 4)
    for message in messages[:3]:
        consumer.acknowledge(message)
    consumer.close()
    consumer = client.subscribe(topic, "sub", SHARED)
    assert texts(take(consumer, 2)) == ["c", "d"]


def test_a_nacked_message_comes_again_and_counts(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "sub", SHARED, negative_ack_redelivery_delay_ms=100)
    publish(client.create_producer(topic), "good", "bad")
    good, bad = take(consumer, 2)
    consumer.acknowledge(good)
    for count in (1, 2):
        consumer.negative_acknowledge(bad)
        (bad,) = take(consumer, 1)
        assert (bad.data(), bad.redelivery_count()) == (b"bad", count)
    consumer.acknowledge(bad)
    expect_no_more(client, consumer)


def test_a_nack_of_one_message_of_a_batch_leaves_its_acknowledged_siblings_away(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(
        topic, "sub", SHARED, negative_ack_redelivery_delay_ms=500, batch_index_ack_enabled=True
    )
    publish_batch(batching(client, topic), *map(str, range(4)))
    messages = take(consumer, 4)
    for message in messages[:3]:
        consumer.acknowledge(message)
    consumer.negative_acknowledge(messages[3])
    (again,) = take(consumer, 1)
    assert (again.data(), again.redelivery_count()) == (b"3", 1)
    consumer.acknowledge(again)
    expect_no_more(client, consumer)


@TYPES
def test_ack_timeout_brings_a_forgotten_message_again(
    client: pulsar.Client, topic: str, kind: pulsar.ConsumerType
) -> None:
    # The client allows no ack timeout below ten seconds: asking by hand does the same.
    consumer = client.subscribe(topic, "sub", kind)
    publish(client.create_producer(topic), "kept", "forgotten", "last")
    kept, *_ = take(consumer, 3)
    consumer.acknowledge(kept)
    consumer.redeliver_unacknowledged_messages()
    assert "forgotten" in texts(take(consumer, 2))


def test_the_ack_timeout_of_the_client(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "sub", SHARED, unacked_messages_timeout_ms=10_000)
    publish(client.create_producer(topic), "kept", "forgotten")
    kept, _ = take(consumer, 2)
    consumer.acknowledge(kept)
    again = consumer.receive(timeout_millis=2 * TIMEOUT_MS)
    assert (again.data(), again.redelivery_count()) == (b"forgotten", 1)
    consumer.acknowledge(again)


def test_a_dead_letter_topic_receives_what_is_given_up(client: pulsar.Client, topic: str) -> None:
    policy = pulsar.ConsumerDeadLetterPolicy(2, f"{topic}-DLQ", "kept")
    consumer = client.subscribe(
        topic,
        "sub",
        SHARED,
        dead_letter_policy=policy,
        negative_ack_redelivery_delay_ms=100,
    )
    publish(client.create_producer(topic), "poison")
    for _ in range(3):
        consumer.negative_acknowledge(take(consumer, 1)[0])
    grave = client.subscribe(f"{topic}-DLQ", "kept", initial_position=EARLIEST)
    assert buried(consumer, grave).data() == b"poison", "the fourth time it is moved"


def test_acks_by_message_id(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "sub")
    publish(client.create_producer(topic), "a", "b", "c")
    a, b, _ = take(consumer, 3)
    consumer.acknowledge(a.message_id())
    consumer.acknowledge(pulsar.MessageId.deserialize(b.message_id().serialize()))
    consumer = reopened(client, topic, consumer, EXCLUSIVE)
    assert texts(take(consumer, 1)) == ["c"]


def test_a_consumer_may_hold_many_messages_before_it_acknowledges_them(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "sub", SHARED, receiver_queue_size=10)
    producer = client.create_producer(topic, block_if_queue_full=True)
    for number in range(3000):
        producer.send_async(str(number).encode(), lambda result, _: None)
    producer.flush()
    held = take(consumer, 3000)
    assert sorted(int(message.data()) for message in held) == list(range(3000))
    for message in held:
        consumer.acknowledge(message)
    consumer = reopened(client, topic, consumer, SHARED)
    publish(client.create_producer(topic), "end")
    assert texts(take(consumer, 1)) == ["end"]
