"""Messages published before the first subscription are retained for it."""

import time
from collections.abc import Callable

import pulsar

from admin_http import Admin
from crash.file_events import FileEvents
from official import TIMEOUT_MS, connect, expect_silence, publish, take, texts
from running_broker import RunningBroker

OFTEN = {"brokerDeleteInactiveTopicsFrequencySeconds": "1", "retentionCheckIntervalInSeconds": "1"}
LIST = "persistent/public/default"
EMPTY, PRECIOUS, DEAD = (
    f"persistent://public/default/{name}" for name in ("empty", "precious", "orders-billing-DLQ")
)


def await_deletion(broker: RunningBroker, topic: str) -> None:
    """Wait until the topic is deleted, checking at each change of the metadata and each second."""
    deadline = time.monotonic() + TIMEOUT_MS / 1000
    with FileEvents(broker.data_dir) as events:
        while topic in Admin(broker).get(LIST).json:
            assert time.monotonic() < deadline, f"{topic} is not deleted"
            events.await_change("metadata.db", 1)


def fill(broker: RunningBroker) -> None:
    """Publish to a topic without subscription, create a dead letter, and an empty topic."""
    client = connect(broker.service_url)
    producer = client.create_producer(PRECIOUS)
    publish(producer, "1", "2", "3")
    consumer = client.subscribe(
        "persistent://public/default/orders",
        "billing",
        pulsar.ConsumerType.Shared,
        dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(1, DEAD),
        negative_ack_redelivery_delay_ms=10,
    )
    publish(client.create_producer("persistent://public/default/orders"), "bad")
    for _ in range(2):
        consumer.negative_acknowledge(*take(consumer, 1))
    while DEAD not in Admin(broker).get(LIST).json:  # the client moves it there as it receives
        expect_silence(consumer)
    client.create_producer(EMPTY)
    client.close()


def test_they_outlive_topics_without_messages(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker(**OFTEN)
    fill(broker)
    await_deletion(broker, EMPTY)
    client = connect(broker.service_url)
    for topic, sent in ((PRECIOUS, ["1", "2", "3"]), (DEAD, ["bad"])):
        consumer = client.subscribe(topic, "late", initial_position=pulsar.InitialPosition.Earliest)
        assert texts(take(consumer, len(sent))) == sent
    client.close()


def test_as_in_pulsar_their_topic_goes(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker(magnetarUnreadMessagesRetentionMinutes="0", **OFTEN)
    client = connect(broker.service_url)
    publish(client.create_producer(PRECIOUS), "1")
    client.close()
    await_deletion(broker, PRECIOUS)
