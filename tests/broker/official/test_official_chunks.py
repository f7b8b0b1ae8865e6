"""Redelivery of large messages to the official client, which names only the last chunk."""

from collections.abc import Iterator

import pulsar

from admin_http import Admin
from official import expect_no_more, take
from running_broker import RunningBroker

SHARED = pulsar.ConsumerType.Shared
LARGE = bytes(11 * 1024 * 1024)
"""The payload of a message in three chunks."""


def test_a_large_message_that_is_nacked_comes_again(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "sub", SHARED, negative_ack_redelivery_delay_ms=100)
    client.create_producer(topic, chunking_enabled=True).send(LARGE)
    for count in range(3):
        (message,) = take(consumer, 1)
        assert (message.data() == LARGE, message.redelivery_count()) == (True, count)
        consumer.negative_acknowledge(message)
    (message,) = take(consumer, 1)
    consumer.acknowledge(message)
    consumer.close()
    expect_no_more(client, client.subscribe(topic, "sub", SHARED))


ATTEMPTS = 20
"""The number of disconnections while receiving: nearly each is in the middle of a message."""


def with_backlog(client: pulsar.Client, topic: str, count: int) -> Iterator[pulsar.Consumer]:
    """Yield consumers of new subscriptions of a topic with large messages, numbered in byte 0."""
    producer = client.create_producer(topic, chunking_enabled=True)
    for number in range(count):
        producer.send(bytes([number]) * (6 << 20))
    producer.close()
    for attempt in range(ATTEMPTS):
        consumer = client.subscribe(
            topic, f"sub-{attempt}", initial_position=pulsar.InitialPosition.Earliest
        )
        yield consumer
        consumer.close()


def test_a_seek_right_behind_a_subscribe_loses_no_large_message(
    client: pulsar.Client, topic: str
) -> None:
    """The client drops a large message that arrives after a half of it."""
    for consumer in with_backlog(client, topic, 3):
        consumer.seek(pulsar.MessageId.earliest)
        assert [message.data()[0] for message in take(consumer, 3)] == [0, 1, 2]


def test_an_unload_loses_no_large_message(
    broker: RunningBroker, client: pulsar.Client, topic: str
) -> None:
    for consumer in with_backlog(client, topic, 5):
        assert Admin(broker).put(f"{topic.replace('://', '/')}/unload").status == 204
        left = set(range(5))
        while left:  # some come twice
            left -= {take(consumer, 1)[0].data()[0]}
