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
