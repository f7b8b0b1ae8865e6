"""The official Python client, which is the C++ one underneath: what reaches across features."""

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pulsar
import pytest

from official import (
    TIMEOUT_MS,
    batching,
    buried,
    connect,
    expect_no_more,
    expect_silence,
    publish,
    take,
    texts,
)
from running_broker import RunningBroker

EARLIEST = pulsar.InitialPosition.Earliest
KEY_SHARED, SHARED = pulsar.ConsumerType.KeyShared, pulsar.ConsumerType.Shared
DIVIDING = pytest.mark.parametrize("kind", [SHARED, KEY_SHARED], ids=lambda kind: kind.name)
LARGE = 11 * 1024 * 1024
"""Three chunks: the client cuts at what the broker takes, and it does not let one choose less."""


@pytest.fixture
def clients(broker: RunningBroker) -> Iterator[Callable[[], pulsar.Client]]:
    """Makes clients of the shared broker, each with a connection of its own."""
    made: list[pulsar.Client] = []

    def make() -> pulsar.Client:
        made.append(connect(broker.service_url))
        return made[-1]

    yield make
    for one in made:
        one.close()


def large(number: int) -> bytes:
    """A payload that is nowhere like another."""
    return bytes([65 + number]) * LARGE + str(number).encode()


@DIVIDING
def test_large_messages_are_divided_whole(
    clients: Callable[[], pulsar.Client], topic: str, kind: pulsar.ConsumerType
) -> None:
    got: list[int] = []
    everything = threading.Event()
    expected = {large(number): number for number in range(6)}

    def listen(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        got.append(expected[message.data()])
        consumer.acknowledge(message)
        if len(got) == len(expected):
            everything.set()

    for _ in range(2):
        clients().subscribe(topic, "sub", kind, message_listener=listen)
    producers = [
        clients().create_producer(topic, chunking_enabled=True, send_timeout_millis=60_000)
        for _ in range(2)
    ]
    for payload, number in expected.items():
        producers[number % 2].send_async(payload, lambda *_: None, partition_key=f"k{number}")
    for producer in producers:
        producer.flush()
    assert everything.wait(TIMEOUT_MS / 1000), got
    assert sorted(got) == sorted(expected.values())


@DIVIDING
def test_a_large_message_that_is_not_acknowledged_comes_again_whole(
    client: pulsar.Client, topic: str, kind: pulsar.ConsumerType
) -> None:
    leaving = client.subscribe(topic, "sub", kind)
    client.create_producer(topic, chunking_enabled=True).send(large(1), partition_key="k")
    take(leaving, 1)
    leaving.close()
    staying = client.subscribe(topic, "sub", kind)
    (again,) = take(staying, 1)
    assert again.data() == large(1)
    staying.acknowledge(again)
    staying.close()
    expect_no_more(client, client.subscribe(topic, "sub", kind))


@pytest.mark.parametrize(
    "kind", pulsar.ConsumerType.__members__.values(), ids=lambda kind: kind.name
)
def test_a_large_message_that_is_nacked_comes_again_whole(
    client: pulsar.Client, topic: str, kind: pulsar.ConsumerType
) -> None:
    consumer = client.subscribe(topic, "sub", kind, negative_ack_redelivery_delay_ms=100)
    client.create_producer(topic, chunking_enabled=True).send(large(1), partition_key="k")
    (message,) = take(consumer, 1)
    consumer.negative_acknowledge(message)
    (again,) = take(consumer, 1)
    assert again.data() == large(1)
    consumer.acknowledge(again)
    expect_no_more(client, consumer)


@DIVIDING
def test_what_is_nacked_too_often_goes_to_the_dead_letter_topic(
    client: pulsar.Client, topic: str, kind: pulsar.ConsumerType
) -> None:
    policy = pulsar.ConsumerDeadLetterPolicy(2, f"{topic}-graves", "kept")
    consumer = client.subscribe(
        topic, "sub", kind, dead_letter_policy=policy, negative_ack_redelivery_delay_ms=100
    )
    publish(client.create_producer(topic), "poison", "good")
    counts: Counter[str] = Counter()
    for message in (take(consumer, 1)[0] for _ in range(4)):
        counts[message.data().decode()] += 1
        if message.data() == b"good":
            consumer.acknowledge(message)
        else:
            assert message.redelivery_count() == counts["poison"] - 1
            consumer.negative_acknowledge(message)
    assert counts == {"poison": 3, "good": 1}
    grave = client.subscribe(f"{topic}-graves", "kept", initial_position=EARLIEST)
    assert buried(consumer, grave).data() == b"poison"


def test_an_exclusive_producer_is_alone_and_may_be_fenced(
    client: pulsar.Client, clients: Callable[[], pulsar.Client], topic: str
) -> None:
    modes = pulsar.ProducerAccessMode
    holder = client.create_producer(topic, access_mode=modes.Exclusive)
    with pytest.raises(pulsar.ProducerFenced):
        clients().create_producer(topic, access_mode=modes.Exclusive)
    with pytest.raises(pulsar.ProducerBusy):
        clients().create_producer(topic)
    taker = clients().create_producer(topic, access_mode=modes.ExclusiveWithFencing)
    taker.send(b"new")
    with pytest.raises(pulsar.PulsarException):
        holder.send(b"old")
    consumer = client.subscribe(topic, "sub", initial_position=EARLIEST)
    assert texts(take(consumer, 1)) == ["new"]
    expect_silence(consumer)


def test_a_producer_that_comes_back_does_not_double(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker(brokerDeduplicationEnabled="true")
    client = connect(broker.service_url)
    first = client.create_producer("t", producer_name="me")
    for number in range(10):
        first.send(str(number).encode(), sequence_id=number)
    first.close()
    broker.kill()
    broker.start()
    second = client.create_producer("t", producer_name="me")
    assert second.last_sequence_id() == 9
    for number in range(5, 15):
        second.send(str(number).encode(), sequence_id=number)
    consumer = client.subscribe("t", "sub", initial_position=EARLIEST)
    assert texts(take(consumer, 15)) == [str(number) for number in range(15)]
    expect_no_more(client, consumer)
    client.close()


def test_delays_nacks_batches_and_keys_together(
    client: pulsar.Client, clients: Callable[[], pulsar.Client], topic: str
) -> None:
    """Every message is acknowledged once, whatever happened to it before."""
    acked: Counter[str] = Counter()
    everything = threading.Event()
    numbers = itertools.count()

    def listen(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        if message.redelivery_count() == 0 and next(numbers) % 5 == 0:
            consumer.negative_acknowledge(message)
            return
        consumer.acknowledge(message)
        acked[message.data().decode()] += 1
        if len(acked) == 90:
            everything.set()

    for _ in range(3):
        clients().subscribe(
            topic,
            "sub",
            KEY_SHARED,
            message_listener=listen,
            negative_ack_redelivery_delay_ms=100,
            batch_index_ack_enabled=True,
        )
    by_key = batching(client, topic, batching_type=pulsar.BatchingType.KeyBased)
    plain = client.create_producer(topic)
    for number in range(90):
        key, payload = f"k{number % 7}", str(number).encode()
        if number % 3 == 0:
            plain.send(payload, partition_key=key, deliver_at=1 + number)
        else:
            by_key.send_async(payload, lambda *_: None, partition_key=key)
    by_key.flush()
    assert everything.wait(TIMEOUT_MS / 1000), sorted(acked)
    assert set(acked) == {str(number) for number in range(90)}
