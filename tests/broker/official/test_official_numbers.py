"""What /metrics reports of an official client's backlog, also right after a kill."""

from collections.abc import Callable
from datetime import timedelta

import pulsar
from prometheus_client.parser import text_string_to_metric_families

from official import batching, connect, publish, publish_batch, take
from running_broker import RunningBroker

SHARED = pulsar.ConsumerType.Shared
TOPIC = "persistent://public/default/numbers"
AN_HOUR = timedelta(hours=1)


def numbers(broker: RunningBroker) -> dict[str, float]:
    """The figures of the only subscription."""
    return {
        sample.name.removeprefix("pulsar_subscription_"): sample.value
        for family in text_string_to_metric_families(broker.metrics)
        for sample in family.samples
        if sample.labels.get("subscription") == "sub" and sample.name.startswith("pulsar_sub")
    }


def test_backlogs_are_the_same_after_a_kill(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker()
    client = connect(broker.service_url)
    consumer = client.subscribe(TOPIC, "sub", SHARED, batch_index_ack_enabled=True)
    producer = client.create_producer(TOPIC)
    publish(producer, *map(str, range(10)))
    publish_batch(batching(client, TOPIC), *map(str, range(10, 20)))
    producer.send(b"later", deliver_after=AN_HOUR)
    for message in take(consumer, 20):
        if int(message.data()) not in (3, 12, 17):
            consumer.acknowledge(message)
    there = numbers(broker)
    client.close()  # writes out what was acknowledged
    before = numbers(broker)
    broker.kill()
    client = connect(broker.start().service_url)
    client.create_producer(TOPIC)  # a topic is loaded by its first client
    after = numbers(broker)
    client.close()
    assert there["consumers_count"] == 1
    counted = ("back_log", "back_log_no_delayed", "delayed", "storage_backlog_size")
    assert [before[name] for name in counted[:3]] == [4, 3, 1]
    assert [after[name] for name in counted] == [before[name] for name in counted]
    assert 0 < before["storage_backlog_age_seconds"] < after["storage_backlog_age_seconds"]
