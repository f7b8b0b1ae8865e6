"""Delayed delivery, as the official client asks for it; through restarts, too."""

import time
from collections.abc import Callable
from datetime import timedelta

import pulsar
import pytest

from official import TIMEOUT_MS, Again, connect, either_way, expect_no_more, publish, take, texts
from running_broker import RunningBroker

EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared
TICK_MS = 200
TOPIC = "persistent://public/default/delayed"
SETTINGS = {"delayedDeliveryTickTimeMillis": str(TICK_MS)}
FAR = timedelta(days=30)
both_types = pytest.mark.parametrize("sub_type", [SHARED, pulsar.ConsumerType.KeyShared])


def now_ms() -> int:
    return int(time.time() * 1000)


@both_types
def test_messages_come_when_they_are_due(
    client: pulsar.Client, topic: str, sub_type: pulsar.ConsumerType
) -> None:
    consumer = client.subscribe(topic, "sub", sub_type)
    producer = client.create_producer(topic)
    at_ms = now_ms() + 2500
    producer.send(b"later", deliver_at=at_ms)
    producer.send(b"long after", deliver_after=FAR)
    producer.send(b"now")
    assert sorted(texts(take(consumer, 2))) == ["later", "now"]
    assert now_ms() >= at_ms, "it came early"
    expect_no_more(client, consumer)


@pytest.mark.parametrize("sub_type", [pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Failover])
def test_types_with_one_receiver_ignore_delays(
    client: pulsar.Client, topic: str, sub_type: pulsar.ConsumerType
) -> None:
    consumer = client.subscribe(topic, "sub", sub_type)
    client.create_producer(topic).send(b"long after", deliver_after=FAR)
    assert texts(take(consumer, 1)) == ["long after"]


def test_non_persistent_messages_come_at_once(client: pulsar.Client, topic: str) -> None:
    topic = topic.replace("persistent", "non-persistent")
    consumer = client.subscribe(topic, "sub", SHARED)
    client.create_producer(topic).send(b"at once", deliver_after=FAR)
    assert texts(take(consumer, 1)) == ["at once"]


@both_types
def test_nothing_comes_early(
    make_broker: Callable[..., RunningBroker], sub_type: pulsar.ConsumerType
) -> None:
    client = connect(make_broker(**SETTINGS).service_url)
    consumer = client.subscribe(TOPIC, "sub", sub_type)
    producer = client.create_producer(TOPIC)
    due = {}
    for number, after_ms in enumerate((900, 300, 600, 301, 1)):
        due[str(number)] = now_ms() + after_ms
        producer.send(b"%d" % number, deliver_at=due[str(number)])
    while due:
        message = consumer.receive(timeout_millis=TIMEOUT_MS)
        assert now_ms() >= due.pop(message.data().decode())
    client.close()


@either_way
@both_types
def test_a_restart_brings_nothing_early_and_loses_nothing(
    make_broker: Callable[..., RunningBroker], again: Again, sub_type: pulsar.ConsumerType
) -> None:
    broker = make_broker(**SETTINGS)
    client = connect(broker.service_url)
    client.subscribe(TOPIC, "sub", sub_type).close()
    producer = client.create_producer(TOPIC)
    at_ms = now_ms() + 3500
    for number in range(20):
        producer.send(b"%d" % number, deliver_at=at_ms)
    producer.send(b"long after", deliver_after=FAR)
    producer.send(b"now")
    client.close()
    again(broker)
    client = connect(broker.service_url)
    consumer = client.subscribe(TOPIC, "sub", sub_type)
    expected = {"now", *map(str, range(20))}
    while expected:
        text = consumer.receive(timeout_millis=TIMEOUT_MS).data().decode()
        expected.remove(text)
        assert text == "now" or now_ms() >= at_ms, "it came early"
    expect_no_more(client, consumer)
    client.close()


@either_way
def test_many_delays_are_all_there_after_a_restart(
    make_broker: Callable[..., RunningBroker], again: Again
) -> None:
    broker = make_broker(**SETTINGS)
    client = connect(broker.service_url)
    client.subscribe(TOPIC, "sub", SHARED).close()
    producer = client.create_producer(TOPIC, max_pending_messages=0)
    count = 70_000
    far_ms, soon_ms = now_ms() + 10**9, now_ms() + 3000
    results: list[pulsar.Result] = []
    for number in range(count):
        at_ms = far_ms if number % 100 else soon_ms
        producer.send_async(b"%d" % number, lambda r, _: results.append(r), deliver_at=at_ms)
    producer.flush()
    assert results == [pulsar.Result.Ok] * count
    client.close()
    again(broker)
    client = connect(broker.service_url)
    consumer = client.subscribe(TOPIC, "sub", SHARED, receiver_queue_size=2000)
    came = sorted(map(int, texts(take(consumer, count // 100))))
    assert came == list(range(0, count, 100))
    assert now_ms() >= soon_ms
    expect_no_more(client, consumer)
    client.close()


def test_a_delay_that_is_too_long_is_refused(make_broker: Callable[..., RunningBroker]) -> None:
    client = connect(make_broker(delayedDeliveryMaxDelayInMillis="60000").service_url)
    producer = client.create_producer(TOPIC)
    producer.send(b"soon", deliver_after=timedelta(seconds=59))
    with pytest.raises(pulsar.PulsarException):
        producer.send(b"much later", deliver_after=timedelta(hours=1))
    publish(client.create_producer(TOPIC, producer_name="another"), "goes on")
    client.close()


def test_switched_off_messages_come_at_once(make_broker: Callable[..., RunningBroker]) -> None:
    client = connect(make_broker(delayedDeliveryEnabled="false").service_url)
    consumer = client.subscribe(TOPIC, "sub", SHARED, initial_position=EARLIEST)
    client.create_producer(TOPIC).send(b"at once", deliver_after=FAR)
    assert texts(take(consumer, 1)) == ["at once"]
    client.close()
