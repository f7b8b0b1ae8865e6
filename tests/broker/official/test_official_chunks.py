"""The official client asks for large messages again, of which it names the last chunk only."""

import pulsar

from official import expect_no_more, take

SHARED = pulsar.ConsumerType.Shared
LARGE = bytes(11 * 1024 * 1024)
"""Three chunks."""


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


def test_a_seek_right_behind_a_subscribe_loses_no_large_message(
    client: pulsar.Client, topic: str
) -> None:
    """The client drops a large message that comes after the half of it."""
    producer = client.create_producer(topic, chunking_enabled=True)
    for number in range(3):
        producer.send(bytes([number]) * (6 << 20))
    for attempt in range(20):
        consumer = client.subscribe(
            topic, f"sub-{attempt}", initial_position=pulsar.InitialPosition.Earliest
        )
        consumer.seek(pulsar.MessageId.earliest)
        assert [message.data()[0] for message in take(consumer, 3)] == [0, 1, 2]
        consumer.close()
